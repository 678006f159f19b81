//! A unit of work: what is executed, with which environment, on which files, to make which files. Its digest, as the Remote
//! Execution API defines it, is the key of its result.

use super::digest::Digest;
use super::disk::OnDisk;
use super::reapi;
use super::sandbox::SandboxRoot;
use super::store::Store;
use crate::error::{Error, Result};
use prost::Message;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where an action runs and finds its input tree.
pub const BUILD: &str = "/build";

/// Where toolchains are: `/toolchain/<name>`.
pub const TOOLCHAIN: &str = "/toolchain";

/// The environment of each action beneath its own: nothing of the host's gets in.
const ENVIRONMENT: [(&str, &str); 4] = [("HOME", "/build/home"), ("LC_ALL", "C"), ("PATH", "/usr/bin:/usr/sbin"), ("TZ", "UTC")];

/// The type under which a result holds the CPU time of its action, a `google.protobuf.Duration`.
const CPU_TIME: &str = "osbuild/cpu-time";

/// Files by path, as digests: what an action finds in `/build`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputTree {
    entries: BTreeMap<String, Node>,
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

    /// Adds a file whose content is in the store. `path` is relative, without `.` and `..`.
    pub fn add_file(&mut self, path: &str, digest: Digest, executable: bool) -> Result<()> {
        self.add(path, Node::File { digest, executable })
    }

    /// Adds a symbolic link.
    pub fn add_symlink(&mut self, path: &str, target: impl Into<String>) -> Result<()> {
        self.add(path, Node::Symlink(target.into()))
    }

    /// Adds a directory, which may be there already.
    pub fn add_directory(&mut self, path: &str) -> Result<()> {
        names(path)?.into_iter().try_fold(self, |tree, name| tree.directory(name, path)).map(|_| ())
    }

    /// Adds a whole tree at `path`, where nothing may be yet.
    pub fn add_tree(&mut self, path: &str, tree: InputTree) -> Result<()> {
        self.add(path, Node::Directory(tree))
    }

    /// The tree of a directory on disk. `file` says what to do with each file: [`Digest::of_file`], or put it into a store.
    pub fn scan(directory: &Path, file: &mut dyn FnMut(&Path) -> Result<Digest>) -> Result<InputTree> {
        let mut tree = InputTree::new();
        for entry in fs::read_dir(directory).at("read", directory)? {
            let path = entry.at("read", directory)?.path();
            let metadata = fs::symlink_metadata(&path).at("read", &path)?;
            let node = if metadata.is_dir() {
                Node::Directory(InputTree::scan(&path, file)?)
            } else if metadata.is_symlink() {
                Node::Symlink(text(fs::read_link(&path).at("read", &path)?.into_os_string())?)
            } else if metadata.is_file() {
                Node::File { digest: file(&path)?, executable: metadata.permissions().mode() & 0o100 != 0 }
            } else {
                return Err(Error::build(format!("`{}` is neither a file nor a directory nor a link", path.display())));
            };
            tree.entries.insert(text(path.file_name().unwrap_or_default().to_owned())?, node);
        }
        Ok(tree)
    }

    /// The digest of the tree's root directory, which stands for all of it.
    pub fn digest(&self) -> Digest {
        self.encode(&mut |_| Ok(())).expect("nothing is written")
    }

    /// Puts the tree's directories into the store and gives the digest of its root.
    fn put(&self, store: &Store) -> Result<Digest> {
        self.encode(&mut |bytes| store.put_bytes(bytes).map(|_| ()))
    }

    /// Makes the tree in an empty directory, with each file's content checked.
    pub(super) fn write(&self, store: &Store, directory: &Path) -> Result<()> {
        for (name, node) in &self.entries {
            let path = directory.join(name);
            match node {
                Node::File { digest, executable } => store.copy_to(digest, &path, if *executable { 0o755 } else { 0o644 })?,
                Node::Symlink(target) => std::os::unix::fs::symlink(target, &path).at("write", &path)?,
                Node::Directory(tree) => {
                    fs::create_dir(&path).at("make the directory", &path)?;
                    tree.write(store, &path)?;
                }
            }
        }
        Ok(())
    }

    /// Gives each directory's bytes to `emit`, the deepest first.
    fn encode(&self, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<Digest> {
        let mut directory = reapi::Directory::default();
        for (name, node) in &self.entries {
            let name = name.clone();
            match node {
                Node::File { digest, executable } => {
                    directory.files.push(reapi::FileNode { name, digest: Some(digest.into()), is_executable: *executable });
                }
                Node::Symlink(target) => directory.symlinks.push(reapi::SymlinkNode { name, target: target.clone() }),
                Node::Directory(tree) => {
                    let digest = tree.encode(emit)?;
                    directory.directories.push(reapi::DirectoryNode { name, digest: Some((&digest).into()) });
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
        match tree.entries.insert(last.to_owned(), node) {
            None => Ok(()),
            Some(_) => Err(Error::build(format!("`{path}` is twice among the inputs of one step"))),
        }
    }

    fn directory(&mut self, name: &str, path: &str) -> Result<&mut InputTree> {
        match self.entries.entry(name.to_owned()).or_insert_with(|| Node::Directory(InputTree::new())) {
            Node::Directory(tree) => Ok(tree),
            _ => Err(Error::build(format!("`{path}` is among the inputs of one step, and `{name}` in it is not a directory"))),
        }
    }
}

/// The names in a relative path.
fn names(path: &str) -> Result<Vec<&str>> {
    let names: Vec<&str> = path.split('/').collect();
    let wrong = |name: &&str| name.is_empty() || *name == "." || *name == ".." || name.contains('\0');
    if names.iter().any(wrong) { Err(Error::build(format!("`{path}` is not a plain relative path"))) } else { Ok(names) }
}

fn text(name: std::ffi::OsString) -> Result<String> {
    name.into_string().map_err(|name| Error::build(format!("the name `{}` is not UTF-8", name.display())))
}

/// A directory of tools that an action sees read-only.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// Its name: it is at `/toolchain/<name>`.
    pub name: String,
    /// What it was made from; this and not the path enters the action's digest.
    pub key: Digest,
    /// Where it is on this machine.
    pub path: PathBuf,
}

impl Toolchain {
    /// Where an action finds it.
    pub fn mount(&self) -> String {
        format!("{TOOLCHAIN}/{}", self.name)
    }
}

/// A unit of work.
#[derive(Clone, Debug)]
pub struct Action {
    /// Its name for people, such as `kubelet amd64`. It names the log too, and does not enter the digest.
    pub name: String,
    /// The program, as a path in the sandbox or a name on its `PATH`, and its arguments. It starts in `/build`.
    pub argv: Vec<String>,
    /// Variables besides, or instead of, the fixed ones: `HOME`, `LC_ALL`, `PATH`, `TZ`.
    pub env: BTreeMap<String, String>,
    /// What is in `/build` when it starts.
    pub input: InputTree,
    /// The files that it makes, relative to `/build`. Their directories are there when it starts.
    pub outputs: Vec<String>,
    /// What is at `/`.
    pub root: SandboxRoot,
    /// What is at `/toolchain/<name>`.
    pub toolchains: Vec<Toolchain>,
}

impl Action {
    /// The key of its result: the digest of the REAPI action.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.message(self.input.digest()).encode_to_vec())
    }

    /// Puts all messages that describe the action into the store, so that what ran can be looked up.
    pub fn put(&self, store: &Store) -> Result<Digest> {
        store.put_bytes(&self.command().encode_to_vec())?;
        store.put_bytes(&self.message(self.input.put(store)?).encode_to_vec())
    }

    /// Its whole environment.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let mut environment: BTreeMap<String, String> =
            ENVIRONMENT.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        environment.extend(self.env.clone());
        environment
    }

    fn command(&self) -> reapi::Command {
        let mut output_paths = self.outputs.clone();
        output_paths.sort();
        let pair = |(name, value)| reapi::Pair { name, value };
        let environment_variables = self.environment().into_iter().map(pair).collect();
        reapi::Command { arguments: self.argv.clone(), environment_variables, output_paths }
    }

    fn message(&self, input: Digest) -> reapi::Action {
        let command = Digest::of(&self.command().encode_to_vec());
        let mut properties = vec![reapi::Pair { name: "sandbox-root".to_owned(), value: self.root.key.hex() }];
        let toolchain = |tool: &Toolchain| reapi::Pair { name: format!("toolchain-{}", tool.name), value: tool.key.hex() };
        properties.extend(self.toolchains.iter().map(toolchain));
        properties.sort_by(|one, other| (&one.name, &one.value).cmp(&(&other.name, &other.value)));
        reapi::Action {
            command_digest: Some((&command).into()),
            input_root_digest: Some((&input).into()),
            platform: Some(reapi::Platform { properties }),
        }
    }
}

