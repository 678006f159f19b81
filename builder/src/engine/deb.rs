//! The `.deb` format (deb(5)): an `ar` archive whose member `data.tar`, compressed in one of
//! several ways, holds the files.

use liblzma::read::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use std::io::{self, Error, ErrorKind, Read};

/// The first bytes of an `ar` archive (ar(5)).
const MAGIC: &[u8; 8] = b"!<arch>\n";

/// The length of a member's header in bytes.
const HEADER: usize = 60;

/// The memory limit of xz in bytes: twice the need of its highest preset (xz(1)). A malicious
/// package can ask for 4 GiB.
const XZ_MEMORY: u64 = 128 << 20;

/// Finds `data.tar` in a package and returns a reader of its uncompressed bytes.
///
/// # Errors
/// The package is malformed, or its compression is unknown.
pub fn data(mut package: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    let mut magic = [0; MAGIC.len()];
    package.read_exact(&mut magic)?;
    if &magic != MAGIC {
        return Err(malformed("it is not an `ar` archive"));
    }
    loop {
        let (name, size) = member(&mut package)?;
        if let Some(compression) = name.strip_prefix("data.tar") {
            return decompress(compression, package.take(size));
        }
        // Members start at even offsets.
        let padded =
            size.checked_add(size % 2).ok_or_else(|| malformed("a member is too large"))?;
        if io::copy(&mut (&mut package).take(padded), &mut io::sink())? != padded {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Reads a member's header: its name and its size.
fn member(archive: &mut impl Read) -> io::Result<(String, u64)> {
    let mut header = [0; HEADER];
    archive.read_exact(&mut header)?;
    let text =
        std::str::from_utf8(&header).map_err(|_| malformed("a member's header is not text"))?;
    let (Some(name), Some(size), Some("`\n")) = (text.get(..16), text.get(48..58), text.get(58..))
    else {
        return Err(malformed("a member's header does not end as it should"));
    };
    let size = size.trim_end().parse().map_err(|_| malformed("a member's size is not a number"))?;
    Ok((name.trim_end().trim_end_matches('/').to_owned(), size))
}

fn decompress(compression: &str, bytes: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    match compression {
        "" => Ok(Box::new(bytes)),
        ".xz" => {
            let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED)?;
            Ok(Box::new(XzDecoder::new_stream(bytes, stream)))
        }
        ".zst" => Ok(Box::new(zstd::Decoder::new(bytes)?)),
        ".gz" => Ok(Box::new(flate2::read::GzDecoder::new(bytes))),
        _ => Err(malformed("the compression of its `data.tar` is unknown")),
    }
}

fn malformed(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for (name, content) in members {
            bytes.extend(
                format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100644, content.len())
                    .bytes(),
            );
            bytes.extend(*content);
            bytes.extend(vec![b'\n'; content.len() % 2]);
        }
        bytes
    }

    fn unpacked(package: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        data(io::Cursor::new(package))?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn data_is_found_after_members_of_odd_size() {
        let package = archive(&[
            ("debian-binary", b"2.0\n"),
            ("control.tar", b"odd"),
            ("data.tar", b"files"),
        ]);
        assert_eq!(unpacked(package).unwrap(), b"files");
    }

    #[test]
    fn every_compression_of_debian_packages_is_read() {
        let xz = liblzma::encode_all(&b"files"[..], 1).unwrap();
        let zst = zstd::encode_all(&b"files"[..], 1).unwrap();
        let gz = {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            io::Write::write_all(&mut encoder, b"files").unwrap();
            encoder.finish().unwrap()
        };
        for (name, bytes) in [("data.tar.xz", xz), ("data.tar.zst/", zst), ("data.tar.gz", gz)] {
            assert_eq!(unpacked(archive(&[(name, &bytes)])).unwrap(), b"files", "{name}");
        }
        assert!(unpacked(archive(&[("data.tar.lzma", b"files")])).is_err());
    }

    #[test]
    fn a_package_that_needs_gigabytes_of_memory_is_refused() {
        let mut xz = liblzma::encode_all(&b"files"[..], 1).unwrap();
        // The header of the first block (the .xz file format, 3.1): its length, flags, LZMA2 with
        // one byte that stands for the memory.
        let header = 12..12 + (usize::from(xz[12]) + 1) * 4;
        assert_eq!(xz[14..16], [0x21, 1]);
        xz[16] = 40;
        let mut sum = flate2::Crc::new();
        sum.update(&xz[header.start..header.end - 4]);
        xz[header.end - 4..header.end].copy_from_slice(&sum.sum().to_le_bytes());
        assert!(
            unpacked(archive(&[("data.tar.xz", &xz)])).unwrap_err().to_string().contains("memory")
        );
    }

    #[test]
    fn a_package_without_data_is_refused() {
        assert_eq!(
            unpacked(archive(&[("debian-binary", b"2.0\n")])).unwrap_err().kind(),
            ErrorKind::UnexpectedEof
        );
        assert_eq!(
            unpacked(b"not an archive".to_vec()).unwrap_err().kind(),
            ErrorKind::InvalidData
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(garbage: Vec<u8>, at in 0usize..200, byte: u8) {
            let mut package = archive(&[("debian-binary", b"2.0\n"), ("data.tar", b"files")]);
            if let Some(place) = package.get_mut(at) {
                *place = byte;
            }
            let _ = unpacked(package);
            let _ = unpacked([MAGIC.as_slice(), &garbage].concat());
            let _ = unpacked(garbage);
        }
    }
}
