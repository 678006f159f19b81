//! A program of the lab on this host.

use crate::child::tied;
use crate::site::{Site, tail};
use osbuild::error::{Context, Error, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// A running program. It ends when this is dropped, and also when the thread that started it ends.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program of `bin`. Its output is written to the log `cluster-NAME`.
    pub fn start(site: &Site, bin: &Path, name: &str, arguments: &[String]) -> Result<Self> {
        let log = site.log(&format!("cluster-{name}"));
        let cannot = || format!("cannot write `{}`", log.display());
        let stdout = File::create(&log).or_build(cannot)?;
        let stderr = stdout.try_clone().or_build(cannot)?;
        let mut command = tied(bin.join(name));
        command.args(arguments);
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        let child = command.spawn().or_build(|| format!("cannot start `{name}`"))?;
        Ok(Process { name: name.to_owned(), child, log })
    }

    /// Checks that it still runs.
    ///
    /// # Errors
    /// It has ended.
    pub fn is_running(&mut self) -> Result<()> {
        match self.child.try_wait().or_build(|| format!("cannot wait for `{}`", self.name))? {
            None => Ok(()),
            Some(status) => Err(self.failure(&format!("`{}` ended: {status}", self.name))),
        }
    }

    /// An error that shows the end of its output.
    pub fn failure(&self, message: &str) -> Error {
        let output = fs::read(&self.log).unwrap_or_default();
        Error::build(message).log(tail(&String::from_utf8_lossy(&output), &self.log))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if the process is gone already. Its data are removed with its folder, so
        // it needs no orderly end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
