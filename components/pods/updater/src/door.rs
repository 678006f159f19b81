//! `init`'s `update` socket, from this side (`osbuild_abi::sockets`).

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use osbuild_abi::sockets::{ERROR, MAX_LINE, OK, update};
use osbuild_failure::{Explain, Failure, Outcome};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::slot::Slot;

/// How long `init` may take: it hashes a whole slot, and gives up by itself before this.
const PATIENCE: Duration = Duration::from_secs(360);
/// More lines than any answer has.
const MOST_LINES: usize = 16;

/// A connection.
pub struct Door {
    socket: UnixStream,
}

/// Both slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    /// Why slotboot started the one that runs, and not the other one, in its words.
    pub why: String,
    /// The one that runs.
    pub running: Held,
    /// The other one.
    pub other: Held,
    /// Whether the other one was given up for want of an address that the one that runs did not get
    /// either.
    pub is_outage: bool,
}

/// A slot and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its name.
    pub slot: String,
    /// What is in it, if that can be read.
    pub release: Option<Release>,
    /// What slotboot would do with it.
    pub state: State,
}

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The version.
    pub version: String,
    /// How the UKI's SHA-256 begins, in hexadecimal.
    pub sha256: String,
}

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It was a good node once.
    Good,
    /// It is booted so many times more, unless it becomes a good one.
    OnTrial(u8),
    /// It is not booted.
    Unused,
}

impl Door {
    /// Connects.
    pub fn open(path: &Path) -> Outcome<Door> {
        let socket =
            UnixStream::connect(path).explain(format_args!("reach init at {}", path.display()))?;
        socket.set_read_timeout(Some(PATIENCE)).explain("set a timeout")?;
        Ok(Door { socket })
    }

    /// How the slots are.
    pub fn status(&mut self) -> Outcome<Slots> {
        let (lines, _) = self.ask(update::STATUS, None)?;
        let line = |key: &str| lines.iter().find_map(|line| line.strip_prefix(key));
        let find = |key: &str| {
            line(key)
                .and_then(held)
                .ok_or_else(|| Failure::new(format!("init says no `{}`", key.trim_end())))
        };
        let why = line("slot-why ").unwrap_or_default().to_owned();
        let is_outage = line(update::OUTAGE).is_some();
        Ok(Slots { why, running: find("slot-running ")?, other: find("slot-other ")?, is_outage })
    }

    /// Takes the other slot, to write it.
    pub fn slot(&mut self) -> Outcome<Slot> {
        let (lines, given) = self.ask(update::SLOT, None)?;
        let length = lines.iter().find_map(|line| line.strip_prefix(update::LENGTH)?.parse().ok());
        match (given, length) {
            (Some(given), Some(length)) => Slot::new(File::from(given), length),
            _ => Err(Failure::new("init gives no slot")),
        }
    }

    /// Has the other slot booted next. Nobody may hold it any more.
    pub fn try_slot(&mut self) -> Outcome {
        self.ask(update::TRY, None).map(drop)
    }

    /// Has slotboot replaced by what is in `program`, from where it stands.
    pub fn boot_program(&mut self, program: impl AsFd) -> Outcome {
        self.ask(update::BOOT_PROGRAM, Some(program.as_fd())).map(drop)
    }

    /// Has the node reboot.
    pub fn reboot(&mut self) -> Outcome {
        self.ask(update::REBOOT, None).map(drop)
    }

    /// Sends one line, and gives the lines of its answer and the descriptor that came with it.
    fn ask(
        &mut self,
        verb: &str,
        given: Option<BorrowedFd>,
    ) -> Outcome<(Vec<String>, Option<OwnedFd>)> {
        self.send(verb, given).explain(format_args!("ask init for `{verb}`"))?;
        let (mut text, mut taken) = (String::new(), None);
        loop {
            let more = self
                .receive(&mut taken)
                .explain(format_args!("hear what init says to `{verb}`"))?;
            if more.is_empty() {
                return Err(Failure::new(format!("init has closed before it answered `{verb}`")));
            }
            text.push_str(&more);
            let Some(whole) = text.strip_suffix('\n') else { continue };
            let mut lines: Vec<String> = whole.lines().map(str::to_owned).collect();
            match lines.last().map(String::as_str) {
                Some(OK) => {
                    lines.pop();
                    return Ok((lines, taken));
                }
                Some(last) if last.starts_with(ERROR) => {
                    return Err(Failure::new(format!("`{verb}`: {}", &last[ERROR.len()..])));
                }
                _ if lines.len() > MOST_LINES => {
                    return Err(Failure::new(format!("init does not stop answering `{verb}`")));
                }
                _ => {}
            }
        }
    }

    fn send(&self, verb: &str, given: Option<BorrowedFd>) -> std::io::Result<()> {
        let line = format!("{verb}\n");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let given: Vec<BorrowedFd> = given.into_iter().collect();
        if !given.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&given));
        }
        // The kernel takes so short a line whole.
        sendmsg(&self.socket, &[IoSlice::new(line.as_bytes())], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    fn receive(&self, taken: &mut Option<OwnedFd>) -> std::io::Result<String> {
        let mut buffer = [0; MAX_LINE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(
            &self.socket,
            &mut [IoSliceMut::new(&mut buffer)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                *taken = descriptors.last().or(taken.take());
            }
        }
        Ok(String::from_utf8_lossy(&buffer[..received.bytes]).into_owned())
    }
}

/// Reads `SLOT, version VERSION, sha256 DIGEST: STATE`, or `SLOT, WHAT-ELSE: STATE`.
fn held(line: &str) -> Option<Held> {
    let (slot, rest) = line.split_once(", ")?;
    let told = rest.strip_prefix("version ").and_then(|rest| {
        let (version, rest) = rest.split_once(", sha256 ")?;
        let (sha256, state) = rest.split_once(": ")?;
        Some((Release { version: version.to_owned(), sha256: sha256.to_owned() }, state))
    });
    let (release, state) = match told {
        Some((release, state)) => (Some(release), state),
        None => (None, rest.split_once(": ")?.1),
    };
    Some(Held { slot: slot.to_owned(), release, state: state_of(state) })
}

/// What is in no known state is not booted.
fn state_of(words: &str) -> State {
    match words.strip_prefix("on trial, tries left: ").and_then(|tries| tries.parse().ok()) {
        Some(tries) => State::OnTrial(tries),
        None if words == "good" => State::Good,
        None => State::Unused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release() -> Option<Release> {
        Some(Release { version: "1.35.8-2".to_owned(), sha256: "abababababab".to_owned() })
    }

    #[test]
    fn what_init_says_of_a_slot_is_understood() {
        for (line, release, state) in [
            ("SLOT-A, version 1.35.8-2, sha256 abababababab: good", release(), State::Good),
            (
                "SLOT-A, version 1.35.8-2, sha256 abababababab: on trial, tries left: 3",
                release(),
                State::OnTrial(3),
            ),
            (
                "SLOT-A, version 1.35.8-2, sha256 abababababab: not to be booted",
                release(),
                State::Unused,
            ),
            ("SLOT-A, empty: not to be booted", None, State::Unused),
            ("SLOT-A, damaged (the checksum of its header is wrong): good", None, State::Good),
        ] {
            assert_eq!(
                held(line),
                Some(Held { slot: "SLOT-A".to_owned(), release, state }),
                "{line}"
            );
        }
        assert_eq!(held("SLOT-A"), None);
    }
}
