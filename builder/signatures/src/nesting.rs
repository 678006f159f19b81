//! Checks the lengths of DER (X.690) before it is parsed.
//!
//! The crate `der` allocates as much memory as a string claims to need before it looks for the
//! bytes: 40 bytes of input would allocate 256 MiB.

use der::{Decode, ErrorKind, Header, Length, Reader, SliceReader};

/// More bytes than any signature or certificate has. The parser sorts the elements of a set in
/// quadratic time.
const MAX_LENGTH: usize = 64 << 10;

/// The first byte of a `SEQUENCE`.
const SEQUENCE: u8 = 0x30;

/// Refuses DER that is too long, or in which an element is longer than its parent, at any depth.
/// Bytes after the first element are ignored.
pub(crate) fn check(der: &[u8]) -> der::Result<()> {
    let mut reader = SliceReader::new(der)?;
    if reader.input_len() > Length::try_from(MAX_LENGTH)? {
        return Err(reader.error(ErrorKind::Overlength));
    }
    let mut ends: Vec<Length> = Vec::new();
    loop {
        let header = Header::decode(&mut reader)?;
        let end = (reader.position() + header.length)?;
        let outer = ends.last().copied().unwrap_or(reader.input_len());
        if end > outer {
            return Err(
                reader.error(ErrorKind::Incomplete { expected_len: end, actual_len: outer })
            );
        }
        // The parser descends into some elements marked primitive before it refuses them.
        let says_primitive = header.tag.is_context_specific()
            && header.length > Length::ZERO
            && reader.peek_byte() == Some(SEQUENCE);
        if header.tag.is_constructed() || says_primitive {
            ends.push(end);
        } else {
            reader.read_slice(header.length)?;
        }
        while ends.last() == Some(&reader.position()) {
            ends.pop();
        }
        if ends.is_empty() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_LENGTH, check};

    #[test]
    fn elements_fill_their_parent() {
        for der in [
            &b"\x05\x00"[..],
            b"\x30\x00",
            b"\x30\x05\x04\x01\xff\x05\x00",
            b"\x30\x04\xa0\x02\x05\x00",
            b"\x30\x00behind",
        ] {
            assert!(check(der).is_ok(), "{der:x?}");
        }
    }

    #[test]
    fn der_longer_than_any_signature_is_refused() {
        let string = |length: u16| {
            [&b"\x04\x82"[..], &length.to_be_bytes(), &vec![0; length.into()]].concat()
        };
        let longest = string(u16::try_from(MAX_LENGTH - 4).unwrap());
        assert!(check(&longest).is_ok());
        assert!(check(&[&longest[..], b"\x00"].concat()).is_err());
    }

    #[test]
    fn an_element_longer_than_its_parent_is_refused() {
        for der in [
            &b""[..],
            b"\x04",
            b"\x04\x01",
            b"\x30\x02\x04\x01\xff",
            b"\x30\x01\x05\x00",
            b"\x30\x06\x04\x84\x0f\xff\xff\xff",
            b"\x30\x0a\x80\x08\x30\x06\x04\x84\x0f\xff\xff\xff",
        ] {
            assert!(check(der).is_err(), "{der:x?}");
        }
    }
}
