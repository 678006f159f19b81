//! The texts of errors in responses. One may repeat what a client has sent, and HTTP/2 keeps it
//! until the client takes it, where no quota counts it.

use tonic::Status;
use tonic::codegen::http::{HeaderMap, HeaderValue};

/// The maximum bytes of a text as headers have it, with `%XX` for bytes that they cannot have.
/// Clients take at least 16 KiB of headers.
const MAX: usize = 8 << 10;

/// Cuts the text of an error, if the headers have one that is too long.
pub fn shorten(headers: &mut HeaderMap) {
    let Some(text) = headers.get_mut(Status::GRPC_MESSAGE) else { return };
    if let Some(whole) = text.as_bytes().get(..end(text.as_bytes()))
        && let Ok(short) = HeaderValue::from_bytes(whole)
    {
        *text = short;
    }
}

/// The end of the longest beginning that is short enough and has whole characters: other programs
/// refuse a text with a part of one.
fn end(text: &[u8]) -> usize {
    let is_inside = |end: usize| {
        text[..end].iter().rev().take(2).any(|byte| *byte == b'%')
            || matches!(text[end..], [b'%', b'8' | b'9' | b'A' | b'B', ..])
    };
    let mut end = text.len().min(MAX);
    while end < text.len() && is_inside(end) {
        end -= 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text that a client reads of a status with this one.
    fn read(text: &str) -> String {
        let mut headers = HeaderMap::new();
        Status::not_found(text).add_header(&mut headers).unwrap();
        shorten(&mut headers);
        assert!(headers[Status::GRPC_MESSAGE].len() <= MAX);
        Status::from_header_map(&headers).unwrap().message().to_owned()
    }

    #[test]
    fn a_short_text_stays_whole() {
        for text in ["no `ä`", "100 %", &"a".repeat(MAX)] {
            assert_eq!(read(text), text);
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        for character in ['a', '{', 'ä', '€', '🦀'] {
            for before in 0..12 {
                let text = "x".repeat(before) + &character.to_string().repeat(MAX);
                let read = read(&text);
                assert!(text.starts_with(&read), "{character} {before}: {read}");
                assert!(read.chars().count() > MAX / 13, "{character} {before}");
            }
        }
    }
}
