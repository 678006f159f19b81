//! Writes files to the node as the pods of an administrator or a CNI would.

use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

/// Unpacks a tar archive of regular files below `host`, and flushes them.
pub fn place(host: &Path, archive: impl Read) -> io::Result<()> {
    let mut archive = tar::Archive::new(archive);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        // `host` may be a magic link of the kernel, so paths that lead out of it are refused here.
        if !entry.header().entry_type().is_file()
            || !path.components().all(|part| matches!(part, Component::Normal(_)))
        {
            return Err(io::Error::other(format!(
                "`{}` is not a file below the root",
                path.display()
            )));
        }
        let path = host.join(path);
        let folder = path.parent().unwrap_or(host);
        fs::create_dir_all(folder)?;
        let mut file = File::create(&path)?;
        io::copy(&mut entry, &mut file)?;
        file.set_permissions(Permissions::from_mode(entry.header().mode()?))?;
        file.sync_all()?;
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(path: &str, kind: tar::EntryType) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o755);
        header.set_size(0);
        header.set_cksum();
        let mut archive = tar::Builder::new(Vec::new());
        archive.append(&header, io::empty()).unwrap();
        archive.into_inner().unwrap()
    }

    #[test]
    fn a_file_gets_its_folders_and_its_mode() {
        let root = tempfile::tempdir().unwrap();
        place(root.path(), &archive("opt/cni/bin/bridge", tar::EntryType::Regular)[..]).unwrap();
        let about = root.path().join("opt/cni/bin/bridge").metadata().unwrap();
        assert!(about.is_file() && about.permissions().mode() & 0o777 == 0o755);
    }

    #[test]
    fn only_regular_files_below_the_root_are_accepted() {
        let root = tempfile::tempdir().unwrap();
        for (path, kind) in [
            ("../a", tar::EntryType::Regular),
            ("/a", tar::EntryType::Regular),
            ("a", tar::EntryType::Symlink),
        ] {
            assert!(place(root.path(), &archive(path, kind)[..]).is_err(), "{path}");
        }
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
