//! Programs of this host with the libraries that they load, as files of an initramfs.

use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use osbuild_formats::cpio::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders in which a host has its programs.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Files and folders, by their paths.
pub struct Userland<'a> {
    site: &'a Site<'a>,
    files: BTreeMap<PathBuf, Vec<u8>>,
    folders: BTreeSet<PathBuf>,
}

impl<'a> Userland<'a> {
    /// None yet.
    pub fn new(site: &'a Site<'a>) -> Self {
        Userland { site, files: BTreeMap::new(), folders: BTreeSet::new() }
    }

    /// Adds a program of the host as `/bin/NAME`.
    ///
    /// # Errors
    /// The host does not have it, or a library of it.
    pub fn add_tool(&mut self, name: &str) -> Result<()> {
        let paths = FOLDERS.iter().map(|folder| Path::new(folder).join(name));
        let path = { paths }.find(|path| path.is_file());
        let path = path.ok_or_else(|| Error::build(format!("this host has no `{name}`")))?;
        self.add_libraries(&path)?;
        let bytes = read(&path)?;
        self.insert(Path::new("/bin").join(name), bytes);
        Ok(())
    }

    /// Adds a program at its own path, without its debug information.
    ///
    /// # Errors
    /// It cannot be read, or a library is missing.
    pub fn add_stripped(&mut self, program: &Path) -> Result<()> {
        self.add_libraries(program)?;
        let stripped =
            tempfile::NamedTempFile::new().or_build(|| "cannot make a file".to_owned())?;
        let mut strip = Command::new("strip");
        self.site.finish("strip", strip.arg("-o").arg(stripped.path()).arg(program))?;
        let bytes = read(stripped.path())?;
        self.insert(program.to_owned(), bytes);
        Ok(())
    }

    /// Adds a file with this text, which may be executed.
    pub fn add_file(&mut self, path: &str, text: &str) {
        self.insert(PathBuf::from(path), text.as_bytes().to_vec());
    }

    /// Adds a folder and those that it stands in.
    pub fn add_folder(&mut self, path: impl AsRef<Path>) {
        let all = path.as_ref().ancestors().filter(|folder| folder.parent().is_some());
        self.folders.extend(all.map(Path::to_owned));
    }

    /// Adds what the loader maps for a program: the paths in `ldd`'s output. A static program has
    /// none.
    fn add_libraries(&mut self, program: &Path) -> Result<()> {
        let ran = self.site.run("ldd", Command::new("ldd").arg(program))?;
        let words = ran.output.split_ascii_whitespace();
        for library in words.filter(|word| word.starts_with('/')).map(PathBuf::from) {
            if library.is_file() && !self.files.contains_key(&library) {
                let bytes = read(&library)?;
                self.insert(library, bytes);
            }
        }
        Ok(())
    }

    fn insert(&mut self, path: PathBuf, bytes: Vec<u8>) {
        if let Some(folder) = path.parent() {
            self.add_folder(folder);
        }
        self.files.insert(path, bytes);
    }

    /// The entries of an initramfs.
    pub fn entries(self) -> Vec<Entry<'static>> {
        let folders = self.folders.iter().map(|path| Entry::directory(&text(path), 0o755));
        let files =
            self.files.into_iter().map(|(path, bytes)| Entry::file(&text(&path), 0o755, bytes));
        folders.chain(files).collect()
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).or_build(|| format!("cannot read `{}`", path.display()))
}
