//! Lines that a thread writes, so that a reader who takes none holds up nobody else.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of waiting lines from which on further ones are lost.
const MAX_WAITING: usize = 256 << 10;

/// The same for lines that give way to others.
const MAX_YIELDING: usize = MAX_WAITING / 2;

/// Lines that wait for their writer. Those that find it full are counted, and the next line that is
/// written has their number before it.
#[derive(Debug, Default)]
pub struct LineQueue {
    waiting: Mutex<Waiting>,
    added: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<String>,
    bytes: usize,
    lost: u64,
}

impl LineQueue {
    /// Adds a line, unless too many are waiting. It never waits for the writer.
    pub fn add(&self, line: &str) {
        self.add_below(MAX_WAITING, line);
    }

    /// Adds a line that leaves half of the room to others.
    pub fn add_yielding(&self, line: &str) {
        self.add_below(MAX_YIELDING, line);
    }

    fn add_below(&self, max: usize, line: &str) {
        let mut waiting = self.lock();
        if waiting.bytes >= max {
            waiting.lost += 1;
            return;
        }
        let text = match std::mem::take(&mut waiting.lost) {
            0 => format!("{line}\n"),
            lost => format!("record: {lost} lines are lost: nobody has read them\n{line}\n"),
        };
        waiting.bytes += text.len();
        waiting.lines.push_back(text);
        self.added.notify_one();
    }

    /// Writes the next line, for which it waits. A line that cannot be written is lost.
    pub fn write_next(&self, to: &mut impl Write) {
        let mut waiting = self.lock();
        let text = loop {
            match waiting.lines.pop_front() {
                Some(text) => break text,
                None => {
                    let added = self.added.wait(waiting);
                    waiting = added.unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        drop(waiting);
        let written = to.write_all(text.as_bytes()).and_then(|()| to.flush());
        let mut waiting = self.lock();
        // The line that is being written counts until then.
        waiting.bytes -= text.len();
        waiting.lost += u64::from(written.is_err());
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, Result};

    /// A reader that has gone away.
    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> Result<usize> {
            Err(Error::from_raw_os_error(32))
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_find_the_queue_full_are_counted() {
        let queue = LineQueue::default();
        let long = "a".repeat(MAX_WAITING);
        queue.add(&long);
        queue.add("b");
        queue.add("c");
        let mut written = Vec::new();
        queue.write_next(&mut written);
        assert_eq!(written, (long + "\n").as_bytes());
        written.clear();
        queue.add("d");
        queue.add("e");
        queue.write_next(&mut written);
        queue.write_next(&mut written);
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "record: 2 lines are lost: nobody has read them\nd\ne\n"
        );
        assert_eq!(queue.lock().bytes, 0);
    }

    #[test]
    fn lines_that_give_way_leave_room_for_others() {
        let queue = LineQueue::default();
        queue.add_yielding(&"a".repeat(MAX_YIELDING));
        queue.add_yielding("b");
        queue.add("c");
        let mut written = Vec::new();
        queue.write_next(&mut written);
        written.clear();
        queue.write_next(&mut written);
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "record: 1 lines are lost: nobody has read them\nc\n"
        );
    }

    #[test]
    fn a_line_that_cannot_be_written_is_lost() {
        let queue = LineQueue::default();
        queue.add("a");
        queue.write_next(&mut Closed);
        queue.add("b");
        let mut written = Vec::new();
        queue.write_next(&mut written);
        assert!(written.starts_with(b"record: 1 lines are lost"));
    }
}
