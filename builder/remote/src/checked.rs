//! A writer that passes on only the bytes of one blob.

use crate::{BlobId, Fault};
use sha2::{Digest, Sha256};
use std::io::{self, Write};

/// Passes bytes on, hashes them, and refuses the first one after the blob's length.
pub(crate) struct Checked<W> {
    inner: W,
    hash: Sha256,
    left: u64,
    is_longer: bool,
}

impl<W: Write> Checked<W> {
    pub(crate) fn new(blob: &BlobId, inner: W) -> Self {
        Checked { inner, hash: Sha256::new(), left: blob.length(), is_longer: false }
    }

    /// The fault behind an error of a write.
    pub(crate) fn fault(&self, error: io::Error) -> Fault {
        if self.is_longer { longer() } else { Fault::Local(error) }
    }

    /// The writer with the whole blob.
    pub(crate) fn finish(self, blob: &BlobId) -> Result<W, Fault> {
        if self.left > 0 {
            return Err(Fault::Temporary("it sent fewer bytes than the blob has".to_owned()));
        }
        let hash: String = self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        match hash == blob.hash {
            true => Ok(self.inner),
            false => Err(Fault::Wrong(format!("it sent other bytes for sha256:{}", blob.hash))),
        }
    }
}

/// The fault of a server that sends too much.
pub(crate) fn longer() -> Fault {
    Fault::Wrong("it sent more bytes than the blob has".to_owned())
}

impl<W: Write> Write for Checked<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            self.is_longer = true;
            return Err(io::Error::other("longer than the blob"));
        }
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(bytes: &[u8]) -> BlobId {
        let hash = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        BlobId::new(hash, bytes.len() as u64)
    }

    fn pass(blob: &BlobId, pieces: &[Vec<u8>]) -> Result<Vec<u8>, Fault> {
        let mut checked = Checked::new(blob, Vec::new());
        for piece in pieces {
            if let Err(error) = checked.write_all(piece) {
                return Err(checked.fault(error));
            }
        }
        checked.finish(blob)
    }

    proptest! {
        #[test]
        fn only_the_bytes_of_the_blob_pass(
            bytes in prop::collection::vec(any::<u8>(), 1..200),
            other in prop::collection::vec(any::<u8>(), 0..200),
            cut in any::<prop::sample::Index>(),
        ) {
            let blob = name(&bytes);
            let (one, rest) = bytes.split_at(cut.index(bytes.len()));
            prop_assert_eq!(pass(&blob, &[one.to_vec(), rest.to_vec()]).unwrap(), bytes.clone());
            prop_assert!(pass(&blob, &[one.to_vec()]).unwrap_err().is_temporary());
            prop_assert_eq!(pass(&blob, std::slice::from_ref(&other)).is_ok(), other == bytes);
        }
    }
}
