//! A `.tar.gz` with text files, which exists only once it is complete.

use crate::error::{Error, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};
use tempfile::NamedTempFile;

/// The longest part of a name in the archive, in bytes: most file systems take no longer one.
const MAX_PART: usize = 200;

/// An archive that is being written, beside the file that it becomes.
pub struct Bundle {
    archive: Builder<GzEncoder<NamedTempFile>>,
    path: PathBuf,
    /// The folder in the archive.
    folder: String,
    /// When its files were made, in seconds since 1970.
    time: u64,
}

impl Bundle {
    /// Begins an archive that becomes `path`, with all files in one folder.
    ///
    /// # Errors
    /// There is a file already, or its folder cannot be written.
    pub fn create(path: &Path, folder: &str, time: u64) -> Result<Bundle> {
        if path.exists() {
            return Err(exists(path));
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let file = NamedTempFile::new_in(parent.unwrap_or(Path::new(".")));
        let file = file.map_err(|error| cannot(path, &error))?;
        let archive = Builder::new(GzEncoder::new(file, Compression::default()));
        Ok(Bundle { archive, path: path.to_owned(), folder: entry_name(folder), time })
    }

    /// Adds a text file. Its name may come from a node: what would lead out of the folder, or is
    /// unusual in a name, is replaced.
    pub fn add(&mut self, name: &str, text: &str) -> Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(self.time);
        let name = format!("{}/{}", self.folder, entry_name(name));
        self.archive
            .append_data(&mut header, name, text.as_bytes())
            .map_err(|error| cannot(&self.path, &error))
    }

    /// Completes the file, which only its owner may read.
    pub fn finish(self) -> Result<()> {
        let file = self.archive.into_inner().and_then(GzEncoder::finish);
        let file = file.map_err(|error| cannot(&self.path, &error))?;
        match file.persist_noclobber(&self.path) {
            Ok(_) => Ok(()),
            Err(failure) if failure.error.kind() == ErrorKind::AlreadyExists => {
                Err(exists(&self.path))
            }
            Err(failure) => Err(cannot(&self.path, &failure.error)),
        }
    }
}

fn exists(path: &Path) -> Error {
    Error::usage(format!("`{}` exists already", path.display())).hint("name another file")
}

fn cannot(path: &Path, error: &io::Error) -> Error {
    Error::failed(format!("cannot write `{}`", path.display())).caused_by(error)
}

/// The name in the form that every system takes: letters, digits, `.`, `-` and `_`, in parts that
/// are no `.` or `..`.
fn entry_name(name: &str) -> String {
    let part = |part: &str| {
        let usual = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let part: String = part.chars().map(|c| if usual(c) { c } else { '_' }).collect();
        let part = &part[..part.len().min(MAX_PART)];
        if part.chars().all(|c| c == '.') { "_".repeat(part.len()) } else { part.to_owned() }
    };
    let parts = name.split('/').filter(|part| !part.is_empty()).map(part);
    let name = parts.collect::<Vec<_>>().join("/");
    if name.is_empty() { "_".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    #[test]
    fn tar_unpacks_what_was_added() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tar.gz");
        let mut bundle = Bundle::create(&path, "support-edge", 86_400).unwrap();
        bundle.add("status.txt", "ready\n").unwrap();
        bundle.add("../../logs//pod/ä.log", "one\n").unwrap();
        assert!(!path.exists());
        bundle.finish().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let tar = Command::new("tar").arg("-xzf").arg(&path).arg("-C").arg(folder.path()).status();
        assert!(tar.unwrap().success());
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("support-edge/status.txt"), "ready\n");
        assert_eq!(read("support-edge/__/__/logs/pod/_.log"), "one\n");
    }

    #[test]
    fn a_file_that_exists_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tar.gz");
        let late = Bundle::create(&path, "a", 0).unwrap();
        fs::write(&path, "mine").unwrap();
        for failed in [Bundle::create(&path, "a", 0).err().unwrap(), late.finish().unwrap_err()] {
            assert!(failed.to_string().contains("exists already"), "{failed}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    proptest! {
        #[test]
        fn no_name_leads_out_of_the_folder(name in "(\\PC|/|\\.){0,40}") {
            let name = entry_name(&name);
            prop_assert!(!name.is_empty() && !name.starts_with('/'));
            prop_assert!(name.split('/').all(|part| !["", ".", ".."].contains(&part)));
        }
    }
}
