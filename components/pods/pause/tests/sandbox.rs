//! Runs the real binary as PID 1 of a PID namespace. Needs root and util-linux (`unshare`,
//! `nsenter`).

use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use std::{fs, thread};

const TIMEOUT: Duration = Duration::from_secs(10);

/// A sandbox: `unshare`, and `pause` as its only child.
struct Sandbox {
    unshare: Child,
    pause: u32,
}

impl Sandbox {
    fn start() -> Self {
        let unshare = Command::new("unshare")
            .args(["--pid", "--fork", "--kill-child", env!("CARGO_BIN_EXE_pause")])
            .spawn()
            .expect("`unshare` of util-linux is not installed");
        let pause = until(|| {
            children(unshare.id()).into_iter().find(|pid| name(*pid).as_deref() == Some("pause"))
        })
        .expect("pause did not start");
        until(|| waits_for_signals(pause).then_some(())).expect("pause does not wait for signals");
        Self { unshare, pause }
    }

    fn run_inside(&self, script: &str) {
        let status = Command::new("nsenter")
            .args(["--target", &self.pause.to_string(), "--pid", "sh", "-c", script])
            .status();
        assert!(status.expect("`nsenter` of util-linux is not installed").success());
    }

    fn signal(&self, signal: &str) {
        assert!(
            Command::new("kill")
                .args([signal, &self.pause.to_string()])
                .status()
                .unwrap()
                .success()
        );
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        until(|| self.unshare.try_wait().unwrap())
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
    }
}

fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    while start.elapsed() < TIMEOUT {
        if let Some(value) = attempt() {
            return Some(value);
        }
        thread::sleep(Duration::from_millis(10));
    }
    None
}

fn children(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_ascii_whitespace().map(|child| child.parse().unwrap()).collect()
}

fn name(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned())
}

/// Whether `pause` waits: it sleeps for signals only. (While it waits for them, they are not in
/// `SigBlk`.)
fn waits_for_signals(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.contains("State:\tS (sleeping)")
}

#[test]
fn orphans_are_adopted_and_reaped() {
    let sandbox = Sandbox::start();
    sandbox.run_inside("for i in 1 2 3; do (sleep 0.5 &); done");
    assert!(
        until(|| (children(sandbox.pause).len() == 3).then_some(())).is_some(),
        "the orphans were not adopted"
    );
    assert!(
        until(|| children(sandbox.pause).is_empty().then_some(())).is_some(),
        "zombies stay behind"
    );
}

#[test]
fn sigterm_ends_it_with_success() {
    let mut sandbox = Sandbox::start();
    sandbox.signal("-TERM");
    assert!(sandbox.ended().expect("SIGTERM was ignored").success());
}

#[test]
fn sigint_ends_it_with_success() {
    let mut sandbox = Sandbox::start();
    sandbox.signal("-INT");
    assert!(sandbox.ended().expect("SIGINT was ignored").success());
}

#[test]
fn any_other_signal_is_ignored() {
    let mut sandbox = Sandbox::start();
    sandbox.signal("-HUP");
    thread::sleep(Duration::from_millis(100));
    assert!(sandbox.unshare.try_wait().unwrap().is_none());
}
