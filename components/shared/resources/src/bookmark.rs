//! Places in the history of a kind that a client can come back to.

/// Eight random bytes of this process. The history is in memory, so a bookmark of a process before
/// is worth nothing, and differs in these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie(pub [u8; 8]);

/// The position of the next change that a watch reads, as opaque bytes: the cookie, then the
/// position in big endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bookmark(Vec<u8>);

impl Bookmark {
    /// Bytes from a client, which may be anything.
    pub fn from_client(bytes: Vec<u8>) -> Bookmark {
        Bookmark(bytes)
    }

    /// The bytes for a client.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn new(cookie: Cookie, position: u64) -> Bookmark {
        Bookmark([cookie.0, position.to_be_bytes()].concat())
    }

    /// The position, if this process made the bookmark.
    pub(crate) fn position(&self, cookie: Cookie) -> Option<u64> {
        let position = self.0.strip_prefix(&cookie.0)?.try_into().ok()?;
        Some(u64::from_be_bytes(position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OURS: Cookie = Cookie(*b"process1");

    proptest! {
        #[test]
        fn a_bookmark_leads_to_its_position_in_its_process_only(position: u64) {
            let bytes = Bookmark::new(OURS, position).into_bytes();
            prop_assert_eq!(bytes.len(), 16);
            let bookmark = Bookmark::from_client(bytes);
            prop_assert_eq!(bookmark.position(OURS), Some(position));
            prop_assert_eq!(bookmark.position(Cookie(*b"process2")), None);
        }

        #[test]
        fn any_bytes_from_a_client_are_read(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            let is_ours = bytes.len() == 16 && bytes.starts_with(&OURS.0);
            let position = Bookmark::from_client(bytes).position(OURS);
            prop_assert_eq!(position.is_some(), is_ours);
        }
    }
}
