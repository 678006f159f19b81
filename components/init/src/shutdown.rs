//! The ordered end of the node.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use osbuild_abi::paths::{DATA, INIT};
use rustix::mount::{MountFlags, UnmountFlags, mount_remount, unmount};
use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};
use rustix::system::{RebootCommand, reboot};

use crate::children::STOP_PODS;
use crate::mountinfo::above_root;
use crate::node::Node;
use crate::process::Life;
use crate::uptime::uptime;
use crate::{containerd, flush, gate, images, kubelet, sys, trial};

/// How the node ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is switched off.
    PowerOff,
    /// It boots anew.
    Reboot,
}

/// How long a daemon is given to end before it is killed.
const GRACE: Duration = Duration::from_secs(10);
/// How long the pods are given: two waves of the longest grace, and some.
const PODS_GRACE: Duration = Duration::from_secs(100);
/// How long DATA's disk may take nothing of what it is given.
const STALL: Duration = Duration::from_secs(120);
/// How long other volumes may take nothing of what pods have written there.
const VOLUMES_GRACE: Duration = Duration::from_secs(30);
/// How long a failed boot can be read on the console.
const READING_TIME: Duration = Duration::from_secs(10);

/// Ends everything in the order in which it depends on each other, and then the machine.
pub fn run(node: &mut Node, end: End) -> ! {
    node.end = Some(end);
    node.console.say("shutdown", "begins");
    // A disk that is slow to take what is flushed now is no reason to restart in the midst of that.
    let _ = trial::bear_hung_tasks();
    for name in [trial::NAME, gate::NAME, images::NAME, kubelet::NAME] {
        stop(node, name, GRACE);
    }
    stop_pods(node);
    stop(node, containerd::NAME, GRACE);
    kill_the_rest(node);
    node.clock.keep_now(&node.writer);
    node.console.say("shutdown", "unmounts");
    leave_disks(node);
    node.console.say(
        "shutdown",
        match end {
            End::PowerOff => "power off",
            End::Reboot => "reboot",
        },
    );
    now(end)
}

/// Tells why the node cannot go on, leaves time to read it, and reboots.
pub fn give_up(node: &mut Node) -> ! {
    let until = uptime() + READING_TIME;
    while uptime() < until {
        node.turn(until.saturating_sub(uptime()));
    }
    run(node, End::Reboot)
}

/// Ends the machine at once. Also the way out for the life of `init` that has no node yet.
pub fn now(end: End) -> ! {
    // A volume whose server is gone would never be written.
    within(GRACE, rustix::fs::sync);
    let _ = reboot(match end {
        End::PowerOff => RebootCommand::PowerOff,
        End::Reboot => RebootCommand::Restart,
    });
    // A machine that cannot do it stays as it is. PID 1 must not end.
    loop {
        std::thread::sleep(GRACE);
    }
}

/// Waits [`READING_TIME`] without a node, then reboots.
pub fn give_up_early() -> ! {
    std::thread::sleep(READING_TIME);
    now(End::Reboot)
}

fn stop(node: &mut Node, name: &'static str, grace: Duration) {
    if let Some(process) = node.process(name) {
        process.stop();
    }
    if !has_ended(node, name, grace) {
        node.console.say("shutdown", format_args!("{name} does not end and is killed"));
        if let Some(process) = node.process(name) {
            process.signal(Signal::KILL);
        }
        has_ended(node, name, GRACE);
    }
}

fn has_ended(node: &mut Node, name: &'static str, within: Duration) -> bool {
    let deadline = uptime() + within;
    while node.process(name).is_some_and(|process| process.pid().is_some()) {
        if uptime() > deadline {
            return false;
        }
        node.turn(Duration::from_millis(100));
    }
    true
}

fn stop_pods(node: &mut Node) {
    // Before the kubelet there are none, and a containerd that does not answer would be waited for.
    if node.process(kubelet::NAME).is_none() {
        return;
    }
    if node.process(containerd::NAME).is_none_or(|containerd| containerd.pid().is_none()) {
        return;
    }
    if let Err(failure) =
        node.run(STOP_PODS, Life::Job, |_| [INIT, STOP_PODS].map(str::to_owned).to_vec())
    {
        node.console.say(STOP_PODS, failure);
    }
    if !has_ended(node, STOP_PODS, PODS_GRACE) {
        node.console.say(STOP_PODS, "pods do not end and are killed");
    }
    stop(node, STOP_PODS, Duration::ZERO);
}

