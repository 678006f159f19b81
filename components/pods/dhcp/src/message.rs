//! DHCP messages as bytes: RFC 2131 (format), RFC 2132 (options), RFC 3396 (options in several
//! pieces).
//!
//! The code is our own instead of `dhcproto`, which brings a DNS library and the Unicode tables: 45
//! crates for this file.

use std::fmt;
use std::net::Ipv4Addr;

/// A hardware address of an Ethernet link.
pub type Mac = [u8; 6];

/// Bytes of the fixed part of a message, with the magic cookie.
const HEADER: usize = 240;
/// The shortest message that all relays and servers accept: BOOTP's 300 bytes (RFC 1542, 2.1).
const MIN_LENGTH: usize = 300;
const COOKIE: [u8; 4] = [99, 130, 83, 99];
const REQUEST: u8 = 1;
const REPLY: u8 = 2;
const ETHERNET: u8 = 1;
const SERVER_NAME: std::ops::Range<usize> = 44..108;
const BOOT_FILE: std::ops::Range<usize> = 108..236;

/// Option codes (RFC 2132; 119 is of RFC 3397, 121 of RFC 3442).
pub mod code {
    #![allow(missing_docs)]
    pub const PAD: u8 = 0;
    pub const SUBNET_MASK: u8 = 1;
    pub const ROUTERS: u8 = 3;
    pub const NAME_SERVERS: u8 = 6;
    pub const HOST_NAME: u8 = 12;
    pub const DOMAIN: u8 = 15;
    pub const MTU: u8 = 26;
    pub const NTP_SERVERS: u8 = 42;
    pub const REQUESTED_ADDRESS: u8 = 50;
    pub const LEASE_TIME: u8 = 51;
    pub const OVERLOAD: u8 = 52;
    pub const KIND: u8 = 53;
    pub const SERVER: u8 = 54;
    pub const REQUESTED_OPTIONS: u8 = 55;
    pub const MAX_SIZE: u8 = 57;
    pub const T1: u8 = 58;
    pub const T2: u8 = 59;
    pub const CLIENT: u8 = 61;
    pub const SEARCH: u8 = 119;
    pub const CLASSLESS_ROUTES: u8 = 121;
    pub const END: u8 = 255;
}

/// The DHCP message type (option 53), without those that only relays and other clients use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// DHCPDISCOVER
    Discover = 1,
    /// DHCPOFFER
    Offer = 2,
    /// DHCPREQUEST
    Request = 3,
    /// DHCPACK
    Ack = 5,
    /// DHCPNAK
    Nak = 6,
}

impl Kind {
    fn of(value: u8) -> Option<Self> {
        [Self::Discover, Self::Offer, Self::Request, Self::Ack, Self::Nak]
            .into_iter()
            .find(|kind| *kind as u8 == value)
    }
}

/// The sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// BOOTREQUEST.
    Client,
    /// BOOTREPLY.
    Server,
}

/// One message. The header fields have the names of RFC 2131, figure 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sender's side (`op`).
    pub side: Side,
    /// The transaction number, which an answer copies from its question.
    pub xid: u32,
    /// Seconds since the client began to ask.
    pub secs: u16,
    /// The client's address, if it is configured on the link.
    pub ciaddr: Ipv4Addr,
    /// The address that the server gives.
    pub yiaddr: Ipv4Addr,
    /// The client's hardware address.
    pub chaddr: Mac,
    /// The options in order, each code once, without PAD, OVERLOAD and END.
    pub options: Vec<(u8, Vec<u8>)>,
}

/// Why bytes were refused as a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They end before the options.
    TooShort,
    /// The magic cookie is missing: this is BOOTP or another protocol.
    NoCookie,
    /// `op` is neither request nor reply.
    BadOperation,
    /// The hardware is not Ethernet.
    NotEthernet,
    /// An option ends past the end of its field.
    OptionCut,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::TooShort => "shorter than a header",
            Self::NoCookie => "without the magic cookie",
            Self::BadOperation => "neither request nor reply",
            Self::NotEthernet => "not for Ethernet",
            Self::OptionCut => "an option is cut off",
        })
    }
}

impl std::error::Error for Malformed {}

