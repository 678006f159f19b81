//! The lengths of DER (X.690), looked at before it is parsed.
//!
//! The crate `der` takes as much memory as a string says that it is long, and looks for its bytes
//! only then: 40 bytes of input would take 256 MiB.

use der::{Decode, ErrorKind, Header, Length, Reader, SliceReader};

/// More bytes than any signature or certificate has. The parser sorts what stands in a set, and
/// takes the square of their number for it.
const MOST: usize = 64 << 10;

/// `SEQUENCE`, as a first byte.
const SEQUENCE: u8 = 0x30;

/// Refuses DER that is too long, and such in which something is longer than what it stands in, at
/// any depth. What follows the first element is not looked at.
pub(crate) fn check(der: &[u8]) -> der::Result<()> {
    let mut reader = SliceReader::new(der)?;
    if reader.input_len() > Length::try_from(MOST)? {
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
        // The parser looks into some that say that they are primitive before it refuses them for
        // that.
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
    use super::{MOST, check};

    #[test]
    fn elements_fill_what_they_stand_in() {
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
    fn nothing_is_longer_than_any_signature_is() {
        let string = |length: u16| {
            [&b"\x04\x82"[..], &length.to_be_bytes(), &vec![0; length.into()]].concat()
        };
        let most = string(u16::try_from(MOST - 4).unwrap());
        assert!(check(&most).is_ok());
        assert!(check(&[&most[..], b"\x00"].concat()).is_err());
    }

    #[test]
    fn nothing_is_longer_than_what_what_it_stands_in() {
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
