//! A node under test, which runs on a [`super::machine::Machine`].

use crate::site::tail;
use osbuild::error::{Context, Error, Result};
use osbuild::ship::vm::boot::Boot;
use osbuild::ship::vm::running_node::RunningNode;
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a ready node may take to print its address.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a console that must be silent is read.
const SILENCE_INTERVAL: Duration = Duration::from_millis(200);

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

    /// Waits briefly for the node's address: a node can be ready without one.
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

    /// Checks for so long that the console prints nothing after its last line with `phrase`. A
    /// line of the firmware counts, too: it prints some when its program ends, and when the machine
    /// is reset.
    ///
    /// # Errors
    /// It prints a line that is not empty, or the machine ends.
    pub fn prints_nothing_after(&mut self, phrase: &str, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            if let Some(line) = after(&self.console()?, phrase) {
                let message = format!("the console went on after `{phrase}`");
                return Err(self.failure(message).cause(line));
            }
            if Instant::now() > end {
                return Ok(());
            }
            sleep(SILENCE_INTERVAL);
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

    /// Checks that the machine still runs.
    ///
    /// # Errors
    /// The machine has ended.
    pub fn is_running(&mut self) -> Result<()> {
        self.node.catch_up()
    }

    /// The progress of the boot, and the durations of its phases.
    pub fn progress(&self) -> &Boot {
        self.node.boot()
    }

    /// An error that shows the end of the console.
    pub fn failure(&self, message: impl Into<String>) -> Error {
        Error::build(message.into()).log(tail(&self.log().unwrap_or_default(), &self.log))
    }

    /// Powers off without notifying the node, after all of its writes are on the disk.
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

/// The first line with text after the last one with `phrase`.
fn after<'c>(console: &'c str, phrase: &str) -> Option<&'c str> {
    let (_, rest) = console.rsplit_once(phrase)?;
    rest.lines().skip(1).find(|line| !line.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_firmware_breaks_the_silence() {
        let stopped = "BdsDxe: loading Boot0001\nslotboot: STOPPED: no slot\n\n";
        assert_eq!(after(stopped, "STOPPED: "), None);
        let line = "BdsDxe: failed to start Boot0001";
        assert_eq!(after(&format!("{stopped}{line}\n"), "STOPPED: "), Some(line));
    }
}
