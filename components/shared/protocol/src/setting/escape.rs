//! Texts with any characters as words of a line.

use std::fmt::Write;

/// The text as a part of a word: `%`, `,` and all that is not visible ASCII become `%` and two
/// hexadecimal digits for each byte.
pub fn escaped(text: &str) -> String {
    let mut word = String::new();
    for byte in text.bytes() {
        match byte.is_ascii_graphic() && byte != b'%' && byte != b',' {
            true => word.push(char::from(byte)),
            false => write!(word, "%{byte:02x}").expect("a string takes all"),
        }
    }
    word
}

/// Reads what [`escaped`] writes. None if a `%` has no two digits behind it, or the bytes are no
/// UTF-8.
pub fn unescape(word: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), word.as_bytes());
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, after @ ..] = rest else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push(u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}
