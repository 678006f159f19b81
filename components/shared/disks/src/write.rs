//! The image's bytes onto a disk and back, without its partition table.

use crate::device::{CHUNK, Device, Zeroed};
use crate::image::{Image, Piece};
use crate::{Error, Result};
use std::ops::Range;

/// How many bytes are looked at where a place that the device has made zero begins and ends: a
/// sector of the largest size.
const SAMPLE: u64 = 4096;

/// Writes all that stands between the two copies of the partition table, and gives what has to be
/// compared. `advance` is told how many bytes more were written, and may stop it.
pub fn write<E: From<Error>>(
    image: &Image,
    pieces: &[Piece],
    device: &mut Device,
    mut advance: impl FnMut(u64) -> std::result::Result<(), E>,
) -> std::result::Result<Vec<Piece>, E> {
    let mut to_compare = Vec::new();
    for piece in pieces {
        let Range { start, end } = piece.range;
        match piece.is_zero.then(|| device.zero(&piece.range)).transpose()? {
            Some(Zeroed::ByDevice) => {
                to_compare.extend(
                    [start..start + SAMPLE, end - SAMPLE..end]
                        .map(|range| Piece { range, is_zero: true }),
                );
                advance(0)?;
                continue;
            }
            Some(Zeroed::ByHand) => advance(0)?,
            None => {
                device.write(&piece.range, |bytes| image.read(&piece.range, bytes))?;
                advance(end - start)?;
            }
        }
        to_compare.push(piece.clone());
    }
    device.flush()?;
    Ok(to_compare)
}

/// Reads pieces of the disk back, and compares them with the image. `advance` is told how many
/// bytes more were compared, and may stop it.
pub fn compare<E: From<Error>>(
    image: &Image,
    pieces: &[Piece],
    device: &mut Device,
    mut advance: impl FnMut(u64) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let mut expected = vec![0; CHUNK as usize];
    for Piece { range, is_zero } in pieces {
        let expected = &mut expected[..(range.end - range.start) as usize];
        match is_zero {
            true => expected.fill(0),
            false => image.read(range, expected)?,
        }
        device.holds(expected, range)?;
        advance(range.end - range.start)?;
    }
    Ok(())
}

/// How many bytes the pieces have.
pub fn length<'a>(pieces: impl IntoIterator<Item = &'a Piece>) -> u64 {
    pieces.into_iter().map(|piece| piece.range.end - piece.range.start).sum()
}

impl Device {
    /// Refuses bytes of the disk that are not these.
    pub fn holds(&mut self, expected: &[u8], range: &Range<u64>) -> Result<()> {
        let found = self.read(range)?;
        if expected == found {
            return Ok(());
        }
        let at = expected.iter().zip(found).take_while(|(one, other)| one == other).count();
        Err(Error::Differs { path: self.path().to_owned(), at: range.start + at as u64 })
    }
}
