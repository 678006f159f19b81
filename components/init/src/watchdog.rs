//! The machine's hardware watchdogs: started at boot, and held off for as long as the loop of PID 1
//! goes round. Nothing else does that, so they end a node whose kernel or whose `init` hangs.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use osbuild_abi::cmdline::{WATCHDOG, value};
use osbuild_failure::{Failure, Outcome};

use crate::node::Node;
use crate::sys;

/// The name of the phase.
pub const NAME: &str = "watchdog";

/// Where the kernel shows them.
const DEVICES: &str = "/dev";

/// How long at most a thread holds the watchdogs off while PID 1 itself waits for a disk: at boot,
/// or when it marks a slot.
const MAX_COVER: Duration = Duration::from_secs(600);

/// The watchdogs that were started.
#[derive(Default)]
pub struct Watchdog {
    timers: Vec<File>,
    /// How often they are held off.
    every: Duration,
    /// When they are held off next, since boot.
    due: Duration,
}

/// Starts every watchdog of the machine, if its board names one. Otherwise it says what stays
/// uncovered.
pub fn start(node: &mut Node) -> Outcome {
    let seconds =
        value(&node.command_line, WATCHDOG).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    if seconds == 0 {
        let uncovered = "the board names none: a hang that the kernel does not notice lasts until somebody resets the machine";
        node.console.say(NAME, uncovered);
        return Ok(());
    }
    for path in devices(Path::new(DEVICES)) {
        match open(&path, seconds) {
            Ok(timer) => {
                node.console.say(
                    NAME,
                    format_args!(
                        "{} resets the machine after {seconds} s without `init`",
                        path.display()
                    ),
                );
                node.watchdog.timers.push(timer);
            }
            Err(error) => {
                node.console.say(NAME, format_args!("{} cannot be used: {error}", path.display()))
            }
        }
    }
    if node.watchdog.timers.is_empty() {
        return Err(Failure::new(
            "the board names one, and the kernel finds none: a hang lasts until somebody resets the machine",
        ));
    }
    node.watchdog.every = Duration::from_secs(seconds.into()) / 4;
    Ok(())
}

/// The watchdogs are held off as long as this is there.
pub struct Cover {
    _end: Sender<()>,
}

impl Watchdog {
    /// Holds them off, if it is time for that.
    pub fn hold_off(&mut self, now: Duration) {
        if now < self.due {
            return;
        }
        self.due = now + self.every;
        for timer in &mut self.timers {
            // One that cannot be held off ends the node, which is what it is for.
            let _ = timer.write(b"\0");
        }
    }

    /// Has a thread hold them off while PID 1 waits for a disk, until what this gives is dropped,
    /// at most for [`MAX_COVER`].
    pub fn cover(&self) -> Option<Cover> {
        let timers: Vec<File> =
            self.timers.iter().filter_map(|timer| timer.try_clone().ok()).collect();
        let (end, ended) = channel();
        let every = self.every;
        let hold_off = move || {
            let until = Instant::now() + MAX_COVER;
            while Instant::now() < until
                && ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout)
            {
                timers.iter().for_each(|mut timer| drop(timer.write(b"\0")));
            }
        };
        // Without a thread the work is done all the same, and the watchdogs decide.
        (!self.timers.is_empty())
            .then(|| thread::Builder::new().spawn(hold_off).ok())
            .flatten()
            .map(|_| Cover { _end: end })
    }

    /// How long the loop may wait.
    pub fn patience(&self, now: Duration) -> Option<Duration> {
        (!self.timers.is_empty()).then(|| self.due.saturating_sub(now))
    }

    /// The word for it in `status`.
    pub fn word(&self) -> &'static str {
        if self.timers.is_empty() { "none" } else { "on" }
    }
}

/// `watchdog0` and so on. The one without a number is the first of them, and the only one where a
/// driver knows no numbers, as that of IPMI.
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

/// Opens a watchdog, which starts it.
fn open(path: &Path, seconds: u32) -> std::io::Result<File> {
    let mut timer = OpenOptions::new().write(true).open(path)?;
    sys::set_watchdog(&timer, seconds)?;
    timer.write_all(b"\0")?;
    Ok(timer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_number_is_a_watchdog_and_what_has_none_is_one_where_it_is_alone() {
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
    fn it_is_held_off_four_times_before_it_would_end_the_node() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watchdog0");
        let (every, due) = (Duration::from_secs(15), Duration::ZERO);
        let mut watchdog = Watchdog { timers: vec![File::create(&path).unwrap()], every, due };
        for second in 0..60 {
            watchdog.hold_off(Duration::from_secs(second));
        }
        assert_eq!(fs::read(&path).unwrap(), [0; 4]);
        assert_eq!(watchdog.patience(Duration::from_secs(59)), Some(Duration::from_secs(1)));
        assert_eq!(Watchdog::default().patience(Duration::ZERO), None);
    }

    #[test]
    fn it_is_held_off_while_a_disk_is_waited_for_and_no_longer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watchdog0");
        let watchdog = Watchdog {
            timers: vec![File::create(&path).unwrap()],
            every: Duration::from_millis(5),
            due: Duration::ZERO,
        };
        let length = || fs::read(&path).unwrap().len();
        let cover = watchdog.cover().unwrap();
        let since = Instant::now();
        while length() < 3 {
            assert!(since.elapsed() < Duration::from_secs(10));
            thread::sleep(Duration::from_millis(1));
        }
        drop(cover);
        thread::sleep(Duration::from_millis(50));
        let before = length();
        thread::sleep(Duration::from_millis(50));
        assert_eq!(length(), before);
        assert!(Watchdog::default().cover().is_none());
    }
}
