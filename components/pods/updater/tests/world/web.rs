//! An independent HTTPS server: Python's.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server, until it is dropped.
pub struct Web {
    python: Child,
    port: u16,
    keys: PathBuf,
}

impl Web {
    /// Serves a folder, with a new CA in the folder `keys` and a certificate for this address.
    pub fn start(folder: &Path, keys: PathBuf, address: &str) -> Web {
        Web::start_with_rate(folder, keys, address, None)
    }

    /// The same, limited to `rate` bytes per second for each connection.
    pub fn start_with_rate(folder: &Path, keys: PathBuf, address: &str, rate: Option<u64>) -> Web {
        fs::create_dir(&keys).unwrap();
        let mut python = Command::new("python3");
        python
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/world/https.py"))
            .arg(folder)
            .arg("0")
            .arg(&keys)
            .arg(format!("IP:{address}"));
        python.args(rate.map(|rate| rate.to_string()));
        let mut python = python
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(python.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Web { python, port: port.trim().parse().unwrap(), keys }
    }

    /// The server's address.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The certificate of the CA that clients must trust.
    pub fn authority(&self) -> PathBuf {
        self.keys.join("ca.crt")
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        // It ends when its standard input does.
        drop(self.python.stdin.take());
        self.python.wait().unwrap();
    }
}
