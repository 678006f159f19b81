//! The size of a disk, and the sectors of a partition table of 128 entries.

use super::{ARRAY_SIZE, Error};

/// Sector size and number of sectors of a disk that is large enough for a partition table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    sector_size: u64,
    sectors: u64,
}

impl Geometry {
    /// Takes the sector size (512 or 4096) and the size of the disk, both in bytes. An incomplete
    /// last sector is ignored.
    pub fn new(sector_size: u64, disk_size: u64) -> Result<Self, Error> {
        if sector_size != 512 && sector_size != 4096 {
            return Err(Error::SectorSize(sector_size));
        }
        let geometry = Self { sector_size, sectors: disk_size / sector_size };
        // The protective MBR, two headers, two arrays, and at least one sector to use.
        if geometry.sectors < 3 + 2 * geometry.array_sectors() + 1 {
            return Err(Error::DiskTooSmall(disk_size));
        }
        Ok(geometry)
    }

    /// Bytes in a sector.
    pub fn sector_size(self) -> u64 {
        self.sector_size
    }

    /// Sectors on the disk.
    pub fn sectors(self) -> u64 {
        self.sectors
    }

    /// The last sector, which holds the backup header.
    pub fn last(self) -> u64 {
        self.sectors - 1
    }

    /// The first sector that a partition may use.
    pub fn first_usable(self) -> u64 {
        2 + self.array_sectors()
    }

    /// The last sector that a partition may use.
    pub fn last_usable(self) -> u64 {
        self.last() - self.array_sectors() - 1
    }

    /// The number of sectors of one array of entries.
    pub(super) fn array_sectors(self) -> u64 {
        ARRAY_SIZE as u64 / self.sector_size
    }
}
