//! The persistent folder of the metadata seen so far. Other pods may write there too: one of them
//! fills the repository of a node without a network.

use std::path::Path;

use osbuild_failure::{Explain, Outcome};
use osbuild_folder::{Folder, moved};
use rustix::fs::FileType;

/// The subfolder for what was moved out of the way.
const ASIDE: &str = "aside";

/// The subfolder that may hold a repository.
const REPOSITORY: &str = "repository";

/// Opens the folder, and moves aside everything but regular files and the two subfolders: opening a
/// FIFO would block forever.
pub fn open(path: &Path) -> Outcome<Folder> {
    let what = format!("open {}", path.display());
    let folder = Folder::open(path, ASIDE).explain(&what)?;
    for name in folder.names().explain(&what)? {
        let stays = match folder.kind(&name).explain(&what)? {
            Some(FileType::Directory) => name == ASIDE || name == REPOSITORY,
            kind => kind.is_none_or(|kind| kind == FileType::RegularFile),
        };
        if !stays {
            folder.move_aside(&name).explain(&what)?;
        }
    }
    if folder.is_untidy() {
        folder.tidy().explain(&what)?;
    }
    moved().into_iter().for_each(|line| eprintln!("{line}"));
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, mkfifoat};
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn everything_but_files_and_the_repository_is_moved_aside() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().canonicalize().unwrap();
        fs::create_dir(path.join(REPOSITORY)).unwrap();
        fs::write(path.join("timestamp.json"), "kept").unwrap();
        fs::create_dir_all(path.join("snapshot.json/deeper")).unwrap();
        mkfifoat(CWD, path.join("latest_known_time.json"), 0o600.into()).unwrap();
        symlink("timestamp.json", path.join("targets.json")).unwrap();
        open(&path).unwrap();
        let mut left: Vec<_> =
            fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [ASIDE, REPOSITORY, "timestamp.json"]);
        assert_eq!(fs::read_dir(path.join(ASIDE)).unwrap().count(), 4);
    }
}
