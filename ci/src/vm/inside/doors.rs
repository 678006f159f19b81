//! What `init` replies on its sockets, of which each is for one role.

use super::Seen;
use crate::vm::node::answer;
use osbuild::error;
use osbuild_abi::paths::{ADMIN_SOCKET, NET_SOCKET, TIME_SOCKET, UPDATE_SOCKET};
use osbuild_protocol::{
    Contents, LastSeen, OK, Refusal, RefusalCode, Reply, Request, SlotState, Slots, StartReason,
};
use std::io::Write;

/// Where the probe sends a line to `init`.
pub const PORT: u16 = 7076;

/// Lines, each at a socket whose role has no such right.
const STRANGE: [(&str, &str); 9] = [
    (NET_SOCKET, "status"),
    (NET_SOCKET, "reboot"),
    (NET_SOCKET, "slot"),
    (NET_SOCKET, "last"),
    (ADMIN_SOCKET, "slot"),
    (UPDATE_SOCKET, "power-off"),
    (UPDATE_SOCKET, "restart kubelet"),
    (TIME_SOCKET, "reboot"),
    (TIME_SOCKET, "ntp 10.0.2.2"),
];

/// What `init` replied.
pub struct Doors {
    /// To `status` on the socket `admin`.
    status: String,
    /// To `status` on the socket `update`.
    slots: String,
    /// To `last` on the socket `time`.
    time: String,
    /// To the strange lines.
    strange: Vec<String>,
}

impl Doors {
    /// Asks by the probe behind this port of the loopback.
    pub fn ask(port: u16) -> error::Result<Self> {
        let say =
            |(socket, line): (&str, &str)| answer(port, |stream| write!(stream, "{socket} {line}"));
        Ok(Doors {
            status: say((ADMIN_SOCKET, "status"))?,
            slots: say((UPDATE_SOCKET, "status"))?,
            time: say((TIME_SOCKET, "last"))?,
            strange: STRANGE.into_iter().map(say).collect::<error::Result<_>>()?,
        })
    }
}

/// Which slot runs, why, what the other one is, what the firmware enforces; and the same of the
/// slots on the socket `update`.
pub fn say_how_the_node_is(seen: &Seen) -> Result<(), String> {
    let disk = seen.inspection.disk.as_ref().ok_or("the image is no disk")?;
    let slot = disk
        .slots
        .iter()
        .find(|slot| slot.version.is_some())
        .ok_or("no slot of the image has a version")?;
    let version = slot.version.as_deref().unwrap_or_default();
    let Reply::Node(node) = decoded(&Request::Status, &seen.doors.status)? else {
        return Err("`status` is of no node".to_owned());
    };
    let slots = decoded(&Request::SlotsStatus, &seen.doors.slots)?;
    let Slots::Known(status) = &node.slots else {
        return Err(format!("the slots are not known: {:?}", node.slots));
    };
    let (running, other) = (&status.running, status.other.as_ref());
    let is_right = node.secure_boot == "on"
        && slots == Reply::Slots(node.slots.clone())
        && matches!(status.started, StartReason::OnTrial { .. })
        && status.passed.is_none()
        && status.why.starts_with("on trial, tries left: ")
        && running.name == slot.name
        && matches!(&running.contents, Contents::Release(release) if release.version == version)
        && running.state == SlotState::Good
        && other.is_some_and(|other| {
            other.name == "SLOT-B"
                && other.contents == Contents::Empty
                && other.state == SlotState::NotBootable
        });
    if is_right { Ok(()) } else { Err(format!("it is otherwise: {node:?}")) }
}

/// Clients that were written for version 0 of the protocol find its sentences.
pub fn still_speak_version_0(seen: &Seen) -> Result<(), String> {
    let lines = ["slot SLOT-A", "slot-why on trial, ", "slot-running SLOT-A, version "];
    let other = "slot-other SLOT-B, empty: not to be booted";
    let reply = &seen.doors.slots;
    let is_there = |start: &&str| reply.lines().any(|line| line.starts_with(*start));
    match lines.iter().chain([&other]).find(|start| !is_there(start)) {
        None => Ok(()),
        Some(start) => Err(format!("no line begins with `{start}`: {reply}")),
    }
}

/// At the first boot of a disk the node has not run before, and QEMU's clock keeps the time.
pub fn say_when_the_node_last_ran(seen: &Seen) -> Result<(), String> {
    let expected = Reply::LastSeen(LastSeen { seconds: 0, clock_kept: true });
    let reply = decoded(&Request::LastSeen, &seen.doors.time)?;
    if reply == expected { Ok(()) } else { Err(format!("it replies {reply:?}")) }
}

/// A pod that has one role's socket gets nothing of another's.
pub fn refuse_what_is_not_theirs(seen: &Seen) -> Result<(), String> {
    let is_refused = |reply: &str| {
        Refusal::decode(reply).is_some_and(|refusal| refusal.code == RefusalCode::UnknownVerb)
    };
    let wrong = STRANGE.iter().zip(&seen.doors.strange).find(|(_, reply)| !is_refused(reply));
    match wrong {
        None => Ok(()),
        Some(((socket, line), reply)) => {
            Err(format!("the reply to `{line}` on `{socket}` is `{reply}`"))
        }
    }
}

/// A reply as the protocol has it.
fn decoded(request: &Request, reply: &str) -> Result<Reply, String> {
    let mut lines: Vec<String> = reply.lines().map(str::to_owned).collect();
    match lines.pop() {
        Some(last) if last == OK => Reply::decode(request, &lines),
        _ => Err(format!("`{request}` is refused: {reply}")),
    }
}
