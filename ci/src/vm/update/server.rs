//! A web server on the loopback that serves the repository by HTTPS: Python's, unmodified.

use super::lab::{Lab, SERVER};
use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// The program, which the updater's own tests use as well.
const PROGRAM: &str = "components/pods/updater/tests/world/https.py";

/// A server, until it is dropped.
pub struct Server {
    python: Child,
    port: u16,
}

impl Server {
    /// Serves the repository at this port, or at a free one if it is 0. A CA of the lab signs the
    /// server's certificate.
    pub fn start(site: &Site, lab: &Lab, port: u16) -> Result<Self> {
        let (log, web) = (site.log("update-server"), lab.web());
        fs::create_dir_all(&web).or_build(|| format!("cannot make `{}`", web.display()))?;
        let log_file =
            File::create(&log).or_build(|| format!("cannot write `{}`", log.display()))?;
        let mut python = Command::new("python3");
        python
            .arg(site.root.join(PROGRAM))
            .arg(lab.repository())
            .arg(port.to_string())
            .arg(web)
            .arg(format!("DNS:{SERVER}"));
        // It ends when its standard input is closed.
        python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log_file);
        let mut python = python.spawn().or_build(|| "cannot start `python3`".to_owned())?;
        let mut line = String::new();
        if let Some(stdout) = python.stdout.take() {
            BufReader::new(stdout)
                .read_line(&mut line)
                .or_build(|| "cannot read the output of `python3`".to_owned())?;
        }
        let server = Server { python, port: line.trim().parse().unwrap_or_default() };
        if server.port > 0 {
            Ok(server)
        } else {
            Err(Error::build("the web server does not start").cause(log.display()))
        }
    }

    /// The port on the loopback.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.python.stdin.take());
        // It fails only if the process is gone already.
        let _ = self.python.wait();
    }
}
