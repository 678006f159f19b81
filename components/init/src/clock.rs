//! The time of day until a pod sets it: never before the image was made, nor before the node was
//! last seen running.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use osbuild_abi::cmdline::{EPOCH, value};
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_folder::Folder;
use osbuild_protocol::{ClockReport, LastSeen};
use rustix::time::{ClockId, Timespec, clock_settime};

use crate::data;
use crate::node::Node;
use crate::severity::{Limit, Verdict};
use crate::uptime::uptime;
use crate::writer::Writer;

/// How often the time is kept on DATA: after a power cut the clock is at most this much behind.
const INTERVAL: Duration = Duration::from_secs(600);

/// The file on DATA, which is empty: what counts is when it was modified.
const FILE: &str = "clock";
/// As many time servers make a result that one liar cannot change.
const CONFIRMED: u8 = 3;
/// Where these lines come from, on the console.
const NAME: &str = "time";

/// Keeps the time on DATA.
#[derive(Default)]
pub struct Clock {
    data: Option<Folder>,
    next: Duration,
    /// When DATA saw the node last, before this boot, since 1970.
    seen: Duration,
    /// Whether the clock had to be set forward at this boot.
    was_behind: bool,
    /// How many lines about it come to the console.
    limit: Limit,
}

impl Clock {
    /// Has the time kept if that was last done long enough ago. `now` is the time since boot.
    pub fn keep(&mut self, now: Duration, writer: &Writer) {
        if now >= self.next {
            self.next = now + INTERVAL;
            self.keep_now(writer);
        }
    }

    /// When the node last ran, and whether the machine's clock kept the time since then.
    pub fn last_seen(&self) -> LastSeen {
        LastSeen { seconds: self.seen.as_secs(), clock_kept: !self.was_behind }
    }

    /// Has the time kept.
    pub fn keep_now(&self, writer: &Writer) {
        if let Some(data) = self.data.clone() {
            // A disk that is full or slow costs the clock some accuracy at the next boot, not more.
            let _ = writer.begin(move || {
                let _ = data
                    .open_or_create(FILE, 0o644)
                    .and_then(|file| file.set_modified(SystemTime::now()));
                Ok(())
            });
        }
    }
}

/// Sets the clock forward to the image's epoch, if it stands before it.
pub fn not_before_the_image(node: &mut Node) -> Outcome {
    let text = value(&node.command_line, EPOCH);
    let epoch = text
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| Failure::new(format!("no `{EPOCH}` on the command line")))?;
    not_before(node, Duration::from_secs(epoch), "the image was made")
}

/// Sets the clock forward to when DATA last saw it, if it stands before that, and keeps it there
/// from now on.
pub fn not_before_the_last_boot(node: &mut Node) -> Outcome {
    let data = data::folder()?;
    if let Ok(Some(seen)) =
        data.file(FILE).and_then(|file| file.map(|file| file.metadata()?.modified()).transpose())
    {
        node.clock.seen = seen.duration_since(UNIX_EPOCH).unwrap_or_default();
        not_before(node, node.clock.seen, "the node last ran")?;
    }
    node.clock.data = Some(data);
    Ok(())
}

fn not_before(node: &mut Node, least: Duration, why: &str) -> Outcome {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let Some(better) = forward(now, least) else { return Ok(()) };
    node.clock.was_behind = true;
    let time = Timespec { tv_sec: better.as_secs() as i64, tv_nsec: better.subsec_nanos().into() };
    clock_settime(ClockId::Realtime, time).explain("set the clock")?;
    node.console
        .say("clock", format_args!("set forward by {} s, to when {why}", (better - now).as_secs()));
    Ok(())
}

/// Prints that the clock was set by what time servers say, and whether that is worth anything.
pub fn tell_set(node: &mut Node, report: &ClockReport) {
    say(node, &format!("the clock was set {}: {}", moved(report.offset), sources(report)));
}

/// Prints that the clock was not set although time servers agree.
pub fn tell_refused(node: &mut Node, report: &ClockReport) {
    say(
        node,
        &format!(
            "the clock was not set {}, against {}; the log of the pod `time` says why",
            moved(report.offset),
            sources(report)
        ),
    );
}

fn say(node: &mut Node, text: &str) {
    match node.clock.limit.judge(uptime()) {
        Verdict::Show { .. } => node.console.say(NAME, text),
        Verdict::Hold => {}
    }
}

fn moved(offset: i64) -> String {
    let size = offset.unsigned_abs();
    let direction = if offset < 0 { "back" } else { "forward" };
    format!("{direction} by {}.{:03} s", size / 1_000_000, size % 1_000_000 / 1000)
}

fn sources(report: &ClockReport) -> String {
    let ClockReport { agreeing, answered, .. } = report;
    let servers = if *answered == 1 { "server" } else { "servers" };
    let doubt = if *answered < CONFIRMED {
        format!(", fewer than {CONFIRMED}: nobody confirms it")
    } else {
        String::new()
    };
    format!("{agreeing} of {answered} {servers}{doubt}")
}

/// What to set a clock to that shows `now`, if it must be set.
fn forward(now: Duration, least: Duration) -> Option<Duration> {
    (now < least).then_some(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_starts_in_1970_is_set_forward() {
        assert_eq!(
            forward(Duration::from_secs(4), Duration::from_secs(1_790_000_000)),
            Some(Duration::from_secs(1_790_000_000))
        );
    }

    #[test]
    fn a_clock_is_never_set_back() {
        assert_eq!(forward(Duration::from_secs(11), Duration::from_secs(10)), None);
        assert_eq!(forward(Duration::from_secs(10), Duration::from_secs(10)), None);
    }

    #[test]
    fn the_pod_that_sets_the_clock_learns_when_the_node_last_ran() {
        let clock = Clock { seen: Duration::from_secs(1_790_000_000), ..Clock::default() };
        assert_eq!(clock.last_seen(), LastSeen { seconds: 1_790_000_000, clock_kept: true });
        let behind = Clock { was_behind: true, ..Clock::default() };
        assert_eq!(behind.last_seen(), LastSeen { seconds: 0, clock_kept: false });
    }

    #[test]
    fn the_console_says_when_nobody_confirms_the_time() {
        let report = |offset, agreeing, answered| ClockReport { offset, agreeing, answered };
        assert_eq!(moved(-1_250_999), "back by 1.250 s");
        assert_eq!(moved(i64::MIN), "back by 9223372036854.775 s");
        assert_eq!(sources(&report(1, 1, 1)), "1 of 1 server, fewer than 3: nobody confirms it");
        assert_eq!(sources(&report(1, 3, 4)), "3 of 4 servers");
    }

    #[test]
    fn the_time_is_kept_at_once_and_then_only_once_an_interval() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let path = folder.join("clock");
        let mut clock =
            Clock { data: Some(Folder::open(&folder, "aside").unwrap()), ..Clock::default() };
        let writer = Writer::start().unwrap();
        let mut keeps = |now| {
            clock.keep(now, &writer);
            // What was begun before is done once this is.
            let (tell, told) = std::sync::mpsc::channel();
            writer.begin(move || tell.send(()).explain("tell")).unwrap();
            told.recv().unwrap();
            path.exists()
        };
        assert!(keeps(Duration::ZERO));
        std::fs::remove_file(&path).unwrap();
        assert!(!keeps(INTERVAL - Duration::from_secs(1)));
        assert!(keeps(INTERVAL));
    }
}
