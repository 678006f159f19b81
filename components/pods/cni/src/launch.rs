//! Starts a dynamically linked program with the loader and the libraries that are installed beside
//! it.

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
    /// The program that is started in place of the one at the path `own`: that in the folder
    /// `.NAME` beside it. None if there is no such folder.
    pub fn beside(own: &Path) -> Option<Installed> {
        let name = own.file_name()?;
        let folder = own.with_file_name(folder_of(name));
        folder.join(LOADER).is_file().then(|| Installed { folder, name: name.to_owned() })
    }

    /// Becomes the program, with these arguments and the environment of this process. It comes back
    /// only with an error.
    pub fn become_it(&self, arguments: impl Iterator<Item = OsString>) -> io::Error {
        let mut loader = Command::new(self.folder.join(LOADER));
        // The cache is of libraries that a distribution has at their usual places (ld.so(8)).
        loader.args(["--inhibit-cache", "--library-path"]).arg(&self.folder);
        loader
            .arg("--argv0")
            .arg(&self.name)
            .arg(self.folder.join(&self.name))
            .args(arguments)
            .exec()
    }
}

/// The folder of the program `name`: hidden, as CNI calls each file beside it by its name.
pub fn folder_of(name: &std::ffi::OsStr) -> OsString {
    let mut folder = OsString::from(".");
    folder.push(name);
    folder
}
