//! Writes the image's bytes to a disk and reads them back, without the partition table.

use crate::device::{CHUNK, Device, Zeroed};
use crate::image::{Ends, Image, Piece};
use crate::{Error, Result};
use std::ops::Range;

/// Bytes to compare at the start and at the end of a range that the device zeroed: the largest
/// sector size.
const SAMPLE: u64 = 4096;

/// Writes everything between the two copies of the partition table, and returns the ranges to
/// compare. `advance` gets the number of bytes written since its last call, and may cancel.
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

/// Reads ranges of the disk back and compares them with the image. `advance` gets the number of
/// bytes compared since its last call, and may cancel.
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

/// Removes both copies of the partition table, and all else at the two ends of the disk.
pub fn remove_table(ends: &Ends, device: &mut Device) -> Result<()> {
    for range in &ends.ranges {
        device.zero(range)?;
    }
    device.flush()
}

/// Writes both copies of the partition table, reads them back, and then has `check` read the disk
/// again. The backup copy is the only write at the end of the disk, and a disk that is smaller than
/// it claims stores it over something else.
///
/// # Errors
/// The table cannot be written, or `check` fails. The table is removed again then; the second value
/// is the result of that.
pub fn write_table<E: From<Error>>(
    ends: &Ends,
    device: &mut Device,
    check: impl FnOnce(&mut Device) -> std::result::Result<(), E>,
) -> std::result::Result<(), (E, Result<()>)> {
    let written = device.write_in_order(&ends.writes).and_then(|()| {
        ends.ranges.iter().try_for_each(|range| device.holds(&ends.bytes(range), range))
    });
    written
        .map_err(E::from)
        .and_then(|()| check(device))
        .map_err(|error| (error, remove_table(ends, device)))
}

/// The total number of bytes.
pub fn length<'a>(pieces: impl IntoIterator<Item = &'a Piece>) -> u64 {
    pieces.into_iter().map(|piece| piece.range.end - piece.range.start).sum()
}

impl Device {
    /// Fails unless the disk has these bytes in `range`.
    pub fn holds(&mut self, expected: &[u8], range: &Range<u64>) -> Result<()> {
        let found = self.read(range)?;
        if expected == found {
            return Ok(());
        }
        let at = expected.iter().zip(found).take_while(|(one, other)| one == other).count();
        Err(Error::Differs { path: self.path().to_owned(), at: range.start + at as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_formats::gpt::{Geometry, Table};
    use uuid::Uuid;

    const SIZE: u64 = 8 << 20;

    #[test]
    fn a_table_that_overwrites_other_bytes_is_removed_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
        let mut device = Device::open(&path, false).unwrap();
        let table = Table { disk_guid: Uuid::from_u128(1), partitions: Vec::new() };
        let ends = Ends::new(&table, Geometry::new(512, SIZE).unwrap()).unwrap();
        // A disk that is smaller than it claims stores the backup copy where other bytes are.
        let overwritten = ends.ranges[1].clone();
        let data = vec![7; (overwritten.end - overwritten.start) as usize];
        let write = device.write(&overwritten, |bytes| {
            bytes.copy_from_slice(&data);
            Ok(())
        });
        write.unwrap();
        let (error, removed) =
            write_table(&ends, &mut device, |device| device.holds(&data, &overwritten))
                .unwrap_err();
        assert!(matches!(error, Error::Differs { .. }), "{error}");
        removed.unwrap();
        for range in &ends.ranges {
            let zeros = vec![0; (range.end - range.start) as usize];
            device.holds(&zeros, range).unwrap();
        }
        write_table(&ends, &mut device, |_| Ok::<(), Error>(())).unwrap();
        device.holds(&ends.bytes(&ends.ranges[0]), &ends.ranges[0]).unwrap();
    }
}
