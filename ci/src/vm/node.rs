//! A node that runs on a [`super::machine::Machine`] while a check looks at it.

use osbuild::error::{Context, Error, LogTail, Result};
use osbuild::ship::vm::boot::Boot;
use osbuild::ship::vm::running_node::RunningNode;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// How long a ready node may take to print its address.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(10);

/// How many of the console's last lines an error shows.
const TAIL: usize = 40;

/// A node that is powered on. Dropping it is a power cut.
pub struct NodeUnderTest<'a> {
    node: RunningNode<'a>,
    log: PathBuf,
    timeout: Duration,
}

impl<'a> NodeUnderTest<'a> {
    /// A node whose console is written to `log`, and that may take `timeout` for each line that is
    /// waited for.
    pub(super) fn new(node: RunningNode<'a>, log: PathBuf, timeout: Duration) -> Self {
        NodeUnderTest { node, log, timeout }
    }

    /// Waits until the node is ready. The timeout counts from power-on.
    pub fn ready(&mut self) -> Result<()> {
        self.ready_within(self.timeout)
    }

    /// Like [`Self::ready`], with another timeout.
    pub fn ready_within(&mut self, timeout: Duration) -> Result<()> {
        self.node.ready(Some(timeout))
    }

    /// Waits a moment for the node's address: a node is ready without one.
    pub fn address(&mut self) -> Result<()> {
        self.node.address(ADDRESS_TIMEOUT)
    }

    /// Waits for the next line that contains `phrase`, and returns it.
    pub fn wait_for(&mut self, phrase: &str) -> Result<String> {
        self.wait_for_within(phrase, self.timeout)
    }

    /// Like [`Self::wait_for`], with another timeout.
    pub fn wait_for_within(&mut self, phrase: &str, timeout: Duration) -> Result<String> {
        self.node.hear(phrase, timeout)
    }

    /// Waits for the next line that contains `phrase`, which has to contain all `words` too.
    pub fn wait_for_line(&mut self, phrase: &str, words: &[&str]) -> Result<()> {
        let line = self.wait_for(phrase)?;
        match words.iter().find(|word| !line.contains(**word)) {
            Some(word) => Err(Error::build(format!("a line lacks `{word}`")).cause(line)),
            None => Ok(()),
        }
    }

    /// Waits until the console has a line that contains `phrase`, printed before or after this
    /// call.
    pub fn wait_until_printed(&mut self, phrase: &str) -> Result<()> {
        match self.console()?.contains(phrase) {
            true => Ok(()),
            false => self.wait_for(phrase).map(drop),
        }
    }

    /// Everything that the console has printed so far.
    ///
    /// # Errors
    /// The machine has ended.
    pub fn console(&mut self) -> Result<String> {
        self.is_running()?;
        self.log()
    }

    /// # Errors
    /// The machine has ended.
    pub fn is_running(&mut self) -> Result<()> {
        self.node.catch_up()
    }

    /// How far the boot is, and how long its phases took.
    pub fn progress(&self) -> &Boot {
        self.node.boot()
    }

    /// An error that shows the end of the console.
    pub fn failure(&self, message: impl Into<String>) -> Error {
        let console = self.log().unwrap_or_default();
        let lines: Vec<String> = console.lines().map(str::to_owned).collect();
        let lines = lines[lines.len().saturating_sub(TAIL)..].to_vec();
        Error::build(message.into()).log(LogTail { lines, path: self.log.display().to_string() })
    }

    /// Powers off without asking the node, once everything that it wrote is on the disk.
    pub fn power_off(self) -> Result<()> {
        self.node.power_off()
    }

    /// Waits until the node has powered off.
    pub fn end(&mut self) -> Result<()> {
        self.node.end()
    }

    fn log(&self) -> Result<String> {
        let bytes =
            fs::read(&self.log).or_build(|| format!("cannot read `{}`", self.log.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
