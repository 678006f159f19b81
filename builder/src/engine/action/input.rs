//! The input files of an action: a tree of digests, which the Remote Execution API calls the input
//! root.

use crate::engine::digest::Digest;
use crate::engine::fs_error::{self, IoContext};
use crate::engine::{reapi, rules};
use crate::error::{Error, Result};
use prost::Message;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::SystemTime;

/// The files in `/build` when an action starts, by path, as digests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputTree {
    entries: BTreeMap<String, Node>,
}

/// Which properties a message has for the nodes of a tree, so that a worker gives them to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Properties {
    /// None.
    Nothing,
    /// The modes of directories.
    Modes,
    /// The modes of directories and all times, those of the [`rules`].
    ModesAndTimes,
}

impl Properties {
    fn mtime(self) -> Option<reapi::Timestamp> {
        let since = rules::input_time().duration_since(SystemTime::UNIX_EPOCH);
        (self == Properties::ModesAndTimes).then(|| since.unwrap_or_default().into())
    }

    fn file(self) -> Option<reapi::NodeProperties> {
        self.mtime().map(|mtime| reapi::NodeProperties { mtime: Some(mtime), unix_mode: None })
    }

    /// Those of a directory.
    pub fn directory(self) -> Option<reapi::NodeProperties> {
        let unix_mode = Some(reapi::UInt32Value { value: rules::file_mode(true) });
        let all = || reapi::NodeProperties { mtime: self.mtime(), unix_mode };
        (self != Properties::Nothing).then(all)
    }
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    File { digest: Digest, executable: bool },
    Symlink(String),
    Directory(InputTree),
}

impl InputTree {
    /// An empty tree.
    pub fn new() -> Self {
        InputTree::default()
    }

    /// Adds a file whose content is in the store.
    ///
    /// # Errors
    /// `path` is not relative, has the name `.` or `..`, or is taken.
    pub fn add_file(&mut self, path: &str, digest: Digest, executable: bool) -> Result<()> {
        self.add(path, Node::File { digest, executable })
    }

    /// Adds a symbolic link. Errors are those of [`Self::add_file`].
    pub fn add_symlink(&mut self, path: &str, target: impl Into<String>) -> Result<()> {
        self.add(path, Node::Symlink(target.into()))
    }

    /// Adds a directory, unless there is one. Errors are those of [`Self::add_file`].
    pub fn add_directory(&mut self, path: &str) -> Result<()> {
        names(path)?.into_iter().try_fold(self, |tree, name| tree.directory(name, path)).map(|_| ())
    }

    /// Adds a whole tree at `path`. Errors are those of [`Self::add_file`].
    pub fn add_tree(&mut self, path: &str, tree: InputTree) -> Result<()> {
        self.add(path, Node::Directory(tree))
    }

    /// The tree of a directory on disk. `file` returns the digest of each file:
    /// [`Digest::of_file`], or one that also stores it.
    ///
    /// # Errors
    /// A file cannot be read, or has a type or a name that no tree can have.
    pub fn scan(
        directory: &Path,
        file: &mut dyn FnMut(&Path) -> Result<Digest>,
    ) -> Result<InputTree> {
        let mut tree = InputTree::new();
        for entry in fs::read_dir(directory).at("read", directory)? {
            let path = entry.at("read", directory)?.path();
            let metadata = fs::symlink_metadata(&path).at("read", &path)?;
            let node = if metadata.is_dir() {
                Node::Directory(InputTree::scan(&path, file)?)
            } else if metadata.is_symlink() {
                Node::Symlink(text(fs::read_link(&path).at("read", &path)?.into_os_string())?)
            } else if metadata.is_file() {
                Node::File {
                    digest: file(&path)?,
                    executable: metadata.permissions().mode() & 0o100 != 0,
                }
            } else {
                return Err(Error::build(format!(
                    "`{}` is neither a file nor a directory nor a link",
                    path.display()
                )));
            };
            tree.entries.insert(text(path.file_name().unwrap_or_default().to_owned())?, node);
        }
        Ok(tree)
    }

