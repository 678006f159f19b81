//! Debian packages: the archive with their compressed files.

use std::io::{self, Cursor, Read, Write};

use osbuild::engine::deb;

use crate::target::{Memory, Outcome, Target};

/// See the module. Each decoder allocates its window, independent of its input.
pub const TARGET: Target =
    Target { name: "deb", seeds, run, memory: Memory { base: 4 << 20, per_byte: 16 } };

fn run(input: &[u8]) -> Outcome {
    // The size of the output is not limited: unpacked files go to the disk.
    let read = deb::data(Cursor::new(input.to_vec()))
        .and_then(|data| io::copy(&mut data.take(1 << 20), &mut io::sink()));
    Outcome::of(&read)
}

/// A package with these members.
pub fn package(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = b"!<arch>\n".to_vec();
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

fn seeds() -> Vec<Vec<u8>> {
    let files = b"files ".repeat(20);
    let gz = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&files).and_then(|()| encoder.finish()).expect("memory can be written")
    };
    let xz = liblzma::encode_all(&*files, 1).expect("memory can be written");
    let zst = zstd::encode_all(&*files, 1).expect("memory can be written");
    let all = [
        ("data.tar", files.clone()),
        ("data.tar.gz", gz),
        ("data.tar.xz", xz),
        ("data.tar.zst/", zst),
    ];
    all.iter()
        .map(|(name, data)| {
            package(&[("debian-binary", b"2.0\n"), ("control.tar", b"odd"), (name, data)])
        })
        .collect()
}
