//! Work that a client of the `update` socket waits for: hashing a slot and writing the system
//! partition take seconds, and read what others have written. A child of the same program does it,
//! so PID 1 goes on meanwhile and is not harmed by what the child finds.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use osbuild_abi::paths::INIT;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_protocol::{Refusal, RefusalCode, Reply};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitStatus, kill_process};

use crate::node::Node;
use crate::sockets::ClientId;
use crate::uptime::uptime;
use crate::{slot, sys};

/// How long the work may take: a slot of the largest size on a slow disk.
const PATIENCE: Duration = Duration::from_secs(300);
/// The most bytes of what a child says that are passed on.
const MOST_WORDS: usize = 1000;

/// What the work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// To look whether the other slot holds what its header says; if so it is booted next.
    Try,
    /// To replace slotboot.
    BootProgram,
}

impl Work {
    /// The name of the child.
    pub fn name(self) -> &'static str {
        match self {
            Self::Try => "try-slot",
            Self::BootProgram => "boot-program",
        }
    }
}

/// Work under way. There is one at a time.
pub struct Errand {
    work: Work,
    client: ClientId,
    pid: Pid,
    output: OwnedFd,
    deadline: Duration,
}

/// Starts the work on the device of a partition. The child reads `given` as its standard input, and
/// the client gets its reply when the child ends.
pub fn begin(
    node: &mut Node,
    client: ClientId,
    work: Work,
    device: &Path,
    given: Option<OwnedFd>,
) -> Result<(), Refusal> {
    may_begin(node)?;
    let (output, input) = pipe_with(PipeFlags::CLOEXEC).explain("make a pipe")?;
    // A child that lives on after its pipe was read must not hold up PID 1.
    fcntl_setfl(&output, OFlags::NONBLOCK).explain("make a pipe that does not block")?;
    let child = sys::unblock_signals(&mut Command::new(INIT))
        .arg(work.name())
        .arg(device)
        .env_clear()
        .current_dir("/")
        .process_group(0)
        .stdin(given.map_or_else(Stdio::null, Stdio::from))
        .stdout(input)
        .stderr(Stdio::null())
        .spawn()
        .explain(format_args!("start `{}`", work.name()))?;
    // The handle is dropped: `init` reaps every child in one place, by its id.
    node.errand = Some(Errand {
        work,
        client,
        pid: Pid::from_child(&child),
        output,
        deadline: uptime() + PATIENCE,
    });
    Ok(())
}

/// Refuses while other work is under way.
pub fn may_begin(node: &Node) -> Result<(), Refusal> {
    match &node.errand {
        Some(errand) => {
            let reason = format!("`{}` is under way", errand.work.name());
            Err(Refusal::new(RefusalCode::Busy, reason))
        }
        None => Ok(()),
    }
}

/// Ends work that takes too long. Its end is noticed like any other.
pub fn watch(node: &Node) {
    if let Some(errand) = &node.errand
        && uptime() > errand.deadline
    {
        // It may have ended already.
        let _ = kill_process(errand.pid, Signal::KILL);
    }
}

/// Takes note that a child has ended. If it was the errand's, what follows is done, and the client
/// that waits is answered.
pub fn ended(node: &mut Node, pid: Pid, status: WaitStatus) {
    let Some(errand) = node.errand.take_if(|errand| errand.pid == pid) else { return };
    let _cover = node.watchdog.cover();
    let outcome = errand.outcome(status).and_then(|()| match errand.work {
        Work::Try => slot::mark_for_try(node),
        Work::BootProgram => Ok(()),
    });
    if let Err(failure) = &outcome {
        node.console.say(errand.work.name(), failure);
    }
    let outcome = outcome.map(|()| Reply::Done.into()).map_err(Refusal::from);
    node.sockets.reply(errand.client, outcome);
}

impl Errand {
    /// What the work has led to: the child says what is wrong.
    fn outcome(&self, status: WaitStatus) -> Outcome {
        if status.exit_status() == Some(0) {
            return Ok(());
        }
        let mut buffer = [0; MOST_WORDS];
        let read = rustix::io::read(&self.output, &mut buffer).unwrap_or(0);
        let said = String::from_utf8_lossy(&buffer[..read]);
        let word = said.lines().next().filter(|line| !line.is_empty());
        Err(Failure::new(word.unwrap_or("it was ended before it was done")))
    }
}
