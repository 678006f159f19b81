//! Decodes user data: a node document, plain or as clouds and their tools send it. It may be in
//! base64, compressed by gzip, and a part of a MIME message among parts for other programs.

mod mime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use osbuild_failure::{Explain, Failure, Outcome};
use std::io::Read;

/// The largest user data that is accepted, in bytes: EC2's own limit.
pub const MAX_RAW: usize = 16 << 10;
/// The largest text that it may decode to, in bytes.
pub const MAX_DECODED: usize = 64 << 10;

/// The first bytes of a gzip file (RFC 1952).
const GZIP: [u8; 2] = [0x1F, 0x8B];

/// The node document in user data, as text.
///
/// # Errors
/// The bytes are damaged or too large, or are a message without exactly one node document.
pub fn decode(bytes: &[u8]) -> Outcome<String> {
    let text = plain(bytes)?;
    match mime::is_message(&text) {
        true => plain(&mime::document(&text)?),
        false => Ok(text),
    }
}

/// The text of bytes that may be in base64, compressed, or both.
fn plain(bytes: &[u8]) -> Outcome<String> {
    let bytes = from_base64(bytes).unwrap_or_else(|| bytes.to_owned());
    let bytes = if bytes.starts_with(&GZIP) { decompress(&bytes)? } else { bytes };
    if bytes.len() > MAX_DECODED {
        return Err(too_large());
    }
    String::from_utf8(bytes).map_err(|_| Failure::new("it is not text in UTF-8"))
}

/// The bytes behind base64, if this is nothing else: a document has characters that base64 has not.
fn from_base64(bytes: &[u8]) -> Option<Vec<u8>> {
    let bytes: Vec<u8> = bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    if bytes.is_empty() { None } else { STANDARD.decode(bytes).ok() }
}

fn decompress(bytes: &[u8]) -> Outcome<Vec<u8>> {
    let mut decoded = Vec::new();
    let mut reader = GzDecoder::new(bytes).take(MAX_DECODED as u64 + 1);
    reader.read_to_end(&mut decoded).explain("decompress it")?;
    Ok(decoded)
}

fn too_large() -> Failure {
    Failure::new(format!("it has more than {MAX_DECODED} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;
    use std::io::Write;

    const DOCUMENT: &str = "hostname = \"edge-7\"\n";

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn message(part: &str) -> String {
        format!(
            "Content-Type: multipart/mixed; boundary=\"==1==\"\r\nMIME-Version: 1.0\r\n\r\n\
             --==1==\r\nContent-Type: text/cloud-config\r\n\r\nhostname: other\r\n\
             --==1==\r\n{part}\r\n--==1==--\r\n"
        )
    }

    #[test]
    fn a_document_is_found_in_every_form() {
        let base64 = STANDARD.encode(DOCUMENT);
        let part = format!("Content-Type: text/x-osbuild-node\r\n\r\n{DOCUMENT}");
        let encoded = format!(
            "Content-Type: text/x-osbuild-node; charset=\"utf-8\"\r\n\
             Content-Transfer-Encoding: base64\r\n\r\n{base64}"
        );
        for bytes in [
            DOCUMENT.as_bytes().to_vec(),
            gzip(DOCUMENT.as_bytes()),
            format!("{base64}\n").into_bytes(),
            STANDARD.encode(gzip(DOCUMENT.as_bytes())).into_bytes(),
            message(&part).into_bytes(),
            message(&encoded).into_bytes(),
            gzip(message(&encoded).as_bytes()),
            message(&part).replace("\r\n", "\n").into_bytes(),
        ] {
            let found = decode(&bytes).unwrap();
            assert_eq!(
                found.trim_end(),
                DOCUMENT.trim_end(),
                "{}",
                String::from_utf8_lossy(&bytes)
            );
        }
    }

    #[test]
    fn a_message_without_exactly_one_document_is_refused() {
        let other = message("Content-Type: text/x-shellscript\r\n\r\n#!/bin/sh");
        let part = "Content-Type: text/x-osbuild-node\r\n\r\na = 1\r\n";
        let two = message(&format!("{part}--==1==\r\n{part}"));
        let quoted = message(
            &part.replace("\r\n\r\n", "\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"),
        );
        for (text, reason) in [
            (other.as_str(), "no part of the type `text/x-osbuild-node`"),
            (two.as_str(), "2 parts"),
            (quoted.as_str(), "`quoted-printable`"),
            ("Content-Type: text/plain\n\na = 1\n", "no boundary"),
        ] {
            let refusal = decode(text.as_bytes()).unwrap_err().to_string();
            assert!(refusal.contains(reason), "{refusal}");
        }
    }

    #[test]
    fn a_small_file_that_decompresses_to_a_large_one_is_refused() {
        let bomb = gzip(&vec![b'#'; 8 << 20]);
        assert!(bomb.len() < MAX_RAW);
        assert_eq!(decode(&bomb), Err(too_large()));
        assert!(decode(&vec![b'#'; MAX_DECODED + 1]).is_err());
        assert!(decode(&gzip(DOCUMENT.as_bytes())[..20]).is_err(), "a truncated file");
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(
            start in prop::sample::select(vec![&b""[..], &[0x1F, 0x8B, 8, 0], b"Content-Type: "]),
            bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            if let Ok(text) = decode(&[start, &bytes].concat()) {
                prop_assert!(text.len() <= MAX_DECODED);
            }
        }

        #[test]
        fn any_message_is_decoded_or_refused(
            lines in prop::collection::vec(
                prop::sample::select(vec![
                    "Content-Type: multipart/mixed; boundary=b", "MIME-Version: 1.0", "", "--b",
                    "--b--", "Content-Type: text/x-osbuild-node", " folded", "boundary=\"", "a = 1",
                    "Content-Transfer-Encoding: base64", "YSA9IDEK", ": ", "é",
                ]),
                0..16,
            ),
            end in prop::sample::select(vec!["\n", "\r\n"]),
        ) {
            let text = format!("MIME-Version: 1.0{end}{}", lines.join(end));
            if let Ok(found) = decode(text.as_bytes()) {
                prop_assert!(found.len() <= text.len());
            }
        }

        #[test]
        fn every_document_survives_every_form(value in "[a-z0-9 #=\"]{0,40}") {
            let document = format!("# {value}\nhostname = \"a\"\n");
            for bytes in [
                document.clone().into_bytes(),
                gzip(document.as_bytes()),
                STANDARD.encode(&document).into_bytes(),
            ] {
                prop_assert_eq!(decode(&bytes), Ok(document.clone()));
            }
        }
    }
}
