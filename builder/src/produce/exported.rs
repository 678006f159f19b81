//! A folder of exported sources: the bytes in `sha256/<digest>`, and their list in `sources.json`.

use crate::engine::digest::{Digest, parse_hash};
use crate::engine::fs_error::IoContext;
use crate::engine::stop;
use crate::engine::store::{Lock, Store};
use crate::error::{Error, Result};
use crate::plan::Source;
use crate::report::{Outcome, Report};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The folder that `osbuild sources export` writes.
#[derive(Clone, Debug)]
pub struct Exported {
    folder: PathBuf,
}

/// A line of `sources.json`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Listed {
    /// Its name for people.
    name: String,
    /// `sha256:` and the digest in hexadecimal.
    digest: String,
    /// In bytes.
    size: u64,
    /// The ecosystem that it comes from, in one word.
    kind: String,
}

/// The sources that were written or read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// The number of sources.
    pub count: usize,
    /// Their size in bytes.
    pub bytes: u64,
}

impl Exported {
    /// The exported sources in `folder`, which need not exist.
    pub fn at(folder: &Path) -> Self {
        Exported { folder: folder.to_owned() }
    }

    /// The path of the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes `sources`, which the store must have, and adds them to the list. A complete file is
    /// not written again, but it counts.
    ///
    /// # Errors
    /// The store lacks a source, another export writes into the folder, or it cannot be written.
    pub fn write(&self, store: &Store, report: &Report, sources: &[Source]) -> Result<Moved> {
        let step = report.step("export");
        let blobs = self.folder.join("sha256");
        fs::create_dir_all(&blobs).at("make the directory", &blobs)?;
        let _lock = Lock::of_export(&self.folder)?;
        let mut list = self.list()?.unwrap_or_default();
        let mut moved = Moved::default();
        for source in sources {
            stop::check()?;
            step.doing(source.name.clone());
            let digest = store.locked(&source.digest)?;
            self.write_one(store, &digest)?;
            list.insert(Listed {
                name: source.name.clone(),
                digest: format!("sha256:{}", source.digest),
                size: digest.size(),
                kind: source.kind.word().to_owned(),
            });
            moved.add(digest.size());
        }
        let text = serde_json::to_vec_pretty(&list).expect("strings and numbers always serialize");
        replace(&self.list_path(), |partial| fs::write(partial, text).at("write", partial))?;
        step.done(&format!("{} sources", moved.count), Some(moved.bytes), Outcome::Ran);
        Ok(moved)
    }

    /// Puts every source of the list into the store.
    ///
    /// # Errors
    /// The list does not exist, or a file of it is missing or damaged.
    pub fn import(&self, store: &Store, report: &Report) -> Result<Moved> {
        let list = self.list()?.ok_or_else(|| {
            let error =
                Error::usage(format!("`{}` holds no exported sources", self.folder.display()));
            error
                .cause("it has no `sources.json`")
                .hint("write it with `cargo osbuild sources export RECIPE DIR`")
        })?;
        let step = report.step("import");
        let mut moved = Moved::default();
        for source in &list {
            stop::check()?;
            step.doing(source.name.clone());
            moved.add(
                self.take(store, source.digest.trim_start_matches("sha256:"), &source.name)?.size(),
            );
        }
        step.done(&format!("{} sources", moved.count), Some(moved.bytes), Outcome::Ran);
        Ok(moved)
    }

    /// Puts the source with this SHA-256, in hexadecimal, into the store. `name` is for errors.
    ///
    /// # Errors
    /// It is missing, of kind [`crate::error::Kind::Lock`], or damaged, of kind
    /// [`crate::error::Kind::Digest`].
    pub fn take(&self, store: &Store, sha256: &str, name: &str) -> Result<Digest> {
        if parse_hash(sha256).is_none() {
            return Err(Error::digest(format!("`{sha256}` is not a SHA-256 digest"))
                .cause(format!("it should be the digest of {name}")));
        }
        let file = self.file(sha256);
        if !file.is_file() {
            return Err(Error::lock(format!("`{}` does not hold {name}", self.folder.display()))
                .cause(format!("its digest is sha256:{sha256}"))
                .hint(
                    "export again with the current lock: `cargo osbuild sources export RECIPE DIR`",
                ));
        }
        let found = store.put_file(&file)?;
        if found.hex() == sha256 {
            return Ok(found);
        }
        Err(Error::digest(format!("`{}` is damaged", file.display()))
            .cause(format!("it should hold {name}"))
            .cause(format!("its contents have the digest sha256:{}", found.hex()))
            .hint("export it again: `cargo osbuild sources export RECIPE DIR`"))
    }

    fn write_one(&self, store: &Store, digest: &Digest) -> Result<()> {
        let file = self.file(&digest.hex());
        let is_whole = file.is_file() && Digest::of_file(&file)? == *digest;
        if is_whole {
            Ok(())
        } else {
            replace(&file, |partial| store.copy_to(digest, partial, 0o644))
        }
    }

    fn file(&self, sha256: &str) -> PathBuf {
        self.folder.join("sha256").join(sha256)
    }

    fn list_path(&self) -> PathBuf {
        self.folder.join("sources.json")
    }

    /// The list, if there is one.
    fn list(&self) -> Result<Option<BTreeSet<Listed>>> {
        let path = self.list_path();
        let text = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.at("read", &path)?,
        };
        let list = serde_json::from_slice(&text);
        list.map(Some).map_err(|error| {
            Error::usage(format!("`{}` is not a list of sources", path.display())).cause(error)
        })
    }
}

impl Moved {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }
}

/// Replaces the file `path` with one that `write` makes beside it, so that no partial file ever has
/// that name.
fn replace(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let partial = path.with_extension("partial");
    if partial.exists() {
        fs::remove_file(&partial).at("remove", &partial)?;
    }
    write(&partial)?;
    fs::rename(&partial, path).at("write", path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Color, Verbosity};

    #[test]
    fn a_list_with_a_path_outside_the_folder_imports_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (secret, exported) = (folder.path().join("secret"), folder.path().join("exported"));
        fs::create_dir_all(exported.join("sha256")).unwrap();
        fs::write(&secret, "secret").unwrap();
        let store = Store::open(folder.path().join("store")).unwrap();
        for name in ["../../secret", secret.to_str().unwrap()] {
            let list =
                format!(r#"[{{"name":"a","digest":"sha256:{name}","size":6,"kind":"debian"}}]"#);
            fs::write(exported.join("sources.json"), list).unwrap();
            let report = Report::new(Verbosity::Quiet, Color::Never);
            let error = Exported::at(&exported).import(&store, &report).unwrap_err();
            assert!(
                error.to_string().contains(&format!("`{name}` is not a SHA-256 digest")),
                "{error}"
            );
            assert_eq!(store.find(&Digest::of(b"secret").hex()), None);
        }
    }
}
