//! Splits the bytes from a pipe or a socket into lines.

/// Bytes that were read and are not a whole line yet.
#[derive(Default)]
pub struct Lines {
    pending: Vec<u8>,
}

impl Lines {
    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// How many bytes wait for the rest of their line.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Takes the next whole line, without its end. A line longer than `max` bytes is cut there, so
    /// that memory stays bounded. Bytes that are not UTF-8 become U+FFFD.
    pub fn take(&mut self, max: usize) -> Option<String> {
        let (line, used) = match self.pending.iter().take(max).position(|byte| *byte == b'\n') {
            Some(end) => (&self.pending[..end], end + 1),
            None if self.pending.len() >= max => (&self.pending[..max], max),
            None => return None,
        };
        let line = String::from_utf8_lossy(line).trim_end_matches('\r').to_owned();
        self.pending.drain(..used);
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_can_come_in_pieces() {
        let mut lines = Lines::default();
        lines.push(b"one\r\ntw");
        assert_eq!(lines.take(100).as_deref(), Some("one"));
        assert_eq!(lines.take(100), None);
        lines.push(b"o\n");
        assert_eq!(lines.take(100).as_deref(), Some("two"));
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let mut lines = Lines::default();
        lines.push(&[b'x'; 25]);
        assert_eq!(lines.take(10).map(|line| line.len()), Some(10));
        assert_eq!(lines.take(10).map(|line| line.len()), Some(10));
        assert_eq!(lines.take(10), None);
        assert_eq!(lines.pending.len(), 5);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_grow(
            pieces in proptest::collection::vec(any::<Vec<u8>>(), 0..20),
        ) {
            let mut lines = Lines::default();
            for piece in pieces {
                lines.push(&piece);
                while let Some(line) = lines.take(16) {
                    prop_assert!(line.chars().count() <= 16);
                }
                prop_assert!(lines.pending.len() < 16);
            }
        }
    }
}
