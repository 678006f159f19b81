//! The folder of DATA. A pod may have access to it, and a disk may come from anywhere: nothing on
//! it is opened by its path.

use std::path::Path;

use osbuild_abi::paths::DATA;
use osbuild_abi::writable::{Backing, WRITABLE};
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_folder::Folder;

/// The folder on DATA for entries that were in the way.
const ASIDE: &str = "aside";

/// DATA itself.
pub fn open() -> Outcome<Folder> {
    Folder::open(Path::new(DATA), ASIDE).explain(format_args!("open {DATA}"))
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
