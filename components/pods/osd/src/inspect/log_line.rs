//! The lines of logs: those of a daemon are plain text, and those of a container have CRI's form.

use osbuild_cosi::v1::LogLine;

/// The form of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A line is what the daemon wrote.
    Plain,
    /// `TIME STREAM TAGS TEXT`, where the tag `P` says that the line goes on in the next one.
    Cri,
}

/// The longest line that stays whole, in bytes.
pub const MAX_LINE: usize = 64 << 10;

/// Puts lines together that a container wrote in parts.
#[derive(Debug)]
pub struct Lines {
    form: Form,
    /// The beginnings of lines whose last part has not been read, one for each stream at most.
    begun: Vec<LogLine>,
}

impl Lines {
    /// Nothing is read yet.
    pub fn new(form: Form) -> Lines {
        Lines { form, begun: Vec::new() }
    }

    /// Ends the log, and returns the lines whose last part is missing: containerd marks the last
    /// line of a container as a part if the container has not ended it.
    pub fn finish(&mut self) -> Vec<LogLine> {
        std::mem::take(&mut self.begun)
    }

    /// Reads a line of the file, without its line end. Returns the line of the log that it
    /// completes.
    pub fn read(&mut self, bytes: &[u8]) -> Option<LogLine> {
        let text = String::from_utf8_lossy(bytes);
        let parts = match self.form {
            Form::Plain => None,
            Form::Cri => parts(&text),
        };
        let Some((time, stream, is_partial, text)) = parts else {
            return Some(LogLine { text: text.into_owned(), ..LogLine::default() });
        };
        let begun = self.begun.iter().position(|begun| begun.stream == stream);
        let index = begun.unwrap_or_else(|| {
            let (time, stream) = (time.to_owned(), stream.to_owned());
            self.begun.push(LogLine { text: String::new(), time, stream });
            self.begun.len() - 1
        });
        let line = &mut self.begun[index].text;
        line.push_str(text);
        let is_whole = !is_partial || line.len() >= MAX_LINE;
        is_whole.then(|| self.begun.remove(index))
    }
}

fn parts(text: &str) -> Option<(&str, &str, bool, &str)> {
    let (time, rest) = text.split_once(' ')?;
    let (stream, rest) = rest.split_once(' ')?;
    let (tags, text) = rest.split_once(' ').unwrap_or((rest, ""));
    let is_known = ["stdout", "stderr"].contains(&stream);
    is_known.then(|| (time, stream, tags.split(':').any(|tag| tag == "P"), text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(text: &str, time: &str, stream: &str) -> Option<LogLine> {
        Some(LogLine { text: text.into(), time: time.into(), stream: stream.into() })
    }

    #[test]
    fn a_line_of_a_daemon_is_plain() {
        let mut lines = Lines::new(Form::Plain);
        let text = "2026-11-26T15:12:17Z stdout F hello";
        assert_eq!(lines.read(text.as_bytes()), line(text, "", ""));
    }

    #[test]
    fn a_line_of_a_container_has_time_and_stream() {
        let mut lines = Lines::new(Form::Cri);
        assert_eq!(lines.read(b"T1 stderr F one two"), line("one two", "T1", "stderr"));
        assert_eq!(lines.read(b"T2 stdout F"), line("", "T2", "stdout"));
        assert_eq!(lines.read(b"torn"), line("torn", "", ""));
    }

    #[test]
    fn parts_of_a_line_are_put_together() {
        let mut lines = Lines::new(Form::Cri);
        assert_eq!(lines.read(b"T1 stdout P one "), None);
        assert_eq!(lines.read(b"T2 stdout P two "), None);
        assert_eq!(lines.read(b"T3 stdout F three"), line("one two three", "T1", "stdout"));
        assert_eq!(lines.read(b"T4 stdout F four"), line("four", "T4", "stdout"));
        assert!(lines.finish().is_empty());
        assert_eq!(lines.read(b"T5 stdout P five"), None);
        assert_eq!(lines.finish(), Vec::from_iter(line("five", "T5", "stdout")));
        assert!(lines.finish().is_empty());
    }

    #[test]
    fn parts_of_both_streams_do_not_mix() {
        let mut lines = Lines::new(Form::Cri);
        assert_eq!(lines.read(b"T1 stdout P a"), None);
        assert_eq!(lines.read(b"T2 stderr F b"), line("b", "T2", "stderr"));
        assert_eq!(lines.read(b"T3 stdout F c"), line("ac", "T1", "stdout"));
        assert_eq!(lines.read(b"T4 stdout P d"), None);
        assert_eq!(lines.read(b"T5 stderr P e"), None);
        assert_eq!(lines.read(b"T6 stdout P f"), None);
        let both = [line("df", "T4", "stdout"), line("e", "T5", "stderr")];
        assert_eq!(lines.finish(), both.into_iter().flatten().collect::<Vec<_>>());
    }

    #[test]
    fn a_line_without_an_end_takes_bounded_memory() {
        let mut lines = Lines::new(Form::Cri);
        let part = format!("T stdout P {}", "a".repeat(16 << 10));
        let read: Vec<_> = (0..8).filter_map(|_| lines.read(part.as_bytes())).collect();
        assert_eq!(read.len(), 2);
    }

    proptest! {
        #[test]
        fn any_line_is_read(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            Lines::new(Form::Cri).read(&bytes);
        }
    }
}
