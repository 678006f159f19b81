//! DHCPv6 messages as bytes: RFC 8415, 8 and 21 (format and options), RFC 3646 (name servers),
//! RFC 5908 (time servers).

/// Bytes of the fixed part of a message, and of an option.
const HEADER: usize = 4;
/// A transaction number has three bytes.
const MAX_TRANSACTION: u32 = 0x00ff_ffff;

/// Option codes.
pub mod code {
    #![allow(missing_docs)]
    pub const CLIENT: u16 = 1;
    pub const SERVER: u16 = 2;
    /// IA_NA: the addresses of one link.
    pub const ASSOCIATION: u16 = 3;
    pub const ADDRESS: u16 = 5;
    pub const REQUESTED_OPTIONS: u16 = 6;
    pub const PREFERENCE: u16 = 7;
    pub const ELAPSED: u16 = 8;
    pub const STATUS: u16 = 13;
    pub const NAME_SERVERS: u16 = 23;
    pub const SEARCH: u16 = 24;
    pub const REFRESH: u16 = 32;
    pub const NTP_SERVERS: u16 = 56;
    pub const MAX_SOLICIT_WAIT: u16 = 82;
    pub const MAX_INFORMATION_WAIT: u16 = 83;
}

/// The type of a message, without those that relays and other clients use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are those of RFC 8415, 7.3")]
pub enum Kind {
    Solicit = 1,
    Advertise = 2,
    Request = 3,
    Confirm = 4,
    Renew = 5,
    Rebind = 6,
    Reply = 7,
    Decline = 9,
    InformationRequest = 11,
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::Solicit,
        Self::Advertise,
        Self::Request,
        Self::Confirm,
        Self::Renew,
        Self::Rebind,
        Self::Reply,
        Self::Decline,
        Self::InformationRequest,
    ];

    fn of(value: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == value)
    }
}

/// Options in their order, each with its code. One code may occur several times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options(pub Vec<(u16, Vec<u8>)>);

impl Options {
    /// Reads bytes that are options to their end; `None` if one is cut off.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut options = Vec::new();
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_first_chunk::<HEADER>()?;
            let [code, length] = [[head[0], head[1]], [head[2], head[3]]].map(u16::from_be_bytes);
            let (value, rest) = rest.split_at_checked(length.into())?;
            options.push((code, value.to_vec()));
            bytes = rest;
        }
        Some(Self(options))
    }

    /// Returns the bytes of all options.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (code, value) in &self.0 {
            let length = u16::try_from(value.len()).expect("our options are short");
            bytes.extend([code.to_be_bytes(), length.to_be_bytes()].concat());
            bytes.extend(value);
        }
        bytes
    }

    /// The bytes of the first option with this code.
    pub fn first(&self, code: u16) -> Option<&[u8]> {
        self.all(code).next()
    }

    /// The bytes of all options with this code.
    pub fn all(&self, code: u16) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter(move |(other, _)| *other == code).map(|(_, value)| value.as_slice())
    }

    /// The first option with this code, which is one 32-bit number.
    pub fn number(&self, code: u16) -> Option<u32> {
        Some(u32::from_be_bytes(self.first(code)?.try_into().ok()?))
    }
}

/// A message between a client and a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its type.
    pub kind: Kind,
    /// The transaction number, which an answer copies from its question; at most 24 bits.
    pub transaction: u32,
    /// Its options.
    pub options: Options,
}

impl Message {
    /// Makes a message without options. Only 24 bits of the number are used.
    pub fn new(kind: Kind, transaction: u32) -> Self {
        Self { kind, transaction: transaction & MAX_TRANSACTION, options: Options::default() }
    }

    /// Adds an option.
    pub fn with(mut self, code: u16, value: &[u8]) -> Self {
        self.options.0.push((code, value.to_vec()));
        self
    }

    /// Returns the payload of a UDP datagram.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes =
            (u32::from(self.kind as u8) << 24 | self.transaction).to_be_bytes().to_vec();
        bytes.extend(self.options.encode());
        bytes
    }

    /// Reads the payload of a UDP datagram, which is untrusted; `None` for anything but a complete
    /// message of a known type.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, options) = bytes.split_first_chunk::<HEADER>()?;
        let transaction = u32::from_be_bytes(*head) & MAX_TRANSACTION;
        let options = Options::decode(options)?;
        Some(Self { kind: Kind::of(head[0])?, transaction, options })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_has_the_bytes_of_the_rfc() {
        let message = Message::new(Kind::Solicit, 0xff12_3456).with(code::ELAPSED, &[0, 7]);
        assert_eq!(message.encode(), [1, 0x12, 0x34, 0x56, 0, 8, 0, 2, 0, 7]);
    }

    #[test]
    fn a_cut_option_is_refused() {
        let bytes = Message::new(Kind::Reply, 1).with(code::CLIENT, &[1, 2, 3]).encode();
        for length in 5..bytes.len() {
            assert_eq!(Message::decode(&bytes[..length]), None, "{length}");
        }
    }

    #[test]
    fn a_type_of_relays_is_refused() {
        assert_eq!(Message::decode(&[12, 0, 0, 1]), None);
        assert_eq!(Message::decode(&[7, 0, 0]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some(message) = Message::decode(&bytes) {
                prop_assert_eq!(message.encode(), bytes);
            }
        }

        #[test]
        fn a_written_message_reads_back(
            kind in prop::sample::select(&Kind::ALL[..]),
            transaction: u32,
            options in prop::collection::vec(
                (any::<u16>(), prop::collection::vec(any::<u8>(), 0..300)),
                0..8,
            ),
        ) {
            let message = Message { options: Options(options), ..Message::new(kind, transaction) };
            prop_assert_eq!(Message::decode(&message.encode()), Some(message));
        }
    }
}
