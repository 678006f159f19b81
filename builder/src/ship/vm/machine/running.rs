//! A running machine: QEMU's process and its console.

use super::{DiskLock, Hardware, Scratch, not_started, package, program};
use crate::error::{Context, Result};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{IsTerminal, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long QEMU may take to write its buffers and exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// A running machine. Dropping it is a power cut.
pub struct Machine {
    child: Child,
    console: Receiver<Vec<u8>>,
    stderr: Option<JoinHandle<String>>,
    scratch: Option<Scratch>,
    terminal: Option<Termios>,
    started: Instant,
    /// The lock of a kept disk.
    _lock: Option<Arc<DiskLock>>,
}

/// The result of a wait for the console.
#[derive(Debug, PartialEq, Eq)]
pub enum ConsoleInput {
    /// It printed these bytes.
    Printed(Vec<u8>),
    /// It printed nothing until the timeout.
    Silent,
    /// The machine has ended, with QEMU's error if it failed.
    Ended(std::result::Result<(), String>),
}

impl Machine {
    /// Powers on. `scratch` is removed as soon as QEMU has opened its files. If stdin is a
    /// terminal, it is connected to the console until the machine ends. The machine ends with the
    /// calling thread, even if the thread is killed.
    pub fn start(hardware: &Hardware, scratch: Scratch) -> Result<Self> {
        let name = program(hardware.architecture);
        let stdin = std::io::stdin();
        let terminal = if stdin.is_terminal() { tcgetattr(&stdin).ok() } else { None };
        let mut command = Command::new(name);
        command
            .args(hardware.arguments()?)
            .stdin(if terminal.is_some() { Stdio::inherit() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let ports = hardware.port.clone();
        // QEMU inherits its ends of a shared network.
        let prepare = move || -> std::io::Result<()> {
            for end in ports.iter().flat_map(|port| [&port.card, &port.host]) {
                fcntl_setfd(end, FdFlags::empty())?;
            }
            Ok(set_parent_process_death_signal(Some(Signal::TERM))?)
        };
        // SAFETY: the closure runs between fork and exec and only makes system calls; it allocates
        // nothing and takes no lock.
        unsafe { command.pre_exec(prepare) };
        let mut child = command
            .spawn()
            .map_err(|error| not_started(name, package(hardware.architecture), &error))?;
        let (sender, console) = channel();
        let output = child.stdout.take().expect("stdout is piped");
        std::thread::spawn(move || forward(output, &sender));
        let mut pipe = child.stderr.take().expect("stderr is piped");
        let stderr = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = pipe.read_to_end(&mut text);
            String::from_utf8_lossy(&text).trim().to_owned()
        });
        let started = Instant::now();
        Ok(Machine {
            child,
            console,
            stderr: Some(stderr),
            scratch: Some(scratch),
            terminal,
            started,
            _lock: hardware.lock.clone(),
        })
    }

    /// The time of power-on.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Waits for the console, for at most `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> Result<ConsoleInput> {
        match self.console.recv_timeout(timeout) {
            Ok(bytes) => {
                // The firmware prints, so QEMU has opened its files.
                self.scratch = None;
                Ok(ConsoleInput::Printed(bytes))
            }
            Err(RecvTimeoutError::Timeout) => Ok(ConsoleInput::Silent),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait().or_build(|| "cannot wait for QEMU".to_owned())?;
                Ok(ConsoleInput::Ended(self.outcome(status)))
            }
        }
    }

    /// Powers off without shutting the node down, and waits until its writes are on the disk.
    pub fn power_off(mut self) -> Result<()> {
        let cannot = || "cannot end QEMU".to_owned();
        if let Some(pid) = self.running()? {
            kill_process(pid, Signal::TERM).or_build(cannot)?;
        }
        let end = Instant::now() + EXIT_TIMEOUT;
        while self.running()?.is_some() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn running(&mut self) -> Result<Option<Pid>> {
        let status = self.child.try_wait().or_build(|| "cannot wait for QEMU".to_owned())?;
        Ok(if status.is_none() { Pid::from_raw(self.child.id() as i32) } else { None })
    }

    fn outcome(&mut self, status: ExitStatus) -> std::result::Result<(), String> {
        let stderr = self.stderr.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
        match (status.success(), stderr.is_empty()) {
            (true, _) => Ok(()),
            (false, true) => Err(format!("QEMU ended: {status}")),
            (false, false) => Err(stderr),
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Both fail only if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(before) = &self.terminal {
            // QEMU restores the terminal itself, unless it is killed.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

fn forward(mut output: impl Read, to: &Sender<Vec<u8>>) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(length @ 1..) = output.read(&mut buffer) {
        if to.send(buffer[..length].to_vec()).is_err() {
            return;
        }
    }
}
