//! The disk or the folder that holds the files of a volume.

use std::fmt;

use super::DiskId;
use crate::Refusal;

const FOLDER: &str = "folder";

/// The disk or the folder that holds the files of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeBacking {
    /// A whole disk beside the node's own.
    Disk(DiskId),
    /// A folder of DATA.
    Folder,
}

impl VolumeBacking {
    /// Reads the fields of a spec: a disk or a folder.
    ///
    /// # Errors
    /// There are both or neither.
    pub fn new(disk: Option<DiskId>, folder: bool) -> Result<Self, Refusal> {
        match (disk, folder) {
            (Some(disk), false) => Ok(Self::Disk(disk)),
            (None, true) => Ok(Self::Folder),
            _ => Err(Refusal::malformed("a volume has either a `disk` or a `folder`")),
        }
    }

    /// Reads the word that [`Self::word`] writes.
    ///
    /// # Errors
    /// It is malformed.
    pub fn parse_word(word: &str) -> Result<Self, Refusal> {
        match word {
            FOLDER => Ok(Self::Folder),
            disk => Ok(Self::Disk(DiskId::parse_word(disk)?)),
        }
    }

    /// The word for it: `folder`, or that of the disk.
    pub fn word(&self) -> String {
        match self {
            Self::Disk(disk) => disk.word(),
            Self::Folder => FOLDER.to_owned(),
        }
    }

    /// Its disk, if it has one of its own.
    pub fn disk(&self) -> Option<&DiskId> {
        match self {
            Self::Disk(disk) => Some(disk),
            Self::Folder => None,
        }
    }
}

impl fmt::Display for VolumeBacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(disk) => write!(f, "the disk with the {disk}"),
            Self::Folder => f.write_str("a folder of DATA"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_a_disk_or_a_folder() {
        let disk = DiskId::parse("a b", "").unwrap();
        let backing = VolumeBacking::new(Some(disk.clone()), false).unwrap();
        assert_eq!((backing.word().as_str(), backing.disk()), ("serial=a%20b", Some(&disk)));
        assert_eq!(VolumeBacking::parse_word("serial=a%20b"), Ok(backing));
        assert_eq!(VolumeBacking::new(None, true), Ok(VolumeBacking::Folder));
        assert_eq!(VolumeBacking::parse_word(&VolumeBacking::Folder.word()).unwrap().disk(), None);
        for (disk, folder) in [(None, false), (Some(disk), true)] {
            assert!(VolumeBacking::new(disk, folder).is_err());
        }
        for word in ["", "folders", "folder=", "folder serial=a"] {
            assert!(VolumeBacking::parse_word(word).is_err(), "{word}");
        }
    }
}