/// A file that an action made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputFile {
    /// Its content, which is in the store.
    pub digest: Digest,
    /// Whether it can be executed.
    pub executable: bool,
}

/// What an action gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionResult {
    /// The files, by the paths that the action named.
    pub outputs: BTreeMap<String, OutputFile>,
    /// What it printed.
    pub log: Option<Digest>,
    /// How long it ran, when it ran.
    pub wall: Duration,
    /// The CPU time of all its processes.
    pub cpu: Duration,
}

impl ActionResult {
    /// The digest of the output `path`, which must be one that the action named.
    pub fn output(&self, path: &str) -> Result<Digest> {
        let output = self.outputs.get(path).map(|output| output.digest);
        output.ok_or_else(|| Error::build(format!("the step has no output `{path}`")))
    }

    /// The REAPI message's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let output = |(path, output): (&String, &OutputFile)| reapi::OutputFile {
            path: path.clone(),
            digest: Some((&output.digest).into()),
            is_executable: output.executable,
        };
        let cpu = reapi::Any { type_url: CPU_TIME.to_owned(), value: reapi::Duration::from(self.cpu).encode_to_vec() };
        let metadata =
            reapi::ExecutedActionMetadata { auxiliary_metadata: vec![cpu], virtual_execution_duration: Some(self.wall.into()) };
        let result = reapi::ActionResult {
            output_files: self.outputs.iter().map(output).collect(),
            stdout_digest: self.log.as_ref().map(Into::into),
            execution_metadata: Some(metadata),
        };
        result.encode_to_vec()
    }

    /// A result from the REAPI message's bytes; `None` when they are not one.
    pub fn decode(bytes: &[u8]) -> Option<ActionResult> {
        let message = reapi::ActionResult::decode(bytes).ok()?;
        let mut outputs = BTreeMap::new();
        for output in message.output_files {
            let digest = output.digest?.to_ours()?;
            outputs.insert(output.path, OutputFile { digest, executable: output.is_executable });
        }
        let log = message.stdout_digest.map(|digest| digest.to_ours().ok_or(())).transpose().ok()?;
        let metadata = message.execution_metadata?;
        let wall = metadata.virtual_execution_duration.unwrap_or_default().to_ours();
        let cpu = metadata.auxiliary_metadata.into_iter().find(|any| any.type_url == CPU_TIME)?;
        let cpu = reapi::Duration::decode(cpu.value.as_slice()).ok()?.to_ours();
        Some(ActionResult { outputs, log, wall, cpu })
    }
}

#[cfg(test)]
mod tests;
