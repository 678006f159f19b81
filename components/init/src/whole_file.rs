//! Writes a small file whole or not at all.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use osbuild_failure::{Explain, Outcome};

/// Replaces a file by one with this text and these permission bits. A power cut leaves the old one or the new one.
pub fn write(path: &Path, text: &str, mode: u32) -> Outcome {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&new, path)).explain(format_args!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_even_if_it_is_read_only_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for text in ["one\n", "two\n"] {
            write(&path, text, 0o444).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o444);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_a_failure() {
        assert!(write(Path::new("/no/such/folder/file"), "", 0o644).is_err());
    }
}
