//! Attributes of nftables: numbers in network order, and names that end with a zero.

use osbuild_rtnetlink::{Request, attributes, nested};

use crate::uapi::{NFNL_SUBSYS_NFTABLES, NFPROTO_INET, NFTA_DATA_VALUE, NLM_F_REQUEST};

/// Makes a request about tables of IPv4 and IPv6, with these flags beside that of requests.
pub fn request(message: u16, flags: i32) -> Request {
    let kind = NFNL_SUBSYS_NFTABLES << 8 | message;
    // `struct nfgenmsg`: the family, the version, and an identifier that is not used here.
    Request::new(kind, NLM_F_REQUEST | flags, &[NFPROTO_INET, 0, 0, 0])
}

/// The bytes of the fixed part that [`request`] makes.
pub const FIXED: usize = 4;

/// A name as the value of an attribute.
pub fn name(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}

/// Bytes as the value of an attribute.
pub fn data(value: &[u8]) -> Vec<u8> {
    nested(&[(NFTA_DATA_VALUE, value)])
}

/// The value of the attribute with this number.
pub fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(other, _)| *other == kind).map(|(_, value)| value)
}

/// The number in the attribute with this number.
pub fn find_u32(bytes: &[u8], kind: u16) -> Option<u32> {
    Some(u32::from_be_bytes(find(bytes, kind)?.try_into().ok()?))
}

/// The name in the attribute with this number.
pub fn find_name(bytes: &[u8], kind: u16) -> Option<&str> {
    let bytes = find(bytes, kind)?;
    std::str::from_utf8(bytes.strip_suffix(b"\0").unwrap_or(bytes)).ok()
}

/// The bytes that [`data`] has made, in the attribute with this number.
pub fn find_data(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    find(find(bytes, kind)?, NFTA_DATA_VALUE)
}
