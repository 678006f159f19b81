//! The answers of `init` on its sockets, each of which is for one role.

use super::Seen;
use crate::vm::probe::ask_init;
use osbuild::error;
use osbuild_abi::paths::{ADMIN_SOCKET, NET_SOCKET, TIME_SOCKET, UPDATE_SOCKET};
use osbuild_abi::sockets::{ERROR, OK, admin, time, update};

/// Sockets, each with a verb of another role.
const FOREIGN: [(&str, &str); 9] = [
    (NET_SOCKET, admin::STATUS),
    (NET_SOCKET, admin::REBOOT),
    (NET_SOCKET, update::SLOT),
    (NET_SOCKET, time::LAST),
    (ADMIN_SOCKET, update::SLOT),
    (UPDATE_SOCKET, admin::POWER_OFF),
    (UPDATE_SOCKET, admin::RESTART_KUBELET),
    (TIME_SOCKET, admin::REBOOT),
    (TIME_SOCKET, "ntp 10.0.2.2"),
];

/// The answers to one request on each socket.
pub struct Answers {
    /// To `status` on the socket `admin`.
    status: String,
    /// To `status` on the socket `update`.
    slots: String,
    /// To `last` on the socket `time`.
    time: String,
    /// To the verbs of other roles.
    foreign: Vec<String>,
}

impl Answers {
    /// Sends the requests through the probe behind this port of the loopback.
    pub fn ask(port: u16) -> error::Result<Self> {
        let ask = |(socket, line): (&str, &str)| ask_init(port, socket, line);
        Ok(Answers {
            status: ask((ADMIN_SOCKET, admin::STATUS))?,
            slots: ask((UPDATE_SOCKET, update::STATUS))?,
            time: ask((TIME_SOCKET, time::LAST))?,
            foreign: FOREIGN.into_iter().map(ask).collect::<error::Result<_>>()?,
        })
    }
}

/// `admin` reports the running slot and the reason, the other slot, and Secure Boot; `update`
/// reports the same slots.
pub fn report_slots(seen: &Seen) -> Result<(), String> {
    let Answers { status, slots, .. } = &seen.sockets;
    let disk = seen.inspection.disk.as_ref().ok_or("the image is no disk")?;
    let slot = disk
        .slots
        .iter()
        .find(|slot| slot.version.is_some())
        .ok_or("no slot of the image has a version")?;
    let version = slot.version.as_deref().unwrap_or_default();
    let running = format!("slot-running {}, version {version}, sha256 ", slot.name);
    let of_slots = [
        "slot SLOT-A",
        "slot-why on trial, tries left: ",
        &running,
        "slot-other SLOT-B, empty: not to be booted",
        OK,
    ];
    has_lines(status, &["secure-boot on"])?;
    has_lines(status, &of_slots)?;
    has_lines(slots, &of_slots)?;
    let is_good = |line: &str| line.starts_with(&running) && line.ends_with(": good");
    if slots.lines().any(is_good) {
        Ok(())
    } else {
        Err(format!("the slot is not reported as good: {slots}"))
    }
}

/// At its first boot the node has never run before; QEMU's clock keeps the time.
pub fn report_last_run(seen: &Seen) -> Result<(), String> {
    let expected = format!("{} 0\n{} yes\n{OK}", time::SEEN, time::KEPT);
    if seen.sockets.time.trim_end() == expected {
        Ok(())
    } else {
        Err(format!("it reports {}", seen.sockets.time))
    }
}

/// The answer has a line that begins with each of the words.
fn has_lines(answer: &str, words: &[&str]) -> Result<(), String> {
    match words.iter().find(|words| !answer.lines().any(|line| line.starts_with(**words))) {
        None => Ok(()),
        Some(words) => Err(format!("no line begins with `{words}`: {answer}")),
    }
}

/// A pod with the socket of one role cannot use the verbs of another role.
pub fn refuse_other_roles(seen: &Seen) -> Result<(), String> {
    let wrong = FOREIGN.iter().zip(&seen.sockets.foreign).find(|(_, answer)| {
        !answer.starts_with(ERROR) || !answer.ends_with("is no verb of this socket")
    });
    match wrong {
        None => Ok(()),
        Some(((socket, line), answer)) => {
            Err(format!("`{line}` on `{socket}` is answered by `{answer}`"))
        }
    }
}
