//! The machine's hardware watchdogs: started at boot, and held off by the loop of PID 1 and nothing
//! else. So they reset a node whose kernel or `init` hangs.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use osbuild_failure::Failure;

use crate::sys;

/// The name of the unnumbered device file, and the prefix of numbered ones (`watchdog0`).
const NAME: &str = "watchdog";

/// The folder of their device files.
const DEVICES: &str = "/dev";

/// The timeout that counts for a watchdog that does not report its own, in seconds. Most of them
/// have a longer one.
const UNKNOWN: u32 = 4;

/// The watchdogs that were started.
#[derive(Default)]
pub struct Watchdog {
    timers: Vec<File>,
    /// How often they are held off.
    every: Duration,
    /// When they are held off next, since boot.
    due: Duration,
}

/// The result of starting the watchdogs.
pub struct Started {
    /// The watchdogs.
    pub watchdog: Watchdog,
    /// Lines for the console.
    pub lines: Vec<String>,
    /// Why a hang of the machine lasts until somebody resets it, although the board names a
    /// watchdog.
    pub missing: Option<Failure>,
}

/// Starts every watchdog of the machine. `seconds` is the board's, if it has one; otherwise a line
/// says what stays uncovered.
pub fn start(seconds: Option<u32>) -> Started {
    start_in(Path::new(DEVICES), seconds)
}

fn start_in(folder: &Path, seconds: Option<u32>) -> Started {
    let mut started = Started { watchdog: Watchdog::default(), lines: Vec::new(), missing: None };
    let Some(seconds) = seconds else {
        started.lines.push(
            "the board names none: a hang that the kernel does not notice lasts until somebody \
             resets the machine"
                .to_owned(),
        );
        return started;
    };
    let mut shortest = seconds;
    for path in devices(folder) {
        let name = path.display();
        match OpenOptions::new().write(true).open(&path) {
            Ok(mut timer) => {
                let (timeout, line) = set(&timer, seconds);
                started.lines.push(format!("{name} {line}"));
                shortest = timeout.max(1).min(shortest);
                // One that cannot be held off resets the machine, which is its purpose.
                let _ = timer.write(b"\0");
                started.watchdog.timers.push(timer);
            }
            Err(error) => started.lines.push(format!("{name} cannot be used: {error}")),
        }
    }
    started.watchdog.every = Duration::from_secs(shortest.into()) / 4;
    if started.watchdog.timers.is_empty() {
        started.missing = Some(Failure::new(
            "the board names one, and the kernel finds none: a hang lasts until somebody resets \
             the machine",
        ));
    }
    started
}

impl Watchdog {
    /// A watchdog that is held off by writes to `timer`.
    #[cfg(test)]
    pub fn on(timer: File, every: Duration) -> Watchdog {
        Watchdog { timers: vec![timer], every, due: Duration::ZERO }
    }

    /// Holds them off, if it is time to.
    pub fn hold_off(&mut self, now: Duration) {
        if now < self.due {
            return;
        }
        self.due = now + self.every;
        for timer in &mut self.timers {
            // One that cannot be held off resets the machine, which is its purpose.
            let _ = timer.write(b"\0");
        }
    }

    /// When they have to be held off next, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        (!self.timers.is_empty()).then_some(self.due)
    }

    /// The word for it in `status`.
    pub fn word(&self) -> &'static str {
        if self.timers.is_empty() { "none" } else { "on" }
    }
}

/// `watchdog0` and so on. The device without a number is the first of them; it is used only where a
/// driver, such as IPMI's, makes no numbered one.
fn devices(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |name: &str| name.strip_prefix(NAME)?.parse::<u32>().ok();
    let mut found: Vec<_> = entries
        .filter_map(|entry| Some((number(entry.file_name().to_str()?)?, entry.path())))
        .collect();
    found.sort();
    let unnumbered =
        [folder.join(NAME)].into_iter().filter(|path| found.is_empty() && path.exists());
    found.iter().map(|(_, path)| path.clone()).chain(unnumbered).collect()
}

/// Sets the timeout of an open watchdog. That has started it for good, so one that refuses the
/// timeout keeps its own. Returns the timeout that counts, in seconds, and a line about it.
fn set(timer: &File, seconds: u32) -> (u32, String) {
    let resets = |timeout| format!("resets the machine after {timeout} s without `init`");
    let error = match sys::set_watchdog(timer, seconds) {
        Ok(timeout) => return (timeout, resets(timeout)),
        Err(error) => error,
    };
    match sys::watchdog(timer) {
        Ok(timeout) => {
            (timeout, format!("does not take {seconds} s, and {}: {error}", resets(timeout)))
        }
        Err(_) => (
            UNKNOWN,
            format!(
                "does not take {seconds} s, and resets the machine after an unknown time without \
                 `init`: {error}"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_devices_are_used_and_an_unnumbered_one_only_alone() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["watchdog", "watchdog10", "watchdog2", "watchdogs", "watch0"] {
            File::create(folder.path().join(name)).unwrap();
        }
        assert_eq!(
            devices(folder.path()),
            ["watchdog2", "watchdog10"].map(|name| folder.path().join(name))
        );
        assert!(devices(&folder.path().join("none")).is_empty());
        let folder = tempfile::tempdir().unwrap();
        File::create(folder.path().join("watchdog")).unwrap();
        assert_eq!(devices(folder.path()), [folder.path().join("watchdog")]);
    }

    #[test]
    fn a_watchdog_that_refuses_the_timeout_is_still_held_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watchdog0");
        File::create(&path).unwrap();
        let mut started = start_in(folder.path(), Some(60));
        assert!(started.missing.is_none());
        let [line] = &started.lines[..] else { panic!("{:?}", started.lines) };
        assert!(line.contains("watchdog0 does not take 60 s, and resets the machine"), "{line}");
        for second in 0..4 {
            started.watchdog.hold_off(Duration::from_secs(second));
        }
        assert_eq!(fs::read(&path).unwrap().len(), 5, "once when it starts, and each second");
    }

    #[test]
    fn it_is_held_off_four_times_in_its_timeout() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watchdog0");
        let (every, due) = (Duration::from_secs(15), Duration::ZERO);
        let mut watchdog = Watchdog { timers: vec![File::create(&path).unwrap()], every, due };
        for second in 0..60 {
            watchdog.hold_off(Duration::from_secs(second));
        }
        assert_eq!(fs::read(&path).unwrap(), [0; 4]);
        assert_eq!(watchdog.deadline(), Some(Duration::from_secs(60)));
        assert_eq!(Watchdog::default().deadline(), None);
    }
}
