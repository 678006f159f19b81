//! The keys with which a user leaves a session whose node does not answer: `~.` at the start of a
//! line, as with ssh(1).

/// The key with which they begin, and the one that leaves.
const ESCAPE: u8 = b'~';
const LEAVE: u8 = b'.';

/// The keys before the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Escape {
    /// A new line, or nothing.
    #[default]
    AtStart,
    /// `~` after that, which is not sent yet.
    Begun,
    /// Another one.
    Within,
}

impl Escape {
    /// The bytes to send for the bytes of keys; none if the user leaves. Two of `~` send one.
    pub fn filter(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut sent = Vec::with_capacity(bytes.len() + 1);
        for &byte in bytes {
            match (*self, byte) {
                (Escape::AtStart, ESCAPE) => {
                    *self = Escape::Begun;
                    continue;
                }
                (Escape::Begun, LEAVE) => return None,
                (Escape::Begun, other) if other != ESCAPE => sent.push(ESCAPE),
                _ => {}
            }
            sent.push(byte);
            *self = match byte {
                b'\r' | b'\n' => Escape::AtStart,
                _ => Escape::Within,
            };
        }
        Some(sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sent(parts: &[&str]) -> Option<String> {
        let mut escape = Escape::default();
        let parts: Option<Vec<Vec<u8>>> =
            parts.iter().map(|part| escape.filter(part.as_bytes())).collect();
        Some(String::from_utf8(parts?.concat()).unwrap())
    }

    #[test]
    fn a_user_leaves_at_the_start_of_a_line_alone() {
        for left in [&["~."][..], &["ls\r~."], &["a\n", "~", "."]] {
            assert_eq!(sent(left), None, "{left:?}");
        }
        for (parts, expected) in [
            (&["a~."][..], "a~."),
            (&["~~."], "~."),
            (&["~/bin\r"], "~/bin\r"),
            (&["~", "\r~a"], "~\r~a"),
            (&["~"], ""),
        ] {
            assert_eq!(sent(parts).as_deref(), Some(expected), "{parts:?}");
        }
    }

    proptest! {
        #[test]
        fn without_the_escape_all_keys_are_sent(text in "[^~]{0,40}", at in 0..40usize) {
            let (one, other) = text.split_at(text.floor_char_boundary(at.min(text.len())));
            prop_assert_eq!(sent(&[one, other]), Some(text.clone()));
        }
    }
}
