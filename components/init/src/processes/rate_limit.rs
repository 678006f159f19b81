//! Which lines of a daemon go to the console, and how many of them.

use std::time::Duration;

/// Errors that daemons log at every healthy start. They stay in the logs; on the console they would
/// teach people to overlook errors.
const EXPECTED: &[&str] = &[
    // containerd: a node has no CNI before its CNI pod runs.
    "failed to load cni during init",
    // The kubelet, in its first seconds: it has not asked containerd for its status yet.
    "Skipping pod synchronization",
    "Image garbage collection failed once",
    "checkpoint is not found",
    "failed to check if we have separate container filesystem",
    // The kubelet, on a node that has not joined: no API server has a newer Node object.
    "failed to check if node is newer",
    // The kubelet, before the pod that gives the node its network. Should that pod fail, the gate
    // says so.
    "no default routes found",
];

/// Whether a line reports an error: containerd writes logrus text, the kubelet klog, and Go itself
/// its panics.
pub fn is_error(line: &str) -> bool {
    has_error_level(line) && !EXPECTED.iter().any(|expected| line.contains(expected))
}

fn has_error_level(line: &str) -> bool {
    let is_klog = match line.as_bytes() {
        [b'E' | b'F', date @ ..] if date.len() > 4 => {
            date[..4].iter().all(u8::is_ascii_digit) && date[4] == b' '
        }
        _ => false,
    };
    is_klog
        || ["level=error", "level=fatal", "level=panic"].iter().any(|level| line.contains(level))
        || ["panic: ", "fatal error: "].iter().any(|start| line.starts_with(start))
}

/// How many lines are admitted at once.
const BURST: u32 = 5;
/// How long it takes until one more is admitted.
const REFILL: Duration = Duration::from_secs(10);

/// Admits a few lines and counts the others.
#[derive(Default)]
pub struct RateLimit {
    used: u32,
    since: Duration,
    held_back: u32,
}

/// Whether a line is shown.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// Show it.
    Show {
        /// How many lines were held back since the last one that was shown.
        held_back: u32,
    },
    /// Do not show it.
    Hold,
}

impl RateLimit {
    /// Decides about a line that was read `now`, since boot.
    pub fn admit(&mut self, now: Duration) -> Admission {
        let refilled = (now.saturating_sub(self.since).as_secs() / REFILL.as_secs()) as u32;
        if refilled > 0 {
            self.used = self.used.saturating_sub(refilled);
            self.since = now;
        }
        if self.used >= BURST {
            self.held_back += 1;
            return Admission::Hold;
        }
        self.used += 1;
        Admission::Show { held_back: std::mem::take(&mut self.held_back) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_both_daemons_and_of_go_are_recognized() {
        assert!(is_error(
            r#"E1121 11:19:05.123456       1 kubelet.go:1685] "Failed to start ContainerManager""#
        ));
        assert!(is_error(r#"time="2026-11-21T11:19:05Z" level=error msg="get state""#));
        assert!(is_error("panic: runtime error: index out of range"));
    }

    #[test]
    fn errors_of_every_healthy_start_are_kept_off_the_console() {
        assert!(!is_error(
            r#"E1121 12:25:45.815177     139 kubelet.go:2530] "Skipping pod synchronization""#
        ));
        assert!(!is_error(
            r#"time="2026-11-21T12:25:26Z" level=error msg="failed to load cni during init""#
        ));
    }

    #[test]
    fn a_line_that_starts_with_e_need_not_be_an_error() {
        assert!(!is_error("E112x something"));
        assert!(!is_error("Error: not klog"));
        assert!(!is_error(r#"I1121 11:19:05.1 1 a.go:1] "Error""#));
        assert!(!is_error("E"));
    }

    #[test]
    fn lines_beyond_the_burst_are_held_back_and_counted() {
        let mut limit = RateLimit::default();
        let shown = (0..100).filter(|_| limit.admit(Duration::ZERO) != Admission::Hold).count();
        assert_eq!(shown, 5);
        assert_eq!(limit.admit(Duration::from_secs(10)), Admission::Show { held_back: 95 });
        assert_eq!(limit.admit(Duration::from_secs(11)), Admission::Hold);
    }

    #[test]
    fn a_quiet_hour_saves_up_one_burst_only() {
        let mut limit = RateLimit::default();
        let hour = Duration::from_secs(3600);
        let shown = (0..100).filter(|_| limit.admit(hour) != Admission::Hold).count();
        assert_eq!(shown, 5);
    }
}
