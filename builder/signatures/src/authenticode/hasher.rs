//! The digest of an image that arrives in pieces.

use super::{Digest, Error, digest, padded};
use osbuild_formats::pe;
use sha2::{Digest as _, Sha256};
use std::ops::Range;

/// Digests a signed image piece by piece, so that the digest is ready when the last byte arrives.
#[derive(Clone, Debug, Default)]
pub struct Hasher {
    /// The covered ranges according to the image's headers; `None` if the headers do not name any.
    covered: Option<[Range<usize>; 3]>,
    /// The number of bytes so far.
    length: usize,
    hasher: Sha256,
}

impl Hasher {
    /// Adds the next piece. The first one should hold all headers, which linkers put into the first
    /// 4 KiB; otherwise `finish` computes the digest from the start.
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

    /// Returns the digest of `image`, which is all pieces together. It is recomputed if the headers
    /// were wrong.
    ///
    /// # Errors
    /// Those of [`digest`].
    pub fn finish(self, image: &[u8]) -> Result<Digest, Error> {
        let covered = pe::covered(image).map_err(Error::Image)?;
        let end = covered[2].end;
        match self.covered == Some(covered) && self.length == image.len() {
            true => Ok(padded(self.hasher, end)),
            false => digest(image),
        }
    }
}