    /// The digest of the root directory, which covers the whole tree.
    pub fn digest(&self) -> Digest {
        self.encode(Properties::Nothing, &mut |_| Ok(())).expect("nothing is written")
    }

    /// The digests of all files.
    pub fn files(&self) -> BTreeSet<Digest> {
        let of = |node: &Node| match node {
            Node::File { digest, .. } => BTreeSet::from([*digest]),
            Node::Symlink(_) => BTreeSet::new(),
            Node::Directory(tree) => tree.files(),
        };
        self.entries.values().flat_map(of).collect()
    }

    /// Makes the tree in an empty directory. `file` writes each file: its digest, its path and
    /// whether it is executable.
    ///
    /// # Errors
    /// The error of `file`, or the directory cannot be written.
    pub fn write(
        &self,
        directory: &Path,
        file: &mut dyn FnMut(&Digest, &Path, bool) -> Result<()>,
    ) -> Result<()> {
        for (name, node) in &self.entries {
            let path = directory.join(name);
            match node {
                Node::File { digest, executable } => file(digest, &path, *executable)?,
                Node::Symlink(target) => {
                    std::os::unix::fs::symlink(target, &path).at("write", &path)?
                }
                Node::Directory(tree) => {
                    fs_error::make_directory(&path)?;
                    tree.write(&path, file)?;
                }
            }
        }
        Ok(())
    }

    /// Passes the bytes of each directory's message to `emit`, deepest first, and returns the
    /// digest of the last one, the root.
    pub(in crate::engine) fn encode(
        &self,
        properties: Properties,
        emit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Digest> {
        let node_properties = properties.directory();
        let mut directory = reapi::Directory { node_properties, ..reapi::Directory::default() };
        for (name, node) in &self.entries {
            let name = name.clone();
            match node {
                Node::File { digest, executable } => {
                    directory.files.push(reapi::FileNode {
                        name,
                        digest: Some(digest.into()),
                        is_executable: *executable,
                        node_properties: properties.file(),
                    });
                }
                Node::Symlink(target) => {
                    directory.symlinks.push(reapi::SymlinkNode { name, target: target.clone() })
                }
                Node::Directory(tree) => {
                    let digest = tree.encode(properties, emit)?;
                    directory
                        .directories
                        .push(reapi::DirectoryNode { name, digest: Some((&digest).into()) });
                }
            }
        }
        let bytes = directory.encode_to_vec();
        emit(&bytes)?;
        Ok(Digest::of(&bytes))
    }

    fn add(&mut self, path: &str, node: Node) -> Result<()> {
        let mut parents = names(path)?;
        let last = parents.pop().expect("a path has at least one name");
        let tree = parents.into_iter().try_fold(self, |tree, name| tree.directory(name, path))?;
        match tree.entries.entry(last.to_owned()) {
            Entry::Vacant(free) => {
                free.insert(node);
                Ok(())
            }
            Entry::Occupied(_) => {
                Err(Error::build(format!("two inputs of one step have the path `{path}`")))
            }
        }
    }

    fn directory(&mut self, name: &str, path: &str) -> Result<&mut InputTree> {
        match self
            .entries
            .entry(name.to_owned())
            .or_insert_with(|| Node::Directory(InputTree::new()))
        {
            Node::Directory(tree) => Ok(tree),
            _ => Err(Error::build(format!(
                "a step has the input `{path}`, in which `{name}` is not a directory"
            ))),
        }
    }
}

/// The names in a relative path.
fn names(path: &str) -> Result<Vec<&str>> {
    let names: Vec<&str> = path.split('/').collect();
    let wrong =
        |name: &&str| name.is_empty() || *name == "." || *name == ".." || name.contains('\0');
    if names.iter().any(wrong) {
        Err(Error::build(format!("`{path}` is not a plain relative path")))
    } else {
        Ok(names)
    }
}

fn text(name: std::ffi::OsString) -> Result<String> {
    name.into_string()
        .map_err(|name| Error::build(format!("the name `{}` is not UTF-8", name.display())))
}