/// Ends what is left, the shims for example.
fn kill_the_rest(node: &mut Node) {
    for (signal, wait) in
        [(Signal::TERM, Duration::from_secs(2)), (Signal::KILL, Duration::from_millis(200))]
    {
        sys::signal_everybody(signal);
        let deadline = uptime() + wait;
        while uptime() < deadline && has_children() {
            node.turn(Duration::from_millis(20));
        }
    }
}

/// Whether any process is left, looked at without taking its status.
fn has_children() -> bool {
    waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT)
        .is_ok()
}

/// Writes all that is not on its disk yet, and unmounts DATA. The loop goes on meanwhile, and with
/// it the watchdogs are held off.
fn leave_disks(node: &mut Node) {
    // The logs end here: they are on DATA.
    node.console.end_log();
    node.processes.clear();
    node.writer.close();
    until(node, STALL, "DATA", |node| node.writer.has_ended().then_some(()));
    meanwhile(node, STALL, "DATA", flush_data);
    meanwhile(node, VOLUMES_GRACE, "a volume", unmount_above_root);
    if let Some(Err(left)) = meanwhile(node, VOLUMES_GRACE, "DATA", keep_data) {
        node.console.say("shutdown", left);
    }
}

/// Runs work that may block on a disk in a thread, while the loop turns. Gives nothing if the disk
/// makes no progress: then the thread stays behind, as the kernel cannot end who waits for a disk.
fn meanwhile<T: Send + 'static>(
    node: &mut Node,
    stall: Duration,
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tell, told) = mpsc::channel();
    // Nobody listens any more when it comes too late.
    thread::Builder::new().spawn(move || tell.send(work())).ok()?;
    until(node, stall, what, |_| told.try_recv().ok())
}

/// Turns the loop until `look` finds something, or nothing is written any more for `stall`.
fn until<T>(
    node: &mut Node,
    stall: Duration,
    what: &str,
    mut look: impl FnMut(&mut Node) -> Option<T>,
) -> Option<T> {
    let left = || flush::left(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default());
    let mut wait = flush::Wait::new(uptime(), left(), stall);
    loop {
        if let Some(found) = look(node) {
            return Some(found);
        }
        match wait.next(uptime(), left()) {
            flush::Next::Wait => {}
            flush::Next::Say(said) => {
                node.console.say("shutdown", format_args!("waits for {what} {said}"))
            }
            flush::Next::GiveUp(why) => {
                node.console.say("shutdown", format_args!("{what} {why}"));
                return None;
            }
        }
        node.turn(Duration::from_millis(50));
    }
}

/// Writes all of DATA onto its disk: an ordered end loses nothing of it.
fn flush_data() {
    if let Ok(data) = File::open(DATA) {
        let _ = rustix::fs::syncfs(&data);
    }
}

/// Unmounts everything, deepest first: what DATA is behind, and what pods have mounted.
fn unmount_above_root() {
    for path in mounted().unwrap_or_default() {
        let _ = unmount(&path, UnmountFlags::empty());
    }
}

/// Makes DATA read-only if it is mounted still, which is as good for the disk.
fn keep_data() -> Result<(), String> {
    if mounted()?.iter().all(|path| path != Path::new(DATA)) {
        return Ok(());
    }
    mount_remount(DATA, MountFlags::RDONLY, c"")
        .map_err(|error| format!("{DATA} cannot be unmounted nor made read-only: {error}"))
}

fn mounted() -> Result<Vec<PathBuf>, String> {
    std::fs::read("/proc/self/mountinfo")
        .map(|table| above_root(&table))
        .map_err(|error| error.to_string())
}

/// What `work` gives, unless that takes longer: then it goes on by itself, if it ever does. The
/// kernel ends nobody who waits for a disk.
fn within<T: Send + 'static>(
    longest: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tell, told) = mpsc::channel();
    // Nobody listens any more when it comes too late.
    let begun = thread::Builder::new().spawn(move || tell.send(work()));
    begun.ok().and_then(|_| told.recv_timeout(longest).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_not_waited_for() {
        assert_eq!(within(GRACE, || 7), Some(7));
        let (_held, never) = mpsc::channel::<()>();
        assert_eq!(within(Duration::from_millis(1), move || never.recv().ok()), None);
    }
}
