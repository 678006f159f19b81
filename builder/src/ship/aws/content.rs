//! What of a disk is uploaded: the blocks that are not zero, each with its digest.

use crate::engine::digest::{Digest, Hasher};
use crate::engine::fs_error::IoContext;
use crate::engine::stop;
use crate::error::{Context, Result};
use crate::produce::aws::Source;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The size of a block of EBS.
pub const BLOCK: usize = 512 << 10;

/// The unit in which EBS has volumes.
const GIB: u64 = 1 << 30;

/// A disk that was read once.
pub struct Content {
    /// The file.
    pub path: PathBuf,
    /// The digest of all of it.
    pub digest: Digest,
    /// The blocks that are not zero, in their order: each one's number and SHA-256. The last one of
    /// the disk is filled up with zeros.
    pub blocks: Vec<(u32, [u8; 32])>,
    file: File,
}

impl Content {
    /// Reads the file, once and in order.
    pub fn read(path: &Path) -> Result<Self> {
        let file = File::open(path).at("read", path)?;
        let mut whole = Hasher::new(io::sink());
        let (mut blocks, mut block) = (Vec::new(), vec![0; BLOCK]);
        for index in 0.. {
            stop::check()?;
            block.clear();
            let length = (&file).take(BLOCK as u64).read_to_end(&mut block).at("read", path)?;
            if length == 0 {
                break;
            }
            whole.write_all(&block).at("read", path)?;
            if !is_zero(&block) {
                block.resize(BLOCK, 0);
                blocks.push((index, Sha256::digest(&block).into()));
            }
        }
        Ok(Content { path: path.to_owned(), digest: whole.digest(), blocks, file })
    }

    /// One of `blocks`.
    pub(super) fn block(&self, (index, sha256): (u32, [u8; 32])) -> Block<'_> {
        Block { content: self, index, sha256 }
    }

    /// The size of the volume that it needs.
    pub fn gibibytes(&self) -> u64 {
        self.digest.size().div_ceil(GIB).max(1)
    }

    /// How many bytes are uploaded.
    pub fn bytes(&self) -> u64 {
        self.blocks.len() as u64 * BLOCK as u64
    }

    /// The checksum of the whole as EBS has it, `LINEAR`: the SHA-256 of the blocks' SHA-256s in
    /// their order.
    pub(super) fn checksum(&self) -> [u8; 32] {
        self.blocks
            .iter()
            .fold(Sha256::new(), |sum, (_, sha256)| sum.chain_update(sha256))
            .finalize()
            .into()
    }
}

/// One block of a disk, to be sent.
pub(super) struct Block<'a> {
    content: &'a Content,
    /// Its number on the disk.
    pub index: u32,
    sha256: [u8; 32],
}

impl Source for Block<'_> {
    fn length(&self) -> u64 {
        BLOCK as u64
    }

    fn sha256(&self) -> [u8; 32] {
        self.sha256
    }

    fn read(&self, start: u64, buffer: &mut [u8]) -> Result<usize> {
        stop::check()?;
        let length = buffer.len().min(BLOCK.saturating_sub(start as usize));
        let at = u64::from(self.index) * BLOCK as u64 + start;
        let (written, behind) = buffer[..length]
            .split_at_mut(length.min(self.content.digest.size().saturating_sub(at) as usize));
        behind.fill(0);
        let cannot = || format!("cannot read `{}`", self.content.path.display());
        self.content.file.read_exact_at(written, at).or_build(cannot)?;
        Ok(length)
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    let (many, rest) = bytes.as_chunks::<64>();
    many.iter().all(|many| *many == [0; 64]) && rest.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blocks_that_are_not_zero_count_and_the_last_one_is_filled_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let mut bytes = vec![0; 3 * BLOCK + 100];
        (bytes[BLOCK + 7], bytes[3 * BLOCK + 99]) = (1, 2);
        std::fs::write(&path, &bytes).unwrap();
        let content = Content::read(&path).unwrap();
        assert_eq!(content.digest, Digest::of(&bytes));
        assert_eq!((content.gibibytes(), content.bytes()), (1, 2 * BLOCK as u64));
        assert_eq!(content.blocks.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1, 3]);
        bytes.resize(4 * BLOCK, 0);
        for numbered in &content.blocks {
            let block = content.block(*numbered);
            let read = read_in_steps(&block, 100_000);
            assert_eq!(read, bytes[block.index as usize * BLOCK..][..BLOCK]);
            assert_eq!((Digest::of(&read).hash(), block.length()), (&block.sha256(), BLOCK as u64));
        }
    }

    #[test]
    fn a_disk_that_became_shorter_is_an_error_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::write(&path, vec![1; BLOCK]).unwrap();
        let content = Content::read(&path).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(100).unwrap();
        let error = content.block(content.blocks[0]).read(0, &mut [0; 1000]).unwrap_err();
        assert!(error.to_string().contains("disk"), "{error}");
    }

    fn read_in_steps(block: &Block, step: usize) -> Vec<u8> {
        let (mut read, mut buffer) = (Vec::new(), vec![9; step]);
        loop {
            match block.read(read.len() as u64, &mut buffer).unwrap() {
                0 => return read,
                length => read.extend_from_slice(&buffer[..length]),
            }
        }
    }
}
