//! How much room DATA has. The kubelet makes room before it is used up, but a pod that fills a
//! folder of the host can be faster, and keeps its files when it is evicted.

use std::time::Duration;

use osbuild_abi::paths::DATA;
use osbuild_failure::{Explain, Outcome};
use rustix::fs::{StatVfs, statvfs};

/// How often to look.
const INTERVAL: Duration = Duration::from_secs(30);

/// The resources that a file system can run out of, each with the percentage below which the
/// kubelet makes room (`evictionHard` in `components/kubelet/kubelet.yaml`).
const KINDS: [(&str, u64); 2] = [("space", 10), ("inodes", 5)];

/// The free share of each of [`KINDS`], in percent, rounded down. Root's reserve does not count.
pub type Left = [u64; KINDS.len()];

/// How urgent it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    #[default]
    Enough,
    /// The kubelet makes room.
    Low,
    /// Programs fail to write.
    UsedUp,
}

/// When to look again, and what the console has already shown.
#[derive(Debug, Default)]
pub struct Room {
    /// `None` before the first look, and during one.
    next: Option<Duration>,
    /// The last measurement.
    left: Option<Left>,
    shown: [Level; KINDS.len()],
}

impl Room {
    /// When to look again, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.next
    }

    /// The free shares, once they have been measured.
    pub fn left(&self) -> Option<Left> {
        self.left
    }

    /// A job that looks was asked for, unless the disk worker refused it. `now` is the time since
    /// boot.
    pub fn on_asked(&mut self, is_asked: bool, now: Duration) {
        self.next = (!is_asked).then_some(now + INTERVAL);
    }

    /// The job has ended. Returns what the console has to show: each change of a level.
    pub fn on_measured(&mut self, left: Outcome<Left>, now: Duration) -> Vec<String> {
        self.next = Some(now + INTERVAL);
        // A DATA that cannot be asked fails other jobs, whose lines say so.
        let Ok(left) = left else { return Vec::new() };
        self.left = Some(left);
        let kinds = KINDS.into_iter().zip(left).zip(&mut self.shown);
        let changes = kinds.filter_map(|(((kind, threshold), percent), shown)| {
            let level = level(percent, threshold);
            (std::mem::replace(shown, level) != level).then(|| line(level, percent, kind))
        });
        changes.collect()
    }
}

/// The kinds of which DATA lacks room, each with a line about it.
pub fn lacks(left: Left) -> Vec<(&'static str, String)> {
    let kinds = KINDS.into_iter().zip(left);
    let levels =
        kinds.map(|((kind, threshold), percent)| (level(percent, threshold), percent, kind));
    let low = levels.filter(|(level, ..)| *level > Level::Enough);
    low.map(|(level, percent, kind)| (kind, line(level, percent, kind))).collect()
}

/// Measures DATA.
pub fn measure() -> Outcome<Left> {
    statvfs(DATA).explain(format_args!("ask how full {DATA} is")).map(|found| left(&found))
}

fn left(found: &StatVfs) -> Left {
    // A file system that makes inodes as it needs them counts none.
    let percent =
        |left: u64, of: u64| left.saturating_mul(100).checked_div(of).unwrap_or(100).min(100);
    [percent(found.f_bavail, found.f_blocks), percent(found.f_favail, found.f_files)]
}

fn level(percent: u64, threshold: u64) -> Level {
    match percent {
        0 => Level::UsedUp,
        low if low < threshold => Level::Low,
        _ => Level::Enough,
    }
}

fn line(level: Level, percent: u64, kind: &str) -> String {
    const MAKES_ROOM: &str = "the kubelet deletes unused images, and then evicts pods";
    match level {
        Level::Enough => format!("{percent} % of the {kind} is free again"),
        Level::Low => format!("{percent} % of the {kind} is left: {MAKES_ROOM}"),
        Level::UsedUp => format!("no {kind} left, programs fail to write: {MAKES_ROOM}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn shown(room: &mut Room, space: u64, inodes: u64) -> Vec<String> {
        room.on_measured(Ok([space, inodes]), NOW)
    }

    #[test]
    fn each_change_of_a_level_is_printed_once() {
        let mut room = Room::default();
        assert!(shown(&mut room, 10, 5).is_empty());
        let makes_room = "the kubelet deletes unused images, and then evicts pods";
        assert_eq!(shown(&mut room, 9, 5), [format!("9 % of the space is left: {makes_room}")]);
        assert!(shown(&mut room, 8, 5).is_empty());
        assert_eq!(
            shown(&mut room, 0, 4),
            [
                format!("no space left, programs fail to write: {makes_room}"),
                format!("4 % of the inodes is left: {makes_room}")
            ]
        );
        assert_eq!(
            shown(&mut room, 40, 60),
            ["40 % of the space is free again", "60 % of the inodes is free again"]
        );
    }

    #[test]
    fn the_room_is_measured_again_after_the_interval() {
        let mut room = Room::default();
        assert_eq!(room.deadline(), None);
        room.on_asked(true, NOW);
        assert_eq!(room.deadline(), None);
        shown(&mut room, 50, 50);
        assert_eq!(room.deadline(), Some(NOW + INTERVAL));
    }

    #[test]
    fn a_disk_that_refuses_the_job_is_asked_later() {
        let mut room = Room::default();
        room.on_asked(false, NOW);
        assert_eq!(room.deadline(), Some(NOW + INTERVAL));
    }

    #[test]
    fn a_file_system_without_a_number_of_inodes_has_enough() {
        let mut found = statvfs("/").unwrap();
        (found.f_blocks, found.f_bavail, found.f_files, found.f_favail) = (1000, 99, 0, 0);
        assert_eq!(left(&found), [9, 100]);
    }

    #[test]
    fn the_kubelet_makes_room_below_the_same_percentages() {
        let kubelet = include_str!("../../../kubelet/kubelet.yaml");
        for (setting, (_, threshold)) in ["nodefs.available", "nodefs.inodesFree"].iter().zip(KINDS)
        {
            assert!(kubelet.contains(&format!("  {setting}: {threshold}%\n")), "{setting}");
        }
    }
}
