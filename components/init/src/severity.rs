//! Which lines of a daemon are worth the console, and how many of them.

use std::time::Duration;

/// Errors that come at every healthy start. They are in the logs; on the console they would teach
/// people to overlook errors.
const EXPECTED: &[&str] = &[
    // containerd: a node has no CNI before its pod has come.
    "failed to load cni during init",
    // The kubelet, in its first seconds: it has not yet asked containerd how it is.
    "Skipping pod synchronization",
    "Image garbage collection failed once",
    "checkpoint is not found",
    "failed to check if we have separate container filesystem",
    // The kubelet, on a node that has not joined: there is no API server with a newer one of
    // itself.
    "failed to check if node is newer",
    // The kubelet, before the pod that gives the node its network. Should that pod fail, the gate
    // says so.
    "no default routes found",
];

/// Whether a line says that something is wrong: containerd writes logrus text, the kubelet klog,
/// and Go itself its panics.
pub fn is_error(line: &str) -> bool {
    has_level_of_error(line) && !EXPECTED.iter().any(|expected| line.contains(expected))
}

fn has_level_of_error(line: &str) -> bool {
    let klog = |bytes: &[u8]| matches!(bytes, [b'E' | b'F', a, b, c, d, b' ', ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_digit()));
    klog(line.as_bytes())
        || ["level=error", "level=fatal", "level=panic"].iter().any(|level| line.contains(level))
        || ["panic: ", "fatal error: "].iter().any(|start| line.starts_with(start))
}

/// How many lines may come at once.
const BURST: u32 = 5;
/// How long it takes until one more may come.
const REFILL: Duration = Duration::from_secs(10);

/// Lets a few lines through and counts the others.
#[derive(Default)]
pub struct Limit {
    used: u32,
    since: Duration,
    held_back: u32,
}

/// What is to become of a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Show it; so many were held back since the last one.
    Show {
        /// How many lines nobody saw.
        held_back: u32,
    },
    /// Do not show it.
    Hold,
}

impl Limit {
    /// Judges a line that came at this time since boot.
    pub fn judge(&mut self, now: Duration) -> Verdict {
        let refilled = (now.saturating_sub(self.since).as_secs() / REFILL.as_secs()) as u32;
        if refilled > 0 {
            self.used = self.used.saturating_sub(refilled);
            self.since = now;
        }
        if self.used >= BURST {
            self.held_back += 1;
            return Verdict::Hold;
        }
        self.used += 1;
        Verdict::Show { held_back: std::mem::take(&mut self.held_back) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_both_daemons_and_of_go_are_known() {
        assert!(is_error(
            r#"E1121 11:19:05.123456       1 kubelet.go:1685] "Failed to start ContainerManager""#
        ));
        assert!(is_error(r#"time="2026-11-21T11:19:05Z" level=error msg="get state""#));
        assert!(is_error("panic: runtime error: index out of range"));
    }

    #[test]
    fn what_comes_at_every_healthy_start_is_not_for_the_console() {
        assert!(!is_error(
            r#"E1121 12:25:45.815177     139 kubelet.go:2530] "Skipping pod synchronization" err="[PLEG is not healthy]""#
        ));
        assert!(!is_error(
            r#"time="2026-11-21T12:25:26Z" level=error msg="failed to load cni during init, please check""#
        ));
    }

    #[test]
    fn a_word_that_starts_with_e_is_no_error() {
        assert!(!is_error("E112x something"));
        assert!(!is_error("Error: not klog"));
        assert!(!is_error(r#"I1121 11:19:05.1 1 a.go:1] "Error""#));
        assert!(!is_error("E"));
    }

    #[test]
    fn a_flood_is_held_back_and_counted() {
        let mut limit = Limit::default();
        let shown = (0..100).filter(|_| limit.judge(Duration::ZERO) != Verdict::Hold).count();
        assert_eq!(shown, 5);
        assert_eq!(limit.judge(Duration::from_secs(10)), Verdict::Show { held_back: 95 });
        assert_eq!(limit.judge(Duration::from_secs(11)), Verdict::Hold);
    }

    #[test]
    fn a_quiet_hour_does_not_save_up_more_than_one_burst() {
        let mut limit = Limit::default();
        let hour = Duration::from_secs(3600);
        let shown = (0..100).filter(|_| limit.judge(hour) != Verdict::Hold).count();
        assert_eq!(shown, 5);
    }
}
