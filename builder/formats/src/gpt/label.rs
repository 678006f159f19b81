//! What stands on a disk: both copies of its partition table, good or bad, and the way from them to
//! another table.

use alloc::vec;
use alloc::vec::Vec;

use super::{ARRAY_SIZE, Error, Geometry, Source, Table, Write, header::Header, mbr};

/// Where a copy stands: after the protective MBR or at the end of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Front,
    End,
}

/// One good copy of the partition table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Copy {
    header: Header,
    array: Vec<u8>,
    table: Table,
}

/// Whether both copies of a disk's partition table are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Both are good and say the same.
    Sound,
    /// Both are good and differ: a change was cut short. The primary copy counts.
    Differ,
    /// Only the backup is good.
    PrimaryBroken,
    /// Only the primary is good. So it is on each disk that has grown, as its backup no longer
    /// stands at the end.
    BackupBroken,
}

/// The partition table of a disk as it was found, in both copies.
#[derive(Debug)]
pub struct Label {
    geometry: Geometry,
    /// The first sector.
    mbr: Vec<u8>,
    primary: Result<Copy, Error>,
    backup: Result<Copy, Error>,
    /// A good backup that only the primary header still finds, as the disk has grown. Its array is
    /// what the primary's was.
    displaced: Option<Copy>,
}

impl Label {
    /// Reads both copies. Gives an error if neither is good: the one of the primary.
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

    /// The table that counts: the primary if it is good, else the backup.
    pub fn table(&self) -> &Table {
        let copy =
            self.primary.as_ref().ok().or(self.backup.as_ref().ok()).or(self.displaced.as_ref());
        &copy.expect("`read` gives no label without a good copy").table
    }

    /// Which copies are good.
    pub fn health(&self) -> Health {
        match (&self.primary, &self.backup) {
            (Ok(primary), Ok(backup)) if primary.table == backup.table => Health::Sound,
            (Ok(_), Ok(_)) => Health::Differ,
            (Ok(_), Err(_)) => Health::BackupBroken,
            (Err(_), _) => Health::PrimaryBroken,
        }
    }

    /// The writes that put `table` on the disk in both copies. They are to be made in this order,
    /// each on the medium before the next begins; then at each instant one good copy says the table
    /// that counted or the new one, even if a write stops in its midst. Also repairs a broken copy
    /// and moves the backup to the end of a disk that has grown. Empty if all of it is on the disk
    /// already.
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

    /// The table with its last partition grown to the end of the disk, and the writes as of
    /// [`Label::change_to`] that put it there. The partition ends on a multiple of `alignment`
    /// bytes, and it never shrinks.
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

    /// Makes the broken primary say what the backup says, before anything is written over the
    /// backup.
    fn restore_primary(&self) -> Result<Vec<Write>, Error> {
        let Some(displaced) = &self.displaced else {
            return Ok(Copy::new(self.table(), self.geometry, Place::Front)?
                .writes(self.geometry)
                .into());
        };
        // The primary header is good: it found this backup. So its array is all it lacks.
        Ok(vec![Write { offset: 2 * self.geometry.sector_size(), bytes: displaced.array.clone() }])
    }
}

/// The writes that give an empty disk its partition table, as of [`Label::change_to`].
pub fn create(table: &Table, geometry: Geometry) -> Result<Vec<Write>, Error> {
    let end = Copy::new(table, geometry, Place::End)?;
    let front = Copy::new(table, geometry, Place::Front)?;
    let empty = vec![0; geometry.sector_size() as usize];
    let mbr = mbr::protective(&empty, geometry).map(|bytes| Write { offset: 0, bytes });
    Ok(end.writes(geometry).into_iter().chain(front.writes(geometry)).chain(mbr).collect())
}

/// Whether the disk has `table` as [`create`] writes it, and nothing beside it: no boot code and no
/// partition of an MBR, which firmware would take for the disk's, and nothing in the rest of those
/// sectors.
///
/// # Errors
/// The table does not fit the disk, or that cannot be read.
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
    /// The copy of `table` for this place.
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

    /// Reads the copy whose header stands in sector `own`, and refuses it if anything about it is
    /// wrong.
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

    /// The array first: until its header stands behind it, nothing refers to it.
    fn writes(&self, geometry: Geometry) -> [Write; 2] {
        let size = geometry.sector_size();
        let array = Write { offset: self.header.array * size, bytes: self.array.clone() };
        [array, Write { offset: self.header.own * size, bytes: self.header.encode(size) }]
    }
}

/// Whether the array stands between its header and the usable sectors (UEFI 2.10, 5.3.1), and not
/// where the other copy is written: else no write to that copy would leave this one good. The array
/// ends on the disk, as it was read.
fn array_is_apart(header: &Header, geometry: Geometry) -> bool {
    let (start, end) = (header.array, header.array + geometry.array_sectors());
    if header.own == 1 {
        start > header.own && end <= header.first_usable && end <= geometry.last_usable() + 1
    } else {
        end <= header.own && start > header.last_usable && start >= geometry.first_usable()
    }
}

/// The backup of a disk that has grown and whose primary array is broken, found by the primary
/// header.
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