impl Message {
    /// Makes a client's message with its type as the only option.
    pub fn request(kind: Kind, xid: u32, chaddr: Mac) -> Self {
        let none = Ipv4Addr::UNSPECIFIED;
        let options = vec![(code::KIND, vec![kind as u8])];
        Self { side: Side::Client, xid, secs: 0, ciaddr: none, yiaddr: none, chaddr, options }
    }

    /// Adds an option. An empty one is left out.
    pub fn with(mut self, code: u8, value: &[u8]) -> Self {
        if !value.is_empty() {
            self.options.push((code, value.to_vec()));
        }
        self
    }

    /// The bytes of an option, joined if it came in several pieces.
    pub fn option(&self, code: u8) -> Option<&[u8]> {
        self.options.iter().find(|(other, _)| *other == code).map(|(_, value)| value.as_slice())
    }

    /// The DHCP message type, if this program knows it.
    pub fn kind(&self) -> Option<Kind> {
        match self.option(code::KIND)? {
            [kind] => Kind::of(*kind),
            _ => None,
        }
    }

    /// Returns the payload of a UDP datagram. Options longer than 255 bytes are split.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[0] = if self.side == Side::Client { REQUEST } else { REPLY };
        bytes[1] = ETHERNET;
        bytes[2] = size_of::<Mac>() as u8;
        bytes[4..8].copy_from_slice(&self.xid.to_be_bytes());
        bytes[8..10].copy_from_slice(&self.secs.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.ciaddr.octets());
        bytes[16..20].copy_from_slice(&self.yiaddr.octets());
        bytes[28..34].copy_from_slice(&self.chaddr);
        bytes[236..240].copy_from_slice(&COOKIE);
        for (code, value) in &self.options {
            for piece in value.chunks(255) {
                bytes.extend([*code, piece.len() as u8]);
                bytes.extend(piece);
            }
        }
        bytes.push(code::END);
        bytes.resize(bytes.len().max(MIN_LENGTH), code::PAD);
        bytes
    }

    /// Reads the payload of a UDP datagram, which is untrusted.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.len() < HEADER {
            return Err(Malformed::TooShort);
        }
        if bytes[236..240] != COOKIE {
            return Err(Malformed::NoCookie);
        }
        if bytes[1] != ETHERNET || usize::from(bytes[2]) != size_of::<Mac>() {
            return Err(Malformed::NotEthernet);
        }
        let side = match bytes[0] {
            REQUEST => Side::Client,
            REPLY => Side::Server,
            _ => return Err(Malformed::BadOperation),
        };
        Ok(Self {
            side,
            xid: u32::from_be_bytes(array(bytes, 4)),
            secs: u16::from_be_bytes(array(bytes, 8)),
            ciaddr: array::<4>(bytes, 12).into(),
            yiaddr: array::<4>(bytes, 16).into(),
            chaddr: array(bytes, 28),
            options: decode_options(bytes)?,
        })
    }
}

/// Returns `N` bytes of the header from offset `at`.
fn array<const N: usize>(header: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&header[at..at + N]);
    field
}

/// Reads all option fields of a message with a complete header: the variable one, and the two
/// fields that it may overflow into.
fn decode_options(bytes: &[u8]) -> Result<Vec<(u8, Vec<u8>)>, Malformed> {
    let mut options = Vec::new();
    read_field(&bytes[HEADER..], &mut options)?;
    let overload =
        options.iter().position(|(code, _)| *code == code::OVERLOAD).map(|at| options.remove(at).1);
    // The order of RFC 3396, section 5, in which pieces are joined.
    match overload.as_deref() {
        Some([1]) => read_field(&bytes[BOOT_FILE], &mut options)?,
        Some([2]) => read_field(&bytes[SERVER_NAME], &mut options)?,
        Some([3]) => {
            read_field(&bytes[BOOT_FILE], &mut options)?;
            read_field(&bytes[SERVER_NAME], &mut options)?;
        }
        _ => {}
    }
    options.retain(|(code, _)| *code != code::OVERLOAD);
    Ok(options)
}

