//! The newest lines of the logs of a node.

use super::untrusted::clean;
use osbuild_cosi::v1::{KernelMessage, LogLine};
use std::collections::VecDeque;

/// The name of the kernel's log.
pub const KERNEL: &str = "kernel";

/// The lines of each log that are kept: one that is flooded must not push out the others.
const MAX_LINES: usize = 1000;

/// How serious a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// An error of the kernel.
    Error,
    /// A warning of the kernel.
    Warning,
    /// Another line. The lines of daemons do not say how serious they are.
    Other,
}

/// A line that can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The name of the log: [`KERNEL`] or a daemon.
    pub log: String,
    /// The text.
    pub text: String,
    /// How serious it is.
    pub severity: Severity,
}

impl Line {
    /// The lines of a daemon's log.
    pub fn of_daemon(log: &str, LogLine { text, .. }: &LogLine) -> Vec<Line> {
        let log = clean(log);
        let line = |text| Line { log: log.clone(), text: clean(text), severity: Severity::Other };
        text.lines().map(line).collect()
    }

    /// The lines of a message of the kernel, each with its time.
    pub fn of_kernel(message: &KernelMessage) -> Vec<Line> {
        let KernelMessage { level, time_microseconds, text } = message;
        let (seconds, rest) = (time_microseconds / 1_000_000, time_microseconds % 1_000_000);
        let severity = match level {
            0..=3 => Severity::Error,
            4 => Severity::Warning,
            _ => Severity::Other,
        };
        let line = |text: &str| Line {
            log: KERNEL.to_owned(),
            text: clean(&format!("[{seconds:5}.{rest:06}] {text}")),
            severity,
        };
        text.lines().map(line).collect()
    }
}

/// Which lines are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Only this log.
    pub log: Option<String>,
    /// Only lines with this text, in upper or lower case.
    pub text: String,
}

impl Choice {
    /// Whether the line is shown.
    pub fn has(&self, line: &Line) -> bool {
        self.log.as_ref().is_none_or(|log| *log == line.log)
            && (self.text.is_empty()
                || line.text.to_lowercase().contains(&self.text.to_lowercase()))
    }
}

/// The newest lines of all logs of a node, in the order in which they have arrived.
#[derive(Debug, Default)]
pub struct Log(VecDeque<Line>);

impl Log {
    /// A log is read from its end: the same lines come again.
    pub fn begin(&mut self, log: &str) {
        let log = clean(log);
        self.0.retain(|line| line.log != log);
    }

    /// Adds lines of one log.
    pub fn extend(&mut self, lines: Vec<Line>) {
        let Some(log) = lines.first().map(|line| line.log.clone()) else { return };
        self.0.extend(lines);
        let count = self.0.iter().filter(|line| line.log == log).count();
        let mut excess = count.saturating_sub(MAX_LINES);
        if excess > 0 {
            self.0.retain(|line| {
                let is_old = line.log == log && excess > 0;
                excess -= usize::from(is_old);
                !is_old
            });
        }
    }

    /// The lines that are shown, the newest last.
    pub fn chosen(&self, choice: &Choice) -> Vec<&Line> {
        self.0.iter().filter(|line| choice.has(line)).collect()
    }

    /// The names of the logs that have lines, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.0.iter().map(|line| line.log.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daemon(log: &str, text: &str) -> Vec<Line> {
        Line::of_daemon(log, &LogLine { text: text.into(), ..LogLine::default() })
    }

    fn texts(log: &Log, choice: &Choice) -> Vec<String> {
        log.chosen(choice).iter().map(|line| line.text.clone()).collect()
    }

    #[test]
    fn a_choice_is_a_log_and_a_text_in_any_case() {
        let mut log = Log::default();
        log.extend(daemon("kubelet", "Pod started\nnode ready"));
        log.extend(daemon("init", "POD ends"));
        let choice = |log: Option<&str>, text: &str| Choice {
            log: log.map(str::to_owned),
            text: text.to_owned(),
        };
        assert_eq!(texts(&log, &choice(None, "")).len(), 3);
        assert_eq!(texts(&log, &choice(None, "pod")), ["Pod started", "POD ends"]);
        assert_eq!(texts(&log, &choice(Some("init"), "pod")), ["POD ends"]);
        assert_eq!(log.names(), ["init", "kubelet"]);
    }

    #[test]
    fn a_log_that_is_read_again_has_its_lines_once() {
        let mut log = Log::default();
        log.extend(daemon("init", "a"));
        log.extend(daemon("kubelet", "b"));
        log.begin("init");
        log.extend(daemon("init", "a"));
        assert_eq!(texts(&log, &Choice::default()), ["b", "a"]);
    }

    #[test]
    fn a_log_that_is_flooded_loses_its_oldest_lines_and_no_others() {
        let mut log = Log::default();
        log.extend(daemon("init", "READY"));
        for number in 0..3 * MAX_LINES {
            log.extend(daemon("kubelet", &number.to_string()));
        }
        let texts = texts(&log, &Choice::default());
        assert_eq!((texts.len(), texts[0].as_str()), (MAX_LINES + 1, "READY"));
        assert_eq!((texts[1].as_str(), texts[MAX_LINES].as_str()), ("2000", "2999"));
    }

    #[test]
    fn lines_of_the_kernel_have_a_time_and_are_harmless() {
        let message =
            KernelMessage { level: 3, time_microseconds: 12_345_678, text: "a\u{1b}[2J\nb".into() };
        let lines = Line::of_kernel(&message);
        assert_eq!(lines[0].text, "[   12.345678] a\\u{1b}[2J");
        assert_eq!((lines[1].severity, lines.len()), (Severity::Error, 2));
    }
}
