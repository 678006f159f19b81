//! The digest of an image that is still to come.

use super::{Digest, Error, digest, padded};
use osbuild_formats::pe;
use sha2::{Digest as _, Sha256};
use std::ops::Range;

/// Digests a signed image piece by piece, so that the digest is there when its last byte is.
#[derive(Clone, Debug, Default)]
pub struct Hasher {
    /// What is digested, by the image's headers; nothing if they name nothing of the kind.
    covered: Option<[Range<usize>; 3]>,
    /// Bytes that have come.
    length: usize,
    hasher: Sha256,
}

impl Hasher {
    /// Takes the next piece. The first one holds all headers, which are within the first 4 KiB of
    /// what linkers make; otherwise nothing is gained by this.
    pub fn push(&mut self, piece: &[u8]) {
        if self.length == 0 {
            self.covered = pe::covered_ahead(piece);
        }
        let came = self.length..self.length + piece.len();
        for range in self.covered.iter().flatten() {
            let (start, end) = (range.start.max(came.start), range.end.min(came.end));
            if start < end {
                self.hasher.update(&piece[start - came.start..end - came.start]);
            }
        }
        self.length = came.end;
    }

    /// The digest of `image`, which is what has come. It is computed anew if the headers did not
    /// say the truth.
    ///
    /// # Errors
    /// As [`digest`]'s.
    pub fn finish(self, image: &[u8]) -> Result<Digest, Error> {
        let covered = pe::covered(image).map_err(Error::Image)?;
        let end = covered[2].end;
        match self.covered == Some(covered) && self.length == image.len() {
            true => Ok(padded(self.hasher, end)),
            false => digest(image),
        }
    }
}
