//! The replies of `init` on its sockets, each of which serves one role.

use super::Seen;
use crate::vm::probe::ask_init;
use osbuild::error;
use osbuild_abi::paths::{ADMIN_SOCKET, HOST_SOCKET, NET_SOCKET, TIME_SOCKET, UPDATE_SOCKET};
use osbuild_protocol::{
    Contents, Fingerprint, LastSeen, OK, Refusal, RefusalCode, Reply, Request, SlotState, Slots,
    StartReason,
};

/// Sockets, each with a verb of another role.
const FOREIGN: [(&str, &str); 12] = [
    (NET_SOCKET, "status"),
    (NET_SOCKET, "reboot"),
    (NET_SOCKET, "slot"),
    (NET_SOCKET, "last"),
    (ADMIN_SOCKET, "slot"),
    (UPDATE_SOCKET, "power-off"),
    (UPDATE_SOCKET, "restart kubelet"),
    (TIME_SOCKET, "reboot"),
    (TIME_SOCKET, "ntp 10.0.2.2"),
    (TIME_SOCKET, "observe"),
    (HOST_SOCKET, "reboot"),
    (HOST_SOCKET, "hostname node-1"),
];

/// The replies to one request on each socket, and to foreign verbs.
pub struct Replies {
    /// To `status` on the socket `admin`.
    status: String,
    /// To `status` on the socket `update`.
    slots: String,
    /// To `last` on the socket `time`.
    time: String,
    /// To the verbs of other roles.
    foreign: Vec<String>,
}

impl Replies {
    /// Sends the requests through the probe behind this port of the loopback.
    pub fn ask(port: u16) -> error::Result<Self> {
        let ask = |(socket, line): (&str, &str)| ask_init(port, socket, &line);
        Ok(Replies {
            status: ask((ADMIN_SOCKET, "status"))?,
            slots: ask((UPDATE_SOCKET, "status"))?,
            time: ask((TIME_SOCKET, "last"))?,
            foreign: FOREIGN.into_iter().map(ask).collect::<error::Result<_>>()?,
        })
    }
}

/// `admin` reports the running slot, the reason, the other slot and Secure Boot; `update` reports
/// the same slots.
pub fn report_slots(seen: &Seen) -> Result<(), String> {
    let disk = seen.inspection.disk.as_ref().ok_or("the image is not a disk")?;
    let slot = disk
        .slots
        .iter()
        .find(|slot| slot.version.is_some())
        .ok_or("no slot of the image has a version")?;
    let version = slot.version.as_deref().unwrap_or_default();
    let Reply::Node(node) = decoded(&Request::Status, &seen.sockets.status)? else {
        return Err("`status` does not report a node".to_owned());
    };
    let slots = decoded(&Request::SlotsStatus, &seen.sockets.slots)?;
    let Slots::Known(status) = &node.slots else {
        return Err(format!("the slots are not known: {:?}", node.slots));
    };
    let (running, other) = (&status.running, status.other.as_ref());
    let is_as_promised = node.security.secure_boot == "on"
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
    if is_as_promised { Ok(()) } else { Err(format!("it reports {node:?}")) }
}

/// The firmware of the machine trusts one certificate. The epoch is that of recipes that set none.
pub fn report_security(seen: &Seen) -> Result<(), String> {
    let Reply::Node(node) = decoded(&Request::Status, &seen.sockets.status)? else {
        return Err("`status` does not report a node".to_owned());
    };
    let security = node.security;
    let trusted: Vec<String> = security.certificates.iter().map(Fingerprint::to_string).collect();
    let is_as_promised = trusted == [format!("sha256:{}", seen.trusted)]
        && security.lockdown == "integrity"
        && security.epoch == Some(1);
    if is_as_promised { Ok(()) } else { Err(format!("it reports {security:?}")) }
}

/// The reply still has the sentences that clients of version 0 of the protocol read.
pub fn reply_with_version_0(seen: &Seen) -> Result<(), String> {
    let lines = ["slot SLOT-A", "slot-why on trial, ", "slot-running SLOT-A, version "];
    let other = "slot-other SLOT-B, empty: not to be booted";
    let reply = &seen.sockets.slots;
    let is_there = |start: &&str| reply.lines().any(|line| line.starts_with(*start));
    match lines.iter().chain([&other]).find(|start| !is_there(start)) {
        None => Ok(()),
        Some(start) => Err(format!("no line begins with `{start}`: {reply}")),
    }
}

/// At its first boot the node has never run before; QEMU's clock keeps the time.
pub fn report_last_run(seen: &Seen) -> Result<(), String> {
    let expected = Reply::LastSeen(LastSeen { seconds: 0, clock_kept: true });
    let reply = decoded(&Request::LastSeen, &seen.sockets.time)?;
    if reply == expected { Ok(()) } else { Err(format!("it replies {reply:?}")) }
}

/// A pod with the socket of one role cannot use the verbs of another role.
pub fn refuse_other_roles(seen: &Seen) -> Result<(), String> {
    let is_refused = |reply: &str| {
        Refusal::decode(reply).is_some_and(|refusal| refusal.code == RefusalCode::UnknownVerb)
    };
    let wrong = FOREIGN.iter().zip(&seen.sockets.foreign).find(|(_, reply)| !is_refused(reply));
    match wrong {
        None => Ok(()),
        Some(((socket, line), reply)) => {
            Err(format!("the reply to `{line}` on `{socket}` is `{reply}`"))
        }
    }
}

/// Decodes a reply that ends with [`OK`].
fn decoded(request: &Request, reply: &str) -> Result<Reply, String> {
    let mut lines: Vec<String> = reply.lines().map(str::to_owned).collect();
    match lines.pop() {
        Some(last) if last == OK => Reply::decode(request, &lines),
        _ => Err(format!("`{request}` is refused: {reply}")),
    }
}
