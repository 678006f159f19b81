//! Corrects the requests with which the kubelet registers a plugin. Their `:authority` is the path
//! of the socket, with `%2F` for each slash, and the crate `h2` refuses that: `%` is in no host of
//! HTTP (RFC 9110, 4.2). Requests for volumes have `localhost`
//! (`https://github.com/kubernetes/kubernetes/pull/112597`).
//!
//! Of a connection (RFC 9113) only the header blocks (RFC 7541) change, and in each only the value
//! of that field. The kubelet sends it once: later blocks refer to it.

use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// The bytes with which a client begins, and those before each frame.
const PREFACE: usize = 24;
const FRAME: usize = 9;

/// The type of a frame with a header block, and the flag that nothing follows in another frame.
/// With other flags than this and [`END_STREAM`] the block begins later.
const HEADERS: u8 = 1;
const END_HEADERS: u8 = 4;
const END_STREAM: u8 = 1;

/// The index of `:authority` in the static table, and the value that replaces the kubelet's: a
/// length, and the text without a code.
const AUTHORITY: usize = 1;
const LOCALHOST: &[u8] = b"\x09localhost";

/// A connection whose requests are corrected.
///
/// # Errors
/// The process has too many descriptors.
pub fn corrected(client: UnixStream) -> io::Result<UnixStream> {
    let (ours, server) = UnixStream::pair()?;
    let (from_client, mut to_client) = client.into_split();
    let (mut from_server, to_server) = ours.into_split();
    // A connection that ends is no error. The other direction ends with it.
    tokio::spawn(correct(from_client, to_server));
    tokio::spawn(async move { copy(&mut from_server, &mut to_client).await });
    Ok(server)
}

/// Passes frames on until the client ends.
async fn correct(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> io::Result<()> {
    let mut preface = [0; PREFACE];
    from.read_exact(&mut preface).await?;
    to.write_all(&preface).await?;
    loop {
        let mut head = [0; FRAME];
        from.read_exact(&mut head).await?;
        let [a, b, c, kind, flags, ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        from.read_exact(&mut payload).await?;
        if kind == HEADERS && flags & !END_STREAM == END_HEADERS {
            payload = with_localhost(&payload).unwrap_or(payload);
            let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
            head[..3].copy_from_slice(&length);
        }
        to.write_all(&[&head[..], &payload].concat()).await?;
    }
}

/// The header block with another value of `:authority`; none if it has no value of its own, or is
/// malformed.
fn with_localhost(block: &[u8]) -> Option<Vec<u8>> {
    let mut rest = block;
    loop {
        let (prefix, has_value) = match *rest.first()? {
            // A field of a table.
            0x80.. => (7, false),
            // A value that the table takes up.
            0x40..=0x7f => (6, true),
            // The size of the table.
            0x20..=0x3f => (5, false),
            // A value that it does not.
            0..=0x1f => (4, true),
        };
        let (index, mut after) = integer(rest, prefix)?;
        if has_value {
            if index == 0 {
                after = after_text(after)?;
            }
            let before = &block[..block.len() - after.len()];
            after = after_text(after)?;
            if index == AUTHORITY {
                return Some([before, LOCALHOST, after].concat());
            }
        }
        rest = after;
    }
}

/// The bytes after a text, which may be in Huffman's code.
fn after_text(bytes: &[u8]) -> Option<&[u8]> {
    let (length, text) = integer(bytes, 7)?;
    text.get(length..)
}

/// A number that begins with the last `prefix` bits of the first byte, and the bytes after it.
fn integer(bytes: &[u8], prefix: u32) -> Option<(usize, &[u8])> {
    let (first, mut rest) = bytes.split_first()?;
    let max = (1 << prefix) - 1;
    let mut value = usize::from(*first) & max;
    if value < max {
        return Some((value, rest));
    }
    for shift in [0, 7, 14] {
        let (byte, after) = rest.split_first()?;
        value += usize::from(byte & 0x7f) << shift;
        rest = after;
        if byte & 0x80 == 0 {
            return Some((value, rest));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The first request in RFC 7541, C.3.1, without and with Huffman's code, and the second one.
    const PLAIN: &[u8] = b"\x82\x86\x84\x41\x0fwww.example.com";
    const CODED: &[u8] =
        b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff\x88";
    const SECOND: &[u8] = b"\x82\x86\x84\xbe\x58\x08no-cache";

    #[test]
    fn an_authority_is_replaced_where_its_value_is_sent() {
        let expected = b"\x82\x86\x84\x41\x09localhost".to_vec();
        assert_eq!(with_localhost(PLAIN), Some(expected.clone()));
        assert_eq!(with_localhost(CODED), Some([&expected[..], b"\x88"].concat()));
        assert_eq!(with_localhost(SECOND), None);
        let named = b"\x40\x04name\x05value\x82\x41\x01a".to_vec();
        let expected = b"\x40\x04name\x05value\x82\x41\x09localhost".to_vec();
        assert_eq!(with_localhost(&named), Some(expected));
    }

    #[test]
    fn a_long_number_is_read_as_the_specification_says() {
        assert_eq!(integer(b"\x1f\x9a\x0aend", 5), Some((1337, &b"end"[..])));
        assert_eq!(integer(b"\x7f\xff\xff\xff\xff", 7), None);
    }

    proptest! {
        #[test]
        fn no_block_breaks_a_connection(block in proptest::collection::vec(any::<u8>(), 0..64)) {
            let found = with_localhost(&block);
            prop_assert!(found.is_none_or(|found| found.windows(10).any(|part| part == LOCALHOST)));
        }
    }
}
