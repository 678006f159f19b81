//! The time of day until the pod `time` sets it: never before the image was made, nor before the
//! node last ran.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_folder::Folder;
use osbuild_protocol::{ClockReport, LastSeen};
use rustix::time::{ClockId, Timespec, clock_settime};

use crate::data;
use crate::processes::rate_limit::{Admission, RateLimit};

/// How often the time is kept on DATA: after a power cut the clock is at most this much behind.
const INTERVAL: Duration = Duration::from_secs(600);

/// The file on DATA. It is empty; its modification time is the kept time.
const FILE: &str = "clock";
/// With this many time servers, one that lies cannot change the result.
const CONFIRMED: u8 = 3;

/// When to keep the time on DATA, and what the clock showed at boot.
#[derive(Default)]
pub struct Clock {
    /// When the time is kept next, since boot. `None` until the last boot's time has been read,
    /// which this boot's replaces.
    next: Option<Duration>,
    /// When the node last ran before this boot, since 1970.
    seen: Duration,
    /// Whether the clock had to be set forward in this boot.
    was_behind: bool,
    /// How many time servers agreed when the clock was last set.
    confirmed_by: String,
    /// Bounds the lines on the console.
    limit: RateLimit,
}

impl Clock {
    /// When the time is kept next, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.next
    }

    /// Whether the time is to be kept now, because the [interval](INTERVAL) has passed. `now` is
    /// the time since boot.
    pub fn is_due(&mut self, now: Duration) -> bool {
        let is_due = self.next.is_some_and(|next| next <= now);
        if is_due {
            self.next = Some(now + INTERVAL);
        }
        is_due
    }

    /// Whether this boot's time may be kept.
    pub fn keeps(&self) -> bool {
        self.next.is_some()
    }

    /// When the node last ran, and whether the machine's clock kept the time since then.
    pub fn last_seen(&self) -> LastSeen {
        LastSeen { seconds: self.seen.as_secs(), clock_kept: !self.was_behind }
    }

    /// How many time servers agreed when the clock was last set; empty if none has in this boot.
    pub fn confirmed_by(&self) -> &str {
        &self.confirmed_by
    }

    /// Sets the clock forward to the image's epoch, if it is before it. Returns a line for the
    /// console if it was.
    pub fn apply_epoch(&mut self, epoch: Option<Duration>) -> Outcome<Option<String>> {
        let epoch = epoch.ok_or_else(|| Failure::new("the command line has no epoch"))?;
        self.set_forward(epoch, "the image was made")
    }

    /// Sets the clock forward to when the node last ran, if it is before that, and keeps the time
    /// from now on. Returns a line for the console if it was.
    pub fn apply_last(&mut self, seen: Option<SystemTime>) -> Outcome<Option<String>> {
        self.next = Some(Duration::ZERO);
        let Some(seen) = seen else { return Ok(None) };
        self.seen = seen.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.set_forward(self.seen, "the node last ran")
    }

    fn set_forward(&mut self, least: Duration, event: &str) -> Outcome<Option<String>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let Some(better) = forward(now, least) else { return Ok(None) };
        self.was_behind = true;
        let time =
            Timespec { tv_sec: better.as_secs() as i64, tv_nsec: better.subsec_nanos().into() };
        clock_settime(ClockId::Realtime, time).explain("set the clock")?;
        let seconds = (better - now).as_secs();
        Ok(Some(format!("set forward by {seconds} s, to when {event}")))
    }

    /// The line about a clock that was set, unless too many came before it.
    pub fn on_set(&mut self, report: &ClockReport, now: Duration) -> Option<String> {
        self.confirmed_by = sources(report);
        let line = format!("the clock was set {}: {}", moved(report.offset), self.confirmed_by);
        self.admit(line, now)
    }

    /// The line about a clock that was not set although time servers agree, unless too many came
    /// before it.
    pub fn on_refused(&mut self, report: &ClockReport, now: Duration) -> Option<String> {
        let (moved, sources) = (moved(report.offset), sources(report));
        let line = format!(
            "the clock was not set {moved}, against {sources}; the log of the pod `time` says why"
        );
        self.admit(line, now)
    }

    fn admit(&mut self, line: String, now: Duration) -> Option<String> {
        (self.limit.admit(now) != Admission::Hold).then_some(line)
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
        format!(", fewer than {CONFIRMED}: unconfirmed")
    } else {
        String::new()
    };
    format!("{agreeing} of {answered} {servers}{doubt}")
}

/// Keeps the time on DATA.
pub fn keep() -> Outcome {
    keep_on(&data::folder::open()?).explain(format_args!("write {FILE} on DATA"))
}

/// The same below another folder than DATA.
pub fn keep_on(data: &Folder) -> std::io::Result<()> {
    data.open_or_create(FILE, 0o644)?.set_modified(SystemTime::now())
}

/// When the node last ran, according to DATA; nothing if it has never run.
pub fn seen() -> Outcome<Option<SystemTime>> {
    Ok(seen_on(&data::folder::open()?))
}

/// When the node last ran: the time at which a file on DATA was last modified.
pub fn seen_on(data: &Folder) -> Option<SystemTime> {
    data.file(FILE).ok().flatten()?.metadata().ok()?.modified().ok()
}

/// The time to set a clock to that shows `now`, if it has to be set.
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
    fn the_line_warns_when_too_few_servers_confirm_the_time() {
        let report = |offset, agreeing, answered| ClockReport { offset, agreeing, answered };
        assert_eq!(moved(-1_250_999), "back by 1.250 s");
        assert_eq!(moved(i64::MIN), "back by 9223372036854.775 s");
        assert_eq!(sources(&report(1, 1, 1)), "1 of 1 server, fewer than 3: unconfirmed");
        assert_eq!(sources(&report(1, 3, 4)), "3 of 4 servers");
    }

    #[test]
    fn the_time_is_kept_at_once_and_then_once_per_interval() {
        let mut clock = Clock::default();
        assert!(!clock.is_due(Duration::from_secs(2)), "the last boot's time was not read yet");
        clock.apply_last(None).unwrap();
        assert!(clock.is_due(Duration::ZERO));
        assert!(!clock.is_due(INTERVAL - Duration::from_secs(1)));
        assert!(clock.is_due(INTERVAL));
    }

    #[test]
    fn a_kept_time_is_when_the_node_last_ran() {
        let folder = tempfile::tempdir().unwrap();
        let data = Folder::open(&folder.path().canonicalize().unwrap(), "aside").unwrap();
        assert_eq!(seen_on(&data), None);
        let before = SystemTime::now();
        keep_on(&data).unwrap();
        let seen = seen_on(&data).unwrap();
        assert!(seen >= before - Duration::from_secs(1) && seen <= SystemTime::now());
    }
}