/// Appends the options of one field, and joins the pieces of an option.
fn read_field(mut field: &[u8], options: &mut Vec<(u8, Vec<u8>)>) -> Result<(), Malformed> {
    loop {
        field = match field {
            [] | [code::END, ..] => return Ok(()),
            [code::PAD, rest @ ..] => rest,
            [code, length, rest @ ..] => {
                let (value, rest) =
                    rest.split_at_checked(usize::from(*length)).ok_or(Malformed::OptionCut)?;
                match options.iter_mut().find(|(other, _)| other == code) {
                    Some((_, so_far)) => so_far.extend(value),
                    None => options.push((*code, value.to_vec())),
                }
                rest
            }
            [_] => return Err(Malformed::OptionCut),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAC: Mac = [2, 0, 0, 0, 0, 1];

    fn reply_with(options: &[u8]) -> Vec<u8> {
        let mut bytes =
            Message { side: Side::Server, ..Message::request(Kind::Ack, 7, MAC) }.encode();
        bytes.truncate(HEADER);
        bytes.extend(options);
        bytes
    }

    #[test]
    fn a_request_is_at_least_as_long_as_bootp() {
        assert_eq!(Message::request(Kind::Discover, 1, MAC).encode().len(), MIN_LENGTH);
    }

    #[test]
    fn a_cut_header_is_refused() {
        assert_eq!(Message::decode(&reply_with(&[])[..HEADER - 1]), Err(Malformed::TooShort));
    }

    #[test]
    fn a_cut_option_is_refused() {
        assert_eq!(
            Message::decode(&reply_with(&[code::ROUTERS, 4, 10, 0, 0])),
            Err(Malformed::OptionCut)
        );
        assert_eq!(Message::decode(&reply_with(&[code::ROUTERS])), Err(Malformed::OptionCut));
    }

    #[test]
    fn a_message_without_cookie_is_refused() {
        let mut bytes = reply_with(&[]);
        bytes[236] = 0;
        assert_eq!(Message::decode(&bytes), Err(Malformed::NoCookie));
    }

    #[test]
    fn a_missing_end_option_is_accepted() {
        assert_eq!(
            Message::decode(&reply_with(&[code::KIND, 1, 5])).unwrap().kind(),
            Some(Kind::Ack)
        );
    }

    #[test]
    fn an_unknown_message_type_has_no_kind() {
        assert_eq!(Message::decode(&reply_with(&[code::KIND, 1, 99])).unwrap().kind(), None);
        assert_eq!(Message::decode(&reply_with(&[code::KIND, 2, 5, 5])).unwrap().kind(), None);
    }

    #[test]
    fn options_spill_into_file_and_server_name() {
        let mut bytes =
            reply_with(&[code::OVERLOAD, 1, 3, code::NAME_SERVERS, 2, 10, 0, code::END]);
        bytes[BOOT_FILE.start..][..5].copy_from_slice(&[
            code::NAME_SERVERS,
            1,
            0,
            code::PAD,
            code::END,
        ]);
        bytes[SERVER_NAME.start..][..4].copy_from_slice(&[code::NAME_SERVERS, 1, 1, code::END]);
        let message = Message::decode(&bytes).unwrap();
        assert_eq!(message.options, [(code::NAME_SERVERS, vec![10, 0, 0, 1])]);
    }

    #[test]
    fn without_overload_file_and_server_name_are_not_options() {
        let mut bytes = reply_with(&[code::END]);
        bytes[BOOT_FILE.start..][..3].copy_from_slice(&[code::KIND, 1, 5]);
        assert!(Message::decode(&bytes).unwrap().options.is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = Message::decode(&bytes);
        }

        #[test]
        fn any_options_are_read_or_refused(
            options in prop::collection::vec(any::<u8>(), 0..400),
            overload in 0..4u8,
        ) {
            let mut field = vec![code::OVERLOAD, 1, overload];
            field.extend(options);
            let _ = Message::decode(&reply_with(&field));
        }

        #[test]
        fn a_written_message_reads_back(
            xid: u32,
            secs: u16,
            ciaddr: [u8; 4],
            yiaddr: [u8; 4],
            chaddr: Mac,
            server: bool,
            options in prop::collection::btree_map(
                1..255u8,
                prop::collection::vec(any::<u8>(), 1..700),
                0..8,
            ),
        ) {
            let side = if server { Side::Server } else { Side::Client };
            let options = options.into_iter().filter(|(code, _)| *code != code::OVERLOAD).collect();
            let (ciaddr, yiaddr) = (ciaddr.into(), yiaddr.into());
            let message = Message { side, xid, secs, ciaddr, yiaddr, chaddr, options };
            prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }
}
