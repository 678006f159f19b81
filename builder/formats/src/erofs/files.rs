//! The contents of the files of an image.

use super::chunks::{Chunk, chunks};
use super::clusters::{Extent, extents};
use super::{Entry, Error, Image, Inode, Layout};

/// The largest compression ratio of LZ4.
const MAX_RATIO: u64 = 255;

/// The maximum bytes that chunks may yield for each byte of the image: chunks can be shared, and
/// holes take no space but their entries, each of 4 bytes for 64 KiB in the image of an installer.
const MAX_CHUNKED: u64 = 16384;

/// The bytes of a hole, in pieces.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// The files of an image.
pub struct Files<'a> {
    image: Image<'a>,
    /// How many more bytes of the image may be read. An honest image stores each byte once.
    left: u64,
    /// How many more bytes chunks may yield.
    left_in_chunks: u64,
}

impl<'a> Files<'a> {
    /// Takes an image that [`super::read`] accepts.
    ///
    /// # Errors
    /// It is not an EROFS image, or has unknown features.
    pub fn new(image: &'a [u8]) -> Result<Self, Error> {
        let length = image.len() as u64;
        Ok(Files {
            image: Image::parse(image)?,
            left: length,
            left_in_chunks: length.saturating_mul(MAX_CHUNKED),
        })
    }

    /// Passes the contents of a file to `piece`, in order. Read a file with several names only
    /// once: each byte of the image can be read once in total.
    ///
    /// # Errors
    /// The file is damaged, or was not compressed with LZ4 and the default options of `mkfs.erofs`.
    pub fn read(&mut self, entry: &Entry, mut piece: impl FnMut(&[u8])) -> Result<(), Error> {
        let inode = self.image.inode(entry.inode)?;
        let done = match inode.layout {
            Layout::Compressed => self.decompress(&inode, entry.inode, &mut piece),
            Layout::Chunks => self.gather(&inode, entry.inode, &mut piece),
            _ => self.plain(&inode, entry.inode).map(|bytes| piece(&bytes)),
        };
        done.ok_or_else(|| Error::File(entry.path.clone()))
    }

    fn plain(&mut self, inode: &Inode, number: u64) -> Option<Vec<u8>> {
        self.left = self.left.checked_sub(inode.size)?;
        self.image.data(inode, number)
    }

    fn gather(&mut self, inode: &Inode, number: u64, piece: &mut impl FnMut(&[u8])) -> Option<()> {
        self.left_in_chunks = self.left_in_chunks.checked_sub(inode.size)?;
        for chunk in chunks(&self.image, inode, number)? {
            let Chunk { mut length, start } = chunk?;
            if let Some(start) = start {
                piece(self.image.slice(start, length)?);
                continue;
            }
            while length > 0 {
                let zeros = length.min(ZEROS.len() as u64);
                piece(&ZEROS[..zeros as usize]);
                length -= zeros;
            }
        }
        Some(())
    }

    fn decompress(
        &mut self,
        inode: &Inode,
        number: u64,
        piece: &mut impl FnMut(&[u8]),
    ) -> Option<()> {
        for Extent { length, start, stored, is_compressed } in extents(&self.image, inode, number)?
        {
            self.left = self.left.checked_sub(stored)?;
            let stored_bytes = self.image.slice(start, stored)?;
            if !is_compressed {
                piece(stored_bytes.get(..usize::try_from(length).ok()?)?);
                continue;
            }
            let length = usize::try_from(length).ok().filter(|_| length <= stored * MAX_RATIO)?;
            // The data are at the end of their blocks, and their first byte is not zero.
            let padding = stored_bytes.iter().position(|byte| *byte != 0)?;
            let bytes = lz4_flex::block::decompress(&stored_bytes[padding..], length).ok()?;
            piece(Some(bytes).filter(|bytes| bytes.len() == length)?.as_slice());
        }
        Some(())
    }
}
