//! Python's web server.

use crate::child::tied;
use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use std::fs::File;
use std::path::Path;
use std::process::{Child, Stdio};

/// A web server on the loopback, until it is dropped.
pub struct Web {
    python: Child,
}

impl Web {
    /// Serves the files of `folder`. The requests are written to the log `log`.
    pub fn serve(site: &Site, log: &str, folder: &Path, port: u16) -> Result<Self> {
        let log = site.log(log);
        let log_file =
            File::create(&log).or_build(|| format!("cannot write `{}`", log.display()))?;
        let mut python = tied("python3");
        python.args(["-m", "http.server", "--protocol", "HTTP/1.1", "--bind", "127.0.0.1"]);
        python.arg(port.to_string()).arg("--directory");
        let python =
            python.arg(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log_file).spawn();
        Ok(Web {
            python: python.map_err(|error| Error::build("cannot start `python3`").cause(error))?,
        })
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.python.kill();
        let _ = self.python.wait();
    }
}
