//! Skips a value of any type. Header fields that the specification does not know yet must be
//! ignored, whatever their type.

use crate::reader::{Malformed, Reader};

/// The maximum depth of containers in each other. The specification allows 64; no field that it
/// knows is a container.
const MAX_DEPTH: usize = 16;

const UNKNOWN: Malformed = Malformed("a signature is invalid");

/// Skips the value of a variant's one complete type.
pub fn skip_value(reader: &mut Reader<'_>, signature: &str) -> Result<(), Malformed> {
    skip_single(reader, signature.as_bytes(), MAX_DEPTH)
}

fn skip_single(reader: &mut Reader<'_>, signature: &[u8], depth: usize) -> Result<(), Malformed> {
    let (kind, rest) = split(signature, depth)?;
    if rest.is_empty() { skip(reader, kind, depth) } else { Err(UNKNOWN) }
}

/// The first complete type of a signature, and the rest.
fn split(signature: &[u8], depth: usize) -> Result<(&[u8], &[u8]), Malformed> {
    let depth = depth.checked_sub(1).ok_or(Malformed("containers are nested too deep"))?;
    let length = match signature.first().ok_or(UNKNOWN)? {
        b'a' => 1 + split(&signature[1..], depth)?.0.len(),
        open @ (b'(' | b'{') => {
            let close = if *open == b'(' { b')' } else { b'}' };
            let mut length = 1;
            while *signature.get(length).ok_or(UNKNOWN)? != close {
                length += split(&signature[length..], depth)?.0.len();
            }
            // A value of no bytes would let an array have any number of elements.
            if length == 1 { return Err(UNKNOWN) } else { length + 1 }
        }
        _ => 1,
    };
    Ok(signature.split_at(length))
}

/// Skips a value of one complete type.
fn skip(reader: &mut Reader<'_>, kind: &[u8], depth: usize) -> Result<(), Malformed> {
    let depth = depth.checked_sub(1).ok_or(Malformed("containers are nested too deep"))?;
    match kind[0] {
        b's' | b'o' => reader.text().map(drop),
        b'g' => reader.signature().map(drop),
        b'v' => {
            let signature = reader.signature()?;
            skip_single(reader, signature.as_bytes(), depth)
        }
        b'a' => {
            let length = reader.uint32()? as usize;
            reader.align(alignment(kind[1])?)?;
            let end = reader.at().checked_add(length).ok_or(UNKNOWN)?;
            while reader.at() < end {
                skip(reader, &kind[1..], depth)?;
            }
            if reader.at() == end { Ok(()) } else { Err(Malformed("an array ends in an element")) }
        }
        b'(' | b'{' => {
            reader.align(8)?;
            let mut fields = &kind[1..kind.len() - 1];
            while !fields.is_empty() {
                let (field, rest) = split(fields, depth)?;
                skip(reader, field, depth)?;
                fields = rest;
            }
            Ok(())
        }
        // A number is as long as its alignment.
        number => {
            let length = alignment(number)?;
            reader.align(length)?;
            reader.take(length).map(drop)
        }
    }
}

fn alignment(kind: u8) -> Result<usize, Malformed> {
    match kind {
        b'y' | b'g' | b'v' => Ok(1),
        b'n' | b'q' => Ok(2),
        b'b' | b'i' | b'u' | b'h' | b's' | b'o' | b'a' => Ok(4),
        b'x' | b't' | b'd' | b'(' | b'{' => Ok(8),
        _ => Err(UNKNOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Order;
    use crate::writer::Writer;

    fn skipped(signature: &str, value: &[u8]) -> Result<usize, Malformed> {
        let mut reader = Reader::new(value, Order::Little);
        skip_value(&mut reader, signature).map(|()| reader.at())
    }

    #[test]
    fn a_value_of_every_type_is_skipped_to_its_end() {
        let mut writer = Writer::default();
        writer.uint32(0);
        let at = writer.len();
        for key in ["a", "longer"] {
            writer.align(8);
            writer.text(key);
            writer.signature("(yxas)");
            writer.align(8);
            writer.byte(7);
            writer.uint64(7);
            writer.uint32(0);
        }
        writer.replace_uint32(0, (writer.len() - at.next_multiple_of(8)) as u32);
        let value = writer.into_bytes();
        assert_eq!(skipped("a{sv}", &value), Ok(value.len()));
        assert_eq!(skipped("q", &[1, 2, 3]), Ok(2));
        assert_eq!(skipped("d", &[0; 8]), Ok(8));
    }

    #[test]
    fn an_array_that_ends_in_an_element_or_behind_the_value_is_refused() {
        assert!(skipped("au", &[6, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]).is_err());
        assert!(skipped("ay", &[9, 0, 0, 0, 1]).is_err());
    }

    #[test]
    fn an_invalid_signature_is_refused() {
        for signature in ["", "yy", "a", "(", "()", "(y", "{sv", "z", "a)", "a()"] {
            assert!(skipped(signature, &[0; 32]).is_err(), "{signature}");
        }
    }

    #[test]
    fn nesting_has_a_limit() {
        let arrays = |depth: usize| skipped(&format!("{}y", "a".repeat(depth)), &[0; 8]);
        assert_eq!((arrays(MAX_DEPTH - 1), arrays(MAX_DEPTH).is_err()), (Ok(4), true));
        let variants =
            |depth| skipped("v", &[b"\x01v\0".repeat(depth), b"\x01y\0\x07".to_vec()].concat());
        assert!(variants(4).is_ok() && variants(MAX_DEPTH).is_err());
    }
}
