//! The folder of DATA. A pod may have access to it, and a disk may come from anywhere: nothing on
//! it is opened by its path.

use std::path::Path;

use osbuild_abi::paths::DATA;
use osbuild_abi::writable::{Backing, WRITABLE};
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_folder::Folder;
use rustix::fs::FileType;

/// The folder on DATA for entries that were in the way.
const ASIDE: &str = "aside";

/// DATA itself.
pub fn open() -> Outcome<Folder> {
    Folder::open(Path::new(DATA), ASIDE).explain(format_args!("open {DATA}"))
}

/// A folder that pods write to, below a private folder of DATA. It gets its mode when it is made:
/// later, pods may have changed it.
pub fn of_pods(data: &Folder, above: &str, name: &str, mode: u32) -> Outcome<Folder> {
    let make = || {
        let above = data.folder(above, 0o700)?;
        match above.kind(name)? {
            Some(FileType::Directory) => above.existing_folder(name),
            _ => above.folder(name, mode),
        }
    };
    make().explain(format_args!("make {above}/{name} on DATA"))
}

/// The folder of DATA behind one of the writable paths.
pub fn behind(data: &Folder, path: &str) -> Outcome<Folder> {
    let name = WRITABLE.iter().find(|row| row.path == path).and_then(|row| match row.backing {
        Backing::Data(name) => Some(name),
        Backing::DataFile(_) | Backing::Memory(_) => None,
    });
    let name = name.ok_or_else(|| Failure::new(format!("no folder of DATA is behind {path}")))?;
    data.existing_folder(name).explain(format_args!("open {}", data.path().join(name).display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, metadata, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_of_pods_gets_its_mode_once_below_a_private_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let data = Folder::open(&root, ASIDE).unwrap();
        let mode = |path: &Path| metadata(path).unwrap().permissions().mode() & 0o7777;
        let path = root.join("declared/longhorn");
        of_pods(&data, "declared", "longhorn", 0o1777).unwrap();
        assert_eq!((mode(&path), mode(&root.join("declared"))), (0o1777, 0o700));
        set_permissions(&path, Permissions::from_mode(0o750)).unwrap();
        of_pods(&data, "declared", "longhorn", 0o1777).unwrap();
        assert_eq!(mode(&path), 0o750);
    }
}
