//! The checkout that the user works in: its folder, and the files in it that a plan is made of.

use crate::error::{Context, Error, Result};
use crate::plan::{Lock, Project};
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The maximum size in bytes of a file that is read. A plan only needs the names of larger files.
const MAX_SIZE: u64 = 1 << 20;

/// A folder with `recipes/`, `boards/` and `components/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkout {
    /// Its absolute path.
    pub root: PathBuf,
}

impl Checkout {
    /// The checkout that contains `start`.
    ///
    /// # Errors
    /// Neither `start` nor a folder above it is a checkout.
    pub fn around(start: &Path) -> Result<Self> {
        let is_root = |folder: &&Path| {
            ["recipes", "boards", "components"].iter().all(|name| folder.join(name).is_dir())
        };
        match start.ancestors().find(is_root) {
            Some(root) => Ok(Checkout { root: root.to_owned() }),
            None => {
                let error = Error::usage(format!("`{}` is not inside a checkout", start.display()));
                Err(error.hint("change to a folder with `recipes/`, `boards/` and `components/`"))
            }
        }
    }

    /// Reads every file that a plan can use.
    ///
    /// # Errors
    /// A file or folder cannot be read.
    pub fn read(&self) -> Result<Project> {
        let mut project = Project::default();
        for folder in ["recipes", "boards", "components"] {
            self.read_folder(folder, &mut project)?;
        }
        for file in ["Cargo.lock", "rust-toolchain.toml"] {
            self.read_file(file.to_owned(), &mut project)?;
        }
        Ok(project)
    }

    /// Reads a recipe's lock.
    ///
    /// # Errors
    /// The lock is missing, invalid or unreadable.
    pub fn lock(&self, recipe: &str) -> Result<Lock> {
        let path = Lock::path(recipe);
        match fs::read_to_string(self.root.join(&path)) {
            Ok(text) => Lock::parse(&path, &text),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let missing = Error::lock(format!("`{path}` is missing"))
                    .cause("only locked inputs are fetched and built");
                Err(missing.hint(format!("cargo osbuild lock {recipe}")))
            }
            Err(error) => Err(Error::build(format!("cannot read `{path}`")).cause(error)),
        }
    }

    /// Reads a recipe's lock, if it exists.
    ///
    /// # Errors
    /// The lock is invalid or unreadable.
    pub fn find_lock(&self, recipe: &str) -> Result<Option<Lock>> {
        if self.root.join(Lock::path(recipe)).exists() {
            self.lock(recipe).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Writes a recipe's lock and returns its path.
    pub fn write_lock(&self, lock: &Lock) -> Result<PathBuf> {
        self.write(&Lock::path(&lock.recipe), &lock.print())
    }

    /// Replaces a file atomically and returns its path.
    pub fn write(&self, path: &str, text: &str) -> Result<PathBuf> {
        let path = self.root.join(path);
        let message = || format!("cannot write `{}`", path.display());
        let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(&self.root))
            .or_build(message)?;
        file.write_all(text.as_bytes()).or_build(message)?;
        file.as_file().set_permissions(Permissions::from_mode(0o644)).or_build(message)?;
        // A power cut must leave neither an empty recipe nor an empty lock.
        file.as_file().sync_all().or_build(message)?;
        file.persist(&path).or_build(message)?;
        Ok(path)
    }

    /// The git commit that is checked out; `None` outside a repository and before its first commit.
    pub fn commit(&self) -> Option<String> {
        let dot =
            self.root.ancestors().map(|folder| folder.join(".git")).find(|dot| dot.exists())?;
        // In a worktree, `.git` is a file that names the worktree's folder, in which `commondir`
        // names the repository's.
        let text = |path: PathBuf| Some(fs::read_to_string(path).ok()?.trim().to_owned());
        let folder =
            if dot.is_dir() { dot } else { self.root.join(text(dot)?.strip_prefix("gitdir: ")?) };
        let common =
            text(folder.join("commondir")).map_or_else(|| folder.clone(), |path| folder.join(path));
        let head = text(folder.join("HEAD"))?;
        let Some(name) = head.strip_prefix("ref: ") else { return Some(head) };
        text(folder.join(name)).or_else(|| text(common.join(name))).or_else(|| {
            let packed = text(common.join("packed-refs"))?;
            packed
                .lines()
                .find_map(|line| Some(line.strip_suffix(name)?.strip_suffix(' ')?.to_owned()))
        })
    }

    /// Reads a folder with everything below it. Skips entries that are neither files nor folders
    /// (sockets, pipes, and the broken links with which editors mark open files), and links to a
    /// folder above them, which would recur without end.
    fn read_folder(&self, folder: &str, project: &mut Project) -> Result<()> {
        let entries =
            fs::read_dir(self.root.join(folder)).or_build(|| format!("cannot read `{folder}`"))?;
        for entry in entries {
            let entry = entry.or_build(|| format!("cannot read `{folder}`"))?;
            // A name that is not UTF-8 cannot be written in a recipe either.
            let Ok(name) = entry.file_name().into_string() else { continue };
            let (path, place) = (format!("{folder}/{name}"), entry.path());
            match fs::metadata(&place) {
                Ok(about) if about.is_dir() && !leads_up(&place) => {
                    self.read_folder(&path, project)?
                }
                Ok(about) if about.is_file() => self.read_file(path, project)?,
                Ok(_) => {}
                Err(_) if place.is_symlink() => {}
                Err(error) => return Err(error).or_build(|| format!("cannot read `{path}`")),
            }
        }
        Ok(())
    }

    fn read_file(&self, path: String, project: &mut Project) -> Result<()> {
        let file = self.root.join(&path);
        let size = fs::metadata(&file).or_build(|| format!("cannot read `{path}`"))?.len();
        if size > MAX_SIZE {
            project.big.insert(path);
        } else {
            let bytes = fs::read(&file).or_build(|| format!("cannot read `{path}`"))?;
            project.files.insert(path, bytes);
        }
        Ok(())
    }
}

/// Whether a path is a link to a folder that contains it.
fn leads_up(path: &Path) -> bool {
    let Some(Ok(parent)) = path.parent().map(Path::canonicalize) else { return false };
    path.is_symlink() && path.canonicalize().is_ok_and(|target| parent.starts_with(target))
}
