//! The disk label: both copies of the partition table, valid or not, and the writes that change it.

use alloc::vec;
use alloc::vec::Vec;

use super::{ARRAY_SIZE, Error, Geometry, Source, Table, Write, header::Header, mbr};

/// The place of a copy: after the protective MBR or at the end of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Front,
    End,
}

/// One valid copy of the partition table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Copy {
    header: Header,
    array: Vec<u8>,
    table: Table,
}

/// Whether both copies of a disk's partition table are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Both are valid and equal.
    Sound,
    /// Both are valid and differ: a change was interrupted. The primary copy takes precedence.
    Differ,
    /// Only the backup is valid.
    PrimaryBroken,
    /// Only the primary is valid. This is the state of every disk that has grown, because its
    /// backup is no longer at the end.
    BackupBroken,
}

/// Both copies of a disk's partition table, as read.
#[derive(Debug)]
pub struct Label {
    geometry: Geometry,
    /// The first sector.
    mbr: Vec<u8>,
    primary: Result<Copy, Error>,
    backup: Result<Copy, Error>,
    /// A valid backup that is not at the end of the disk, because the disk has grown, and that only
    /// the primary header locates. Its array equals what the primary's was.
    displaced: Option<Copy>,
}

impl Label {
    /// Reads both copies. If neither is valid, returns the primary's error.
    pub fn read<D: Source + ?Sized>(disk: &mut D, geometry: Geometry) -> Result<Self, Error> {
        let mbr = sectors(disk, geometry, 0, geometry.sector_size())?;
        let primary = Copy::read(disk, geometry, 1);
        let backup = Copy::read(disk, geometry, geometry.last());
        let displaced =
            if primary.is_err() && backup.is_err() { displaced(disk, geometry) } else { None };
        match primary {
            Err(error) if backup.is_err() && displaced.is_none() => Err(error),
            primary => Ok(Self { geometry, mbr, primary, backup, displaced }),
        }
    }

    /// The current table: that of the primary if it is valid, else that of the backup.
    pub fn table(&self) -> &Table {
        let copy =
            self.primary.as_ref().ok().or(self.backup.as_ref().ok()).or(self.displaced.as_ref());
        &copy.expect("`read` returns no label without a valid copy").table
    }

    /// Which copies are valid.
    pub fn health(&self) -> Health {
        match (&self.primary, &self.backup) {
            (Ok(primary), Ok(backup)) if primary.table == backup.table => Health::Sound,
            (Ok(_), Ok(_)) => Health::Differ,
            (Ok(_), Err(_)) => Health::BackupBroken,
            (Err(_), _) => Health::PrimaryBroken,
        }
    }

    /// Returns the writes that store `table` in both copies. Make them in this order and flush each
    /// before the next: then one valid copy holds the old or the new table at every instant, even
    /// if a write is interrupted. The writes also repair a broken copy, and move the backup to the
    /// end of a disk that has grown. Empty if the disk needs no change.
    pub fn change_to(&self, table: &Table) -> Result<Vec<Write>, Error> {
        let front = Copy::new(table, self.geometry, Place::Front)?;
        let end = Copy::new(table, self.geometry, Place::End)?;
        let backup_is_new = self.backup.as_ref().is_ok_and(|copy| *copy == end);
        let mut writes = Vec::new();
        if self.primary.is_err() && !backup_is_new {
            writes.extend(self.restore_primary()?);
        }
        if !backup_is_new {
            writes.extend(end.writes(self.geometry));
        }
        if !self.primary.as_ref().is_ok_and(|copy| *copy == front) {
            writes.extend(front.writes(self.geometry));
        }
        writes.extend(
            mbr::protective(&self.mbr, self.geometry).map(|bytes| Write { offset: 0, bytes }),
        );
        Ok(writes)
    }

    /// Returns the table with its last partition extended to the end of the disk, and the writes of
    /// [`Label::change_to`] for it. The partition ends on a multiple of `alignment` bytes and never
    /// shrinks.
    pub fn grow(&self, alignment: u64) -> Result<(Table, Vec<Write>), Error> {
        let mut table = self.table().clone();
        let unit = (alignment / self.geometry.sector_size()).max(1);
        let end = (self.geometry.last_usable() + 1) / unit * unit;
        if let Some(partition) = table.partitions.iter_mut().max_by_key(|partition| partition.last)
        {
            partition.last = partition.last.max(end.saturating_sub(1));
        }
        let writes = self.change_to(&table)?;
        Ok((table, writes))
    }

    /// Returns the writes that make a broken primary equal to the backup, before the backup is
    /// overwritten.
    fn restore_primary(&self) -> Result<Vec<Write>, Error> {
        let Some(displaced) = &self.displaced else {
            return Ok(Copy::new(self.table(), self.geometry, Place::Front)?
                .writes(self.geometry)
                .into());
        };
        // The primary header is valid, because it located this backup. Only its array is missing.
        Ok(vec![Write { offset: 2 * self.geometry.sector_size(), bytes: displaced.array.clone() }])
    }
}

