//! A node that `osbuild run` boots while somebody looks at it.

use super::machine::PROCESSORS;
use crate::site::Site;
use osbuild::error::{Context, Error, LogTail, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::Read;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// How long a node may take to get ready, and a probe to answer.
const PATIENCE: Duration = Duration::from_secs(300);

const CANNOT_WAIT: &str = "cannot wait for `osbuild run`";

/// How often the log is looked at.
const TICK: Duration = Duration::from_millis(200);

/// A running `osbuild run`. Dropping it ends it as Ctrl-C would.
pub struct Node {
    child: Child,
    log: PathBuf,
}

impl Node {
    /// Boots `recipe` with more flags, and comes back when it is ready. What is said goes to the
    /// log `name`.
    pub fn boot(site: &Site, name: &str, recipe: &str, flags: &[&str]) -> Result<Self> {
        let mut node = Self::start(site, name, recipe, flags)?;
        node.until("ready after ")?;
        Ok(node)
    }

    /// The same of a recipe in another copy of the checkout.
    pub fn boot_in(
        site: &Site,
        project: &Path,
        name: &str,
        recipe: &str,
        flags: &[&str],
    ) -> Result<Self> {
        let mut node = Self::start_in(site, project, name, recipe, flags)?;
        node.until("ready after ")?;
        Ok(node)
    }

    /// Boots `recipe` with more flags, and comes back at once. What is said goes to the log `name`.
    pub fn start(site: &Site, name: &str, recipe: &str, flags: &[&str]) -> Result<Self> {
        Self::start_in(site, &site.project(), name, recipe, flags)
    }

    fn start_in(
        site: &Site,
        project: &Path,
        name: &str,
        recipe: &str,
        flags: &[&str],
    ) -> Result<Self> {
        let log = site.log(name);
        let cannot = || format!("cannot write `{}`", log.display());
        let file = File::create(&log).or_build(cannot)?;
        let other = file.try_clone().or_build(cannot)?;
        let mut osbuild = site.osbuild()?;
        osbuild
            .current_dir(project)
            .args(["run", recipe, "--cpus", &PROCESSORS.to_string(), "--yes"])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(other);
        let child = osbuild.spawn().or_build(|| "cannot start `osbuild`".to_owned())?;
        Ok(Node { child, log })
    }

    /// Waits until a line begins with `words`.
    pub fn until(&mut self, words: &str) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while self.said()?.lines().all(|line| !line.starts_with(words)) {
            let ended = self.child.try_wait().or_build(|| CANNOT_WAIT.to_owned())?;
            if let Some(status) = ended {
                return Err(self
                    .failure(format!("`osbuild run` ended before it said `{words}`: {status}"))?);
            }
            if Instant::now() > end {
                return Err(self.failure(format!("the node did not say `{words}`"))?);
            }
            std::thread::sleep(TICK);
        }
        Ok(())
    }

    /// # Errors
    /// `osbuild run` has ended, and the node with it.
    pub fn is_running(&mut self) -> Result<()> {
        match self.child.try_wait().or_build(|| CANNOT_WAIT.to_owned())? {
            None => Ok(()),
            Some(status) => Err(self.failure(format!("`osbuild run` ended: {status}"))?),
        }
    }

    /// All that was said so far.
    pub fn said(&self) -> Result<String> {
        let bytes =
            fs::read(&self.log).or_build(|| format!("cannot read `{}`", self.log.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Of the process that runs it.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as Ctrl-C would, and gives its exit code and all that was said.
    pub fn interrupt(mut self) -> Result<(Option<i32>, String)> {
        kill_process(Pid::from_child(&self.child), Signal::INT)
            .or_build(|| "cannot interrupt `osbuild run`".to_owned())?;
        let status = self.child.wait().or_build(|| CANNOT_WAIT.to_owned())?;
        Ok((status.code(), self.said()?))
    }

    /// An error that shows the end of what was said.
    pub fn failure(&self, message: String) -> Result<Error> {
        let said = self.said()?;
        let lines: Vec<String> = said.lines().map(str::to_owned).collect();
        let lines = lines[lines.len().saturating_sub(40)..].to_vec();
        Ok(Error::build(message).log(LogTail { lines, path: self.log.display().to_string() }))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Both fail only for a process that is gone already.
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        let _ = self.child.wait();
    }
}

/// A port of the loopback that nobody uses now.
pub fn free_port() -> Result<u16> {
    let cannot = || "cannot find a free port".to_owned();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).or_build(cannot)?;
    Ok(listener.local_addr().or_build(cannot)?.port())
}

/// Tells a server on the loopback something, to the end, and comes back when it has answered `ok`.
pub fn tell(port: u16, say: impl FnOnce(&mut TcpStream) -> std::io::Result<()>) -> Result<()> {
    match answer(port, say)?.as_str() {
        "ok" => Ok(()),
        answer => Err(Error::build("the probe cannot do what it was told").cause(answer)),
    }
}

/// Says something to the probe, to the end, and gives the line that it answers.
pub fn answer(
    port: u16,
    say: impl FnOnce(&mut TcpStream) -> std::io::Result<()>,
) -> Result<String> {
    let speak = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        say(&mut stream)?;
        stream.shutdown(Shutdown::Write)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.trim_end().to_owned())
    };
    speak().or_build(|| "cannot speak with the probe".to_owned())
}

/// All that a server on the loopback says until it closes, which ends with the line `end`.
pub fn ask(port: u16) -> Result<String> {
    let cannot = || "cannot ask the probe".to_owned();
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).or_build(cannot)?;
    stream.set_read_timeout(Some(PATIENCE)).or_build(cannot)?;
    let mut report = String::new();
    stream.read_to_string(&mut report).or_build(cannot)?;
    match report.strip_suffix("end\n") {
        Some(facts) => Ok(facts.to_owned()),
        None => Err(Error::build("the probe's report was cut short").cause(report)),
    }
}
