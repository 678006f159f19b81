//! Files with holes, such as disk images.

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

/// Reads a file from its first byte to its end. A hole becomes zeros here: the kernel would fill
/// pages of its cache with them, and copy each.
pub struct SparseFile<'f> {
    file: &'f File,
    position: u64,
    piece: Piece,
}

/// The piece of the file at the position.
struct Piece {
    is_hole: bool,
    end: u64,
}

impl<'f> SparseFile<'f> {
    /// Reads this file, and leaves its own position anywhere.
    pub fn new(file: &'f File) -> Self {
        SparseFile { file, position: 0, piece: Piece { is_hole: false, end: 0 } }
    }

    /// The piece that begins at the position. Where the kernel knows no pieces, as in procfs and at
    /// the end, the rest is data.
    fn next_piece(&self) -> io::Result<Piece> {
        let rest = Piece { is_hole: false, end: u64::MAX };
        let end = match seek(self.file, SeekFrom::Data(self.position)) {
            Ok(data) => data,
            Err(Errno::NXIO) => self.file.metadata()?.len(),
            Err(_) => return Ok(rest),
        };
        if end > self.position {
            return Ok(Piece { is_hole: true, end });
        }
        Ok(match seek(self.file, SeekFrom::Hole(self.position)) {
            Ok(end) if end > self.position => Piece { is_hole: false, end },
            _ => rest,
        })
    }
}

impl Read for SparseFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.position == self.piece.end {
            self.piece = self.next_piece()?;
        }
        let left = usize::try_from(self.piece.end - self.position).unwrap_or(usize::MAX);
        let length = buffer.len().min(left);
        let read = match self.piece.is_hole {
            true => {
                buffer[..length].fill(0);
                length
            }
            false => self.file.read_at(&mut buffer[..length], self.position)?,
        };
        self.position += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    /// The size of a block of most file systems, below which there are no holes.
    const BLOCK: u64 = 4096;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_file_is_read_as_the_kernel_reads_it(
            size in 0..40 * BLOCK,
            written in proptest::collection::vec((0..40 * BLOCK, 1..3 * BLOCK as usize), 0..5),
            chunk in 1..3 * BLOCK as usize,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            let file = File::create_new(&path).unwrap();
            file.set_len(size).unwrap();
            for (at, length) in written {
                file.write_all_at(&vec![7; length], at).unwrap();
            }
            let file = File::open(&path).unwrap();
            let (mut reader, mut bytes) = (SparseFile::new(&file), Vec::<u8>::new());
            let mut buffer = vec![1; chunk];
            loop {
                match reader.read(&mut buffer).unwrap() {
                    0 => break,
                    read => bytes.extend(&buffer[..read]),
                }
            }
            let expected = fs::read(&path).unwrap();
            prop_assert!(bytes == expected);
        }
    }

    #[test]
    fn a_file_without_a_size_is_read() {
        let file = File::open("/proc/version").unwrap();
        let mut text = String::new();
        SparseFile::new(&file).read_to_string(&mut text).unwrap();
        assert_eq!(text, fs::read_to_string("/proc/version").unwrap());
    }

    #[test]
    fn a_hole_of_a_tebibyte_takes_no_memory_and_ends() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create_new(folder.path().join("file")).unwrap();
        file.set_len(1 << 40).unwrap();
        file.write_all_at(b"end", 1 << 40).unwrap();
        let file = File::open(folder.path().join("file")).unwrap();
        let mut reader = SparseFile::new(&file);
        reader.position = (1 << 40) - 2;
        reader.piece.end = reader.position;
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"\0\0end");
    }
}
