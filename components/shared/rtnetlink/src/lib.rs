//! The bytes of rtnetlink messages (netlink(7), rtnetlink(7)): a header, a fixed part, and
//! attributes. The pods `dhcp` and `osd` say what they mean.
//!
//! The code is our own instead of `netlink-packet-route`, which parses every attribute of every
//! kind of link, and rejects a whole link because of one attribute with an unexpected length. The
//! pods need a few attributes, whatever a newer kernel adds. The crate would also be half of the
//! program `dhcp`.

#![forbid(unsafe_code)]

/// The protocol (`RTPROT_…`, `IFAPROT_…`) of routes, rules and addresses of settings, and the group
/// of links. The program that sets them finds its own by it; no other is known to use the number.
pub const BY_SETTING: u8 = 111;

/// The length of a message's header.
const HEADER: usize = 16;
/// The bits of an attribute's type that are not flags (`NLA_TYPE_MASK`).
const TYPE: u16 = 0x3fff;

/// A request under construction.
#[derive(Debug)]
pub struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// Makes a request of this type (`RTM_…`), with these flags (`NLM_F_…`) and this fixed part.
    pub fn new(kind: u16, flags: i32, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((flags as u16).to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(fixed);
        Self { bytes }
    }

    /// Adds an attribute.
    pub fn with(mut self, kind: u16, value: &[u8]) -> Self {
        self.bytes.extend((4 + value.len() as u16).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    /// Returns the complete message with this sequence number.
    pub fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

/// Attributes as the value of another one.
pub fn nested(attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let request = Request { bytes: Vec::new() };
    attributes.iter().fold(request, |request, (kind, value)| request.with(*kind, value)).bytes
}

/// A message from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The type (`RTM_…` or `NLMSG_…`).
    pub kind: u16,
    /// The flags (`NLM_F_…`).
    pub flags: u16,
    /// The sequence number of its request.
    pub sequence: u32,
    /// The bytes after the header.
    pub payload: &'a [u8],
}

/// The messages in one read, up to the first incomplete one.
pub fn answers(mut bytes: &[u8]) -> impl Iterator<Item = Answer<'_>> {
    std::iter::from_fn(move || {
        let length = u32_at(bytes, 0)? as usize;
        let message = bytes.get(..length).filter(|_| length >= HEADER)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Answer {
            kind: u16_at(message, 4)?,
            flags: u16_at(message, 6)?,
            sequence: u32_at(message, 8)?,
            payload: &message[HEADER..],
        })
    })
}

/// The attributes after the fixed part of a message, or inside another attribute, up to the first
/// incomplete one.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let value = bytes.get(4..length)?;
        let kind = u16_at(bytes, 2)? & TYPE;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Reads the number at an offset; `None` past the end.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads the number at an offset; `None` past the end.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_are_padded_to_four_bytes() {
        let message = Request::new(1, 2, &[9; 4]).with(5, b"a").with(6, b"bcde").finish(7);
        assert_eq!((message.len(), u32_at(&message, 0)), (HEADER + 4 + 8 + 8, Some(36)));
        let answer = answers(&message).next().unwrap();
        assert_eq!((answer.kind, answer.flags, answer.sequence), (1, 2, 7));
        assert!(attributes(&answer.payload[4..]).eq([(5, &b"a"[..]), (6, &b"bcde"[..])]));
    }

    #[test]
    fn attributes_in_an_attribute_are_read_as_they_were_written() {
        let inner: [(u16, &[u8]); 2] = [(1, b"vlan"), (2, &nested(&[(1, &[5, 0])]))];
        let value = nested(&inner);
        assert!(attributes(&value).eq(inner));
    }

    #[test]
    fn several_messages_are_separated() {
        let bytes =
            [Request::new(1, 0, &[]).finish(1), Request::new(2, 0, &[0; 4]).finish(2)].concat();
        assert!(answers(&bytes).map(|answer| answer.kind).eq([1, 2]));
    }

    #[test]
    fn a_cut_message_ends_the_row() {
        let bytes = Request::new(1, 0, &[0; 8]).finish(1);
        for length in 0..bytes.len() {
            assert_eq!(answers(&bytes[..length]).next(), None);
        }
    }

    #[test]
    fn a_length_of_nothing_ends_the_row() {
        assert_eq!(answers(&[0; 64]).next(), None);
        assert_eq!(attributes(&[0; 64]).next(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for answer in answers(&bytes) {
                attributes(answer.payload).count();
            }
            attributes(&bytes).count();
        }

        #[test]
        fn any_short_lengths_are_read_to_an_end(
            lengths in prop::collection::vec(0..40u16, 0..100),
        ) {
            let bytes: Vec<u8> = lengths.iter().flat_map(|length| length.to_ne_bytes()).collect();
            for answer in answers(&bytes) {
                attributes(answer.payload).count();
            }
            attributes(&bytes).count();
        }
    }
}