/// Returns the writes that give an empty disk its partition table, in the order of
/// [`Label::change_to`].
pub fn create(table: &Table, geometry: Geometry) -> Result<Vec<Write>, Error> {
    let end = Copy::new(table, geometry, Place::End)?;
    let front = Copy::new(table, geometry, Place::Front)?;
    let empty = vec![0; geometry.sector_size() as usize];
    let mbr = mbr::protective(&empty, geometry).map(|bytes| Write { offset: 0, bytes });
    Ok(end.writes(geometry).into_iter().chain(front.writes(geometry)).chain(mbr).collect())
}

/// Whether the disk has `table` as [`create`] writes it and nothing else in those sectors: no boot
/// code and no partition of an MBR, which firmware would use.
///
/// # Errors
/// The table does not fit the disk, or the disk cannot be read.
pub fn is_as_created<D: Source + ?Sized>(
    disk: &mut D,
    table: &Table,
    geometry: Geometry,
) -> Result<bool, Error> {
    for write in create(table, geometry)? {
        let mut found = vec![0; write.bytes.len()];
        disk.read_at(write.offset, &mut found).map_err(|error| Error::Read(error.into()))?;
        let is_same = if write.offset == 0 {
            mbr::is_same(&found, &write.bytes)
        } else {
            found == write.bytes
        };
        if !is_same {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Copy {
    /// Makes the copy of `table` for this place.
    fn new(table: &Table, geometry: Geometry, place: Place) -> Result<Self, Error> {
        let (first_usable, last_usable) = (geometry.first_usable(), geometry.last_usable());
        table.check(first_usable, last_usable)?;
        let (own, other, array_sector) = match place {
            Place::Front => (1, geometry.last(), 2),
            Place::End => (geometry.last(), 1, last_usable + 1),
        };
        let array = table.encode();
        let array_crc = crc32fast::hash(&array);
        let disk_guid = table.disk_guid;
        let header = Header {
            own,
            other,
            first_usable,
            last_usable,
            disk_guid,
            array: array_sector,
            array_crc,
        };
        Ok(Self { header, array, table: table.clone() })
    }

    /// Reads the copy whose header is in sector `own`, and refuses it if any part is invalid.
    fn read<D: Source + ?Sized>(disk: &mut D, geometry: Geometry, own: u64) -> Result<Self, Error> {
        let header = Header::decode(&sectors(disk, geometry, own, geometry.sector_size())?, own)?;
        let array = sectors(disk, geometry, header.array, ARRAY_SIZE as u64)?;
        if crc32fast::hash(&array) != header.array_crc {
            return Err(Error::ArrayChecksum);
        }
        if !array_is_apart(&header, geometry) {
            return Err(Error::ArrayPlace(header.array));
        }
        let table = Table::decode(header.disk_guid, &array)?;
        table.check(
            header.first_usable.max(geometry.first_usable()),
            header.last_usable.min(geometry.last()),
        )?;
        Ok(Self { header, array, table })
    }

    /// Returns the array before its header: until the header is written, nothing refers to the
    /// array.
    fn writes(&self, geometry: Geometry) -> [Write; 2] {
        let size = geometry.sector_size();
        let array = Write { offset: self.header.array * size, bytes: self.array.clone() };
        [array, Write { offset: self.header.own * size, bytes: self.header.encode(size) }]
    }
}

/// Whether the array is between its header and the usable sectors (UEFI 2.10, 5.3.1), and outside
/// the other copy, so that a write to that copy leaves this one valid. The array was read, so it
/// ends on the disk.
fn array_is_apart(header: &Header, geometry: Geometry) -> bool {
    let (start, end) = (header.array, header.array + geometry.array_sectors());
    if header.own == 1 {
        start > header.own && end <= header.first_usable && end <= geometry.last_usable() + 1
    } else {
        end <= header.own && start > header.last_usable && start >= geometry.first_usable()
    }
}

/// Reads the backup of a disk that has grown and whose primary array is broken, at the sector that
/// the primary header names.
fn displaced<D: Source + ?Sized>(disk: &mut D, geometry: Geometry) -> Option<Copy> {
    let primary =
        Header::decode(&sectors(disk, geometry, 1, geometry.sector_size()).ok()?, 1).ok()?;
    let backup = Copy::read(disk, geometry, primary.other).ok()?;
    let same = backup.header.array_crc == primary.array_crc
        && backup.header.disk_guid == primary.disk_guid;
    (same && primary.other != geometry.last() && primary.array == 2).then_some(backup)
}

/// Reads `length` bytes from the start of `sector`.
fn sectors<D: Source + ?Sized>(
    disk: &mut D,
    geometry: Geometry,
    sector: u64,
    length: u64,
) -> Result<Vec<u8>, Error> {
    let size = geometry.sector_size();
    if sector > geometry.sectors() - length / size {
        return Err(Error::BeyondDisk(sector));
    }
    let mut bytes = vec![0; length as usize];
    disk.read_at(sector * size, &mut bytes).map_err(|error| Error::Read(error.into()))?;
    Ok(bytes)
}
