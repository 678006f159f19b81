//! The blocks of a disk that are uploaded: those that are not zero, each with its digest.

use crate::engine::digest::{Digest, Hasher};
use crate::engine::fs_error::IoContext;
use crate::engine::stop;
use crate::error::Result;
use bytes::Bytes;
use osbuild_aws::BLOCK_SIZE;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The unit of the size of EBS volumes.
const GIB: u64 = 1 << 30;

/// A disk image, read once.
pub struct Content {
    /// The file.
    pub path: PathBuf,
    /// The digest of all of it.
    pub digest: Digest,
    /// The index and SHA-256 of each block that is not zero, in their order. The last block of the
    /// disk is padded with zeros.
    pub blocks: Vec<(u32, [u8; 32])>,
    file: File,
}

impl Content {
    /// Reads the file, once and in order.
    pub fn read(path: &Path) -> Result<Self> {
        let file = File::open(path).at("read", path)?;
        let mut whole = Hasher::new(io::sink());
        let (mut blocks, mut block) = (Vec::new(), vec![0; BLOCK_SIZE]);
        for index in 0.. {
            stop::check()?;
            block.clear();
            let length =
                (&file).take(BLOCK_SIZE as u64).read_to_end(&mut block).at("read", path)?;
            if length == 0 {
                break;
            }
            whole.write_all(&block).at("read", path)?;
            if !is_zero(&block) {
                block.resize(BLOCK_SIZE, 0);
                blocks.push((index, Sha256::digest(&block).into()));
            }
        }
        Ok(Content { path: path.to_owned(), digest: whole.digest(), blocks, file })
    }

    /// Reads a block again.
    pub(super) fn block(&self, index: u32) -> Result<Bytes> {
        let start = u64::from(index) * BLOCK_SIZE as u64;
        let length = self.digest.size().saturating_sub(start).min(BLOCK_SIZE as u64);
        let mut block = vec![0; BLOCK_SIZE];
        let read = self.file.read_exact_at(&mut block[..length as usize], start);
        read.at("read", &self.path)?;
        Ok(block.into())
    }

    /// The size of the volume in GiB.
    pub fn gibibytes(&self) -> u64 {
        self.digest.size().div_ceil(GIB).max(1)
    }

    /// How many bytes are uploaded.
    pub fn bytes(&self) -> u64 {
        self.blocks.len() as u64 * BLOCK_SIZE as u64
    }

    /// The `LINEAR` checksum of EBS: the SHA-256 of the blocks' SHA-256s in their order.
    pub(super) fn checksum(&self) -> [u8; 32] {
        self.blocks
            .iter()
            .fold(Sha256::new(), |sum, (_, sha256)| sum.chain_update(sha256))
            .finalize()
            .into()
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
    fn blocks_of_zeros_are_left_out_and_the_last_one_is_padded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let mut bytes = vec![0; 3 * BLOCK_SIZE + 100];
        (bytes[BLOCK_SIZE + 7], bytes[3 * BLOCK_SIZE + 99]) = (1, 2);
        std::fs::write(&path, &bytes).unwrap();
        let content = Content::read(&path).unwrap();
        assert_eq!(content.digest, Digest::of(&bytes));
        assert_eq!((content.gibibytes(), content.bytes()), (1, 2 * BLOCK_SIZE as u64));
        assert_eq!(content.blocks.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1, 3]);
        bytes.resize(4 * BLOCK_SIZE, 0);
        for (index, sha256) in &content.blocks {
            let block = content.block(*index).unwrap();
            assert_eq!(block, bytes[*index as usize * BLOCK_SIZE..][..BLOCK_SIZE]);
            assert_eq!(Digest::of(&block).hash(), sha256);
        }
    }

    #[test]
    fn a_disk_that_shrank_after_it_was_read_is_an_error_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::write(&path, vec![1; BLOCK_SIZE]).unwrap();
        let content = Content::read(&path).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(100).unwrap();
        let error = content.block(0).unwrap_err();
        assert!(error.to_string().contains("disk"), "{error}");
    }
}
