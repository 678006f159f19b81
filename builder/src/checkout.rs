//! The project's files on disk: found from anywhere inside it, read once.

use crate::error::{Context, Error, Result};
use crate::plan::{Lock, Project};
use std::path::{Path, PathBuf};

/// What a plan may read, relative to the root.
const FOLDERS: [&str; 3] = ["recipes", "boards", "components"];
/// Single files that it may read besides.
const FILES: [&str; 3] = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"];
/// A file above this size is only named by a recipe, never read by a plan: an image of a pod, say.
const LARGEST: u64 = 1 << 20;

/// A project on disk.
#[derive(Clone, Debug)]
pub struct Checkout {
    /// Its root: the folder that has `recipes/`.
    pub root: PathBuf,
}

impl Checkout {
    /// Finds the project that `from` is in.
    ///
    /// # Errors
    /// No folder above has `recipes/` and `components/`.
    pub fn find(from: &Path) -> Result<Self> {
        let root = from.ancestors().find(|folder| FOLDERS.iter().all(|name| folder.join(name).is_dir()));
        let error = || Error::usage(format!("`{}` is not inside a project", from.display())).hint("run osbuild in the folder that has `recipes/`, `boards/` and `components/`");
        root.map(|root| Checkout { root: root.to_owned() }).ok_or_else(error)
    }

    /// Reads all that a plan may look at.
    pub fn read(&self) -> Result<Project> {
        let mut project = Project::default();
        for folder in FOLDERS {
            self.below(Path::new(folder), &mut project)?;
        }
        for file in FILES {
            self.file(Path::new(file), &mut project)?;
        }
        Ok(project)
    }

    /// The path of a recipe's lock, relative to the root.
    pub fn lock_name(recipe: &str) -> String {
        format!("recipes/{recipe}.lock")
    }

    /// Reads a recipe's lock.
    ///
    /// # Errors
    /// There is none, or it is not one.
    pub fn lock(&self, recipe: &str) -> Result<Lock> {
        let name = Self::lock_name(recipe);
        match std::fs::read_to_string(self.root.join(&name)) {
            Ok(text) => Lock::parse(&name, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(Error::lock(format!("`{name}` is missing")).cause("nothing is fetched or built that is not locked").hint(format!("cargo osbuild lock {recipe}")))
            }
            Err(error) => Err(Error::build(format!("cannot read `{name}`")).cause(error)),
        }
    }

    /// Writes a recipe's lock and returns its path.
    pub fn write_lock(&self, lock: &Lock) -> Result<PathBuf> {
        let path = self.root.join(Self::lock_name(&lock.recipe));
        std::fs::write(&path, lock.to_text()).or_build(|| format!("cannot write `{}`", path.display()))?;
        Ok(path)
    }

    fn below(&self, folder: &Path, project: &mut Project) -> Result<()> {
        let say = || format!("cannot read `{}`", folder.display());
        for entry in std::fs::read_dir(self.root.join(folder)).or_build(say)? {
            let entry = entry.or_build(say)?;
            let name = folder.join(entry.file_name());
            let kind = entry.file_type().or_build(say)?;
            if kind.is_dir() && entry.file_name() != "target" {
                self.below(&name, project)?;
            } else if kind.is_file() {
                self.file(&name, project)?;
            }
        }
        Ok(())
    }

    fn file(&self, name: &Path, project: &mut Project) -> Result<()> {
        let path = self.root.join(name);
        let say = || format!("cannot read `{}`", name.display());
        if !path.is_file() || path.metadata().or_build(say)?.len() > LARGEST {
            return Ok(());
        }
        project.files.insert(name.to_string_lossy().into_owned(), std::fs::read(&path).or_build(say)?);
        Ok(())
    }
}
