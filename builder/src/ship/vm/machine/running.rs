//! A machine that runs: QEMU's process, its console, and its end.

use super::{Hardware, not_started, package, program};
use crate::error::{Context, Result};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{IsTerminal, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long QEMU may take to write what it still holds and to end.
const LAST_MOMENT: Duration = Duration::from_secs(5);

/// A running machine. Dropping it is a power cut.
pub struct Machine {
    child: Child,
    console: Receiver<Vec<u8>>,
    complaints: Option<JoinHandle<String>>,
    scratch: Option<TempDir>,
    terminal: Option<Termios>,
    started: Instant,
}

/// What the console did while somebody waited.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// It said this.
    Said(Vec<u8>),
    /// It said nothing.
    Silent,
    /// The machine has ended, with QEMU's own words if it had any.
    Ended(std::result::Result<(), String>),
}

impl Machine {
    /// Powers on. `scratch` goes away as soon as QEMU has opened what is in it. If stdin is a
    /// terminal, its keys go to the console until the machine has ended.
    ///
    /// The machine ends with the calling thread, even if that is killed.
    pub fn start(hardware: &Hardware, scratch: TempDir) -> Result<Self> {
        let name = program(hardware.architecture);
        let stdin = std::io::stdin();
        let terminal = if stdin.is_terminal() { tcgetattr(&stdin).ok() } else { None };
        let mut command = Command::new(name);
        command
            .args(hardware.arguments()?)
            .stdin(if terminal.is_some() { Stdio::inherit() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // SAFETY: the closure runs between fork and exec and makes one system call; it allocates
        // nothing and takes no lock.
        unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::TERM))?)) };
        let mut child = command
            .spawn()
            .map_err(|error| not_started(name, package(hardware.architecture), &error))?;
        let (sender, console) = channel();
        let output = child.stdout.take().expect("stdout was asked for");
        std::thread::spawn(move || pass_on(output, &sender));
        let mut errors = child.stderr.take().expect("stderr was asked for");
        let complaints = std::thread::spawn(move || {
            let mut said = Vec::new();
            let _ = errors.read_to_end(&mut said);
            String::from_utf8_lossy(&said).trim().to_owned()
        });
        let started = Instant::now();
        Ok(Machine {
            child,
            console,
            complaints: Some(complaints),
            scratch: Some(scratch),
            terminal,
            started,
        })
    }

    /// When it was powered on.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Waits for the console, for at most `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> Result<Heard> {
        match self.console.recv_timeout(timeout) {
            Ok(bytes) => {
                // The firmware speaks, so QEMU has opened its files.
                self.scratch = None;
                Ok(Heard::Said(bytes))
            }
            Err(RecvTimeoutError::Timeout) => Ok(Heard::Silent),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait().or_build(|| "cannot wait for QEMU".to_owned())?;
                Ok(Heard::Ended(self.verdict(status)))
            }
        }
    }

    /// Powers off and waits until all that was written is on the disk. The node is not asked.
    pub fn power_off(mut self) -> Result<()> {
        let cannot = || "cannot end QEMU".to_owned();
        if let Some(pid) = self.running()? {
            kill_process(pid, Signal::TERM).or_build(cannot)?;
        }
        let end = Instant::now() + LAST_MOMENT;
        while self.running()?.is_some() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn running(&mut self) -> Result<Option<Pid>> {
        let status = self.child.try_wait().or_build(|| "cannot wait for QEMU".to_owned())?;
        Ok(if status.is_none() { Pid::from_raw(self.child.id() as i32) } else { None })
    }

    fn verdict(&mut self, status: ExitStatus) -> std::result::Result<(), String> {
        let said = self.complaints.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
        match (status.success(), said.is_empty()) {
            (true, _) => Ok(()),
            (false, true) => Err(format!("QEMU ended: {status}")),
            (false, false) => Err(said),
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Both fail only for a process that is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(before) = &self.terminal {
            // QEMU puts the terminal back itself, unless it was killed.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

fn pass_on(mut output: impl Read, to: &Sender<Vec<u8>>) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(length @ 1..) = output.read(&mut buffer) {
        if to.send(buffer[..length].to_vec()).is_err() {
            return;
        }
    }
}
