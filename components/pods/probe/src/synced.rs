//! Files on DATA, each flushed before the next one: a test cuts the power and checks which files
//! exist.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// The folder on DATA.
const FOLDER: &str = "data/synced";

/// Bytes of a file: one block of the file system.
const SIZE: usize = 4096;

/// Writes the files `1` to `last` below the root `host`.
pub fn write(host: &Path, last: u32) -> io::Result<()> {
    let folder = host.join(FOLDER);
    fs::create_dir_all(&folder)?;
    let names = File::open(&folder)?;
    for number in 1..=last {
        let mut file = File::create(folder.join(number.to_string()))?;
        file.write_all(&content(number))?;
        file.sync_all()?;
        names.sync_all()?;
    }
    Ok(())
}

/// The contents of a file: its number, repeated so that every sector has it.
fn content(number: u32) -> Vec<u8> {
    let line = format!("synced {number:>56}\n");
    line.into_bytes().into_iter().cycle().take(SIZE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sector_of_a_file_has_its_number() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), 12).unwrap();
        let bytes = fs::read(root.path().join("data/synced/12")).unwrap();
        assert_eq!(bytes.len(), 4096);
        for sector in bytes.chunks(512) {
            assert!(sector.starts_with(b"synced ") && sector[..64].ends_with(b" 12\n"));
        }
    }
}
