//! What `init` answers on its sockets, of which each is for one role.

use super::Seen;
use crate::vm::node::answer;
use osbuild::error;
use osbuild_abi::paths::{ADMIN_SOCKET, NET_SOCKET, TIME_SOCKET, UPDATE_SOCKET};
use osbuild_abi::sockets::{ERROR, OK, admin, time, update};
use std::io::Write;

/// Where the probe says something to `init`.
pub const PORT: u16 = 7076;

/// Lines, each at a socket whose role has no such right.
const STRANGE: [(&str, &str); 9] = [
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

/// What was answered.
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
            status: say((ADMIN_SOCKET, admin::STATUS))?,
            slots: say((UPDATE_SOCKET, update::STATUS))?,
            time: say((TIME_SOCKET, time::LAST))?,
            strange: STRANGE.into_iter().map(say).collect::<error::Result<_>>()?,
        })
    }
}

/// Which slot runs, why, what the other one is, what the firmware enforces; and of the slots the
/// same to whoever may update them.
pub fn say_how_the_node_is(seen: &Seen) -> Result<(), String> {
    let Doors { status, slots, .. } = &seen.doors;
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
    says(status, &["secure-boot on"])?;
    says(status, &of_slots)?;
    says(slots, &of_slots)?;
    let is_good = |line: &str| line.starts_with(&running) && line.ends_with(": good");
    if slots.lines().any(is_good) {
        Ok(())
    } else {
        Err(format!("the slot is not said to be good: {slots}"))
    }
}

/// At the first boot of a disk the node has not run before, and QEMU's clock keeps the time.
pub fn say_when_the_node_last_ran(seen: &Seen) -> Result<(), String> {
    let expected = format!("{} 0\n{} yes\n{OK}", time::SEEN, time::KEPT);
    if seen.doors.time.trim_end() == expected {
        Ok(())
    } else {
        Err(format!("it says {}", seen.doors.time))
    }
}

/// For each of the words a line has to begin with them.
fn says(answer: &str, words: &[&str]) -> Result<(), String> {
    match words.iter().find(|words| !answer.lines().any(|line| line.starts_with(**words))) {
        None => Ok(()),
        Some(words) => Err(format!("no line begins with `{words}`: {answer}")),
    }
}

/// A pod that has one role's socket gets nothing of another's.
pub fn refuse_what_is_not_theirs(seen: &Seen) -> Result<(), String> {
    let wrong = STRANGE
        .iter()
        .zip(&seen.doors.strange)
        .find(|(_, said)| !said.starts_with(ERROR) || !said.ends_with("is no verb of this socket"));
    match wrong {
        None => Ok(()),
        Some(((socket, line), said)) => {
            Err(format!("`{line}` on `{socket}` is answered by `{said}`"))
        }
    }
}
