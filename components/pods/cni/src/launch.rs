//! Starts a dynamically linked program with the loader and the libraries in its folder.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use osbuild_abi::payload::LOADER;

/// A program, its loader and its libraries in one folder.
#[derive(Debug, PartialEq, Eq)]
pub struct Installed {
    folder: PathBuf,
    name: OsString,
}

impl Installed {
    /// The program for which the launcher at the path `own` stands: the one in the folder `.NAME`
    /// next to it. `None` if there is no such folder.
    pub fn beside(own: &Path) -> Option<Installed> {
        let name = own.file_name()?;
        let folder = own.with_file_name(folder_of(name));
        folder.join(LOADER).is_file().then(|| Installed { folder, name: name.to_owned() })
    }

    /// Replaces this process with the program, with these arguments and the same environment.
    /// Returns only if that fails.
    pub fn exec(&self, arguments: impl Iterator<Item = OsString>) -> io::Error {
        let mut loader = Command::new(self.folder.join(LOADER));
        // The cache would lead to a distribution's libraries in their standard folders (ld.so(8)).
        loader.args(["--inhibit-cache", "--library-path"]).arg(&self.folder);
        loader
            .arg("--argv0")
            .arg(&self.name)
            .arg(self.folder.join(&self.name))
            .args(arguments)
            .exec()
    }
}

/// The folder of the program `name`: hidden, because CNI calls the files next to it by name.
pub fn folder_of(name: &std::ffi::OsStr) -> OsString {
    let mut folder = OsString::from(".");
    folder.push(name);
    folder
}
