//! An action for a worker that has nothing of ours: the sandbox's root, the toolchains and the
//! inputs are one input root. Decision 53 explains how it relates to the action of the local store.
//! For a service that runs actions in a folder, the input root has these folders beside each other,
//! and a launcher, which makes one file system of them (decision 70).

use super::listing::Listing;
use crate::engine::action::{Action, BUILD, Properties, TOOLCHAIN};
use crate::engine::digest::Digest;
use crate::engine::launcher::{Launcher, folder};
use crate::engine::store::Store;
use crate::engine::{reapi, rules};
use crate::error::{Error, Result};
use bytes::Bytes;
use osbuild_remote::Source;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The version of the input root. Raise it when the same action gets another one.
const LAYOUT: u32 = 1;

/// The version of the input root with a launcher.
const LAUNCHED_LAYOUT: u32 = 1;

/// After which time a worker ends an action. Few services allow more.
const TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// The unpacked folders that an action uses.
#[derive(Clone)]
pub(super) struct Folders {
    /// The sandbox's root.
    pub root: Arc<Listing>,
    /// The action's toolchains, in their order.
    pub toolchains: Vec<Arc<Listing>>,
    /// The programs that make them the `/` of the action; `None` for a service whose input roots
    /// are that.
    pub launcher: Option<Arc<Listing>>,
}

/// An action with its whole input root.
pub(super) struct RemoteAction {
    /// The digest of the message `Action`.
    pub digest: Digest,
    /// The bytes of its messages, but for those of the folders.
    messages: BTreeMap<Digest, Bytes>,
    /// The files of its `/build`, which the store has.
    files: BTreeSet<Digest>,
    /// The sandbox's root, the toolchains and the launcher.
    pub folders: Vec<Arc<Listing>>,
}

impl RemoteAction {
    /// That of `action` with its folders, for workers with the properties `platform`. The result of
    /// one that is fresh is for one use alone.
    ///
    /// # Errors
    /// An input has the path of an output's folder.
    pub fn new(
        action: &Action,
        folders: Folders,
        platform: &BTreeMap<String, String>,
        is_fresh: bool,
    ) -> Result<Self> {
        let mut messages = BTreeMap::new();
        let mut emit = |bytes: &[u8]| {
            messages.insert(Digest::of(bytes), Bytes::copy_from_slice(bytes));
            Ok(())
        };
        let tree = action.build_folder()?;
        let build = tree.encode(Properties::ModesAndTimes, &mut emit)?;
        let mut put = |bytes: Vec<u8>| emit(&bytes).map(|()| Digest::of(&bytes));
        let names = action.toolchains.iter().map(|tool| tool.name.as_str());
        let named = |(tool, folder): (_, &Arc<Listing>)| (tool, folder.digest);
        let tools = directory(names.zip(&folders.toolchains).map(named));
        let tools = put(tools.encode_to_vec())?;
        let (top, command) = match &folders.launcher {
            None => {
                let top = with(folders.root.top.clone(), &[(BUILD, build), (TOOLCHAIN, tools)])?;
                (top, action.command(BUILD.trim_start_matches('/')))
            }
            Some(launcher) => {
                let empty = put(directory([]).encode_to_vec())?;
                let work = directory([(folder::BUILD, empty), (folder::TMP, empty)]);
                let work = put(work.encode_to_vec())?;
                let top = directory([
                    (folder::ROOT, folders.root.digest),
                    (folder::TOOLCHAINS, tools),
                    (folder::INPUTS, build),
                    (folder::LAUNCHER, launcher.digest),
                    (folder::WORK, work),
                ]);
                let place = format!("{}/{}", folder::WORK, folder::BUILD);
                let arguments = Launcher::command(action);
                (top, reapi::Command { arguments, ..action.command(&place) })
            }
        };
        let layout = match &folders.launcher {
            None => format!("input root {LAYOUT}"),
            Some(_) => format!("launched input root {LAUNCHED_LAYOUT}"),
        };
        let (input_root, command) = (put(top.encode_to_vec())?, put(command.encode_to_vec())?);
        let property = |(name, value): (&String, &String)| reapi::Pair {
            name: name.clone(),
            value: value.clone(),
        };
        let properties = platform.iter().map(property).collect();
        let message = reapi::Action {
            command_digest: Some((&command).into()),
            input_root_digest: Some((&input_root).into()),
            timeout: Some(TIMEOUT.into()),
            do_not_cache: is_fresh,
            salt: format!("osbuild rules {}, {layout}", rules::VERSION).into_bytes(),
            platform: (!platform.is_empty()).then_some(reapi::Platform { properties }),
        };
        let digest = put(message.encode_to_vec())?;
        let Folders { root, toolchains, launcher } = folders;
        let folders = [root].into_iter().chain(toolchains).chain(launcher).collect();
        Ok(RemoteAction { digest, messages, files: tree.files(), folders })
    }

    /// The digests of its own messages and files.
    pub fn blobs(&self) -> BTreeSet<Digest> {
        self.messages.keys().chain(&self.files).copied().collect()
    }

    /// Where the bytes of one of its own blobs are.
    ///
    /// # Errors
    /// The store does not have the file.
    pub fn source(&self, store: &Store, blob: &Digest) -> Result<Source> {
        match self.messages.get(blob) {
            Some(bytes) => Ok(Source::Bytes(bytes.clone())),
            None => store.path(blob).map(Source::File),
        }
    }
}

/// A folder of these directories alone.
fn directory<'n>(entries: impl IntoIterator<Item = (&'n str, Digest)>) -> reapi::Directory {
    let named = |(name, digest): (&str, Digest)| node(name, &digest);
    let mut directories = entries.into_iter().map(named).collect::<Vec<_>>();
    directories.sort_by(|one, other| one.name.cmp(&other.name));
    let node_properties = Properties::Modes.directory();
    reapi::Directory { directories, node_properties, ..Default::default() }
}

/// A root with these directories in place of its own, which are empty mount points.
fn with(mut root: reapi::Directory, places: &[(&str, Digest)]) -> Result<reapi::Directory> {
    for (path, digest) in places {
        let name = path.trim_start_matches('/');
        let place = root.directories.iter_mut().find(|place| place.name == name);
        let place = place
            .ok_or_else(|| Error::build(format!("the sandbox's root has no folder `{path}`")))?;
        *place = node(name, digest);
    }
    Ok(root)
}

fn node(name: &str, digest: &Digest) -> reapi::DirectoryNode {
    reapi::DirectoryNode { name: name.to_owned(), digest: Some(digest.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::action::{InputTree, SandboxRoot, Toolchain};
    use std::fs;

    fn folder(store: &Store, names: &[&str]) -> Arc<Listing> {
        let key = Digest::of(names.concat().as_bytes());
        let fill = |folder: &std::path::Path| {
            names.iter().for_each(|name| fs::create_dir(folder.join(name)).unwrap());
            Ok(())
        };
        let path = store.tree(&key, fill).unwrap();
        Arc::new(Listing::of(store, &key, &path).unwrap())
    }

    fn action(toolchains: &[&str]) -> Action {
        let key = Digest::of(b"");
        let toolchain = |name: &&str| Toolchain { name: (*name).into(), key, path: "/".into() };
        Action {
            name: "step".into(),
            argv: vec!["true".into()],
            env: BTreeMap::new(),
            input: InputTree::new(),
            outputs: vec!["folder/out".into()],
            root: SandboxRoot { key, path: "/".into() },
            toolchains: toolchains.iter().map(toolchain).collect(),
        }
    }

    #[test]
    fn everything_that_a_worker_gets_is_in_the_digest() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("store")).unwrap();
        let root = folder(&store, &["build", "toolchain"]);
        let other_root = folder(&store, &["build", "toolchain", "usr"]);
        let (a, b) = (folder(&store, &["a"]), folder(&store, &["b"]));
        let platform = BTreeMap::from([("OSFamily".to_owned(), "linux".to_owned())]);
        let none = BTreeMap::new();
        let digest =
            |names: &[&str], root: &Arc<Listing>, tools: &[&Arc<Listing>], platform, fresh| {
                let toolchains = tools.iter().map(|tool| Arc::clone(tool)).collect();
                let folders = Folders { root: Arc::clone(root), toolchains, launcher: None };
                RemoteAction::new(&action(names), folders, platform, fresh).unwrap().digest
            };
        let usual = digest(&["x", "y"], &root, &[&a, &b], &none, false);
        assert_eq!(digest(&["y", "x"], &root, &[&b, &a], &none, false), usual);
        let others = [
            digest(&["x", "y"], &root, &[&b, &a], &none, false),
            digest(&["x"], &root, &[&a], &none, false),
            digest(&["x", "y"], &other_root, &[&a, &b], &none, false),
            digest(&["x", "y"], &root, &[&a, &b], &platform, false),
            digest(&["x", "y"], &root, &[&a, &b], &none, true),
        ];
        assert_eq!(others.iter().chain([&usual]).collect::<BTreeSet<_>>().len(), 6);
    }

    #[test]
    fn a_launcher_is_part_of_the_digest_and_its_root_needs_no_mount_points() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("store")).unwrap();
        let root = folder(&store, &["usr"]);
        let digest = |launcher: &Arc<Listing>| {
            let (root, launcher) = (Arc::clone(&root), Some(Arc::clone(launcher)));
            let folders = Folders { root, toolchains: Vec::new(), launcher };
            RemoteAction::new(&action(&[]), folders, &BTreeMap::new(), false).unwrap().digest
        };
        let (a, b) = (folder(&store, &["a"]), folder(&store, &["b"]));
        assert_ne!(digest(&a), digest(&b));
        assert_eq!(digest(&a), digest(&a));
    }

    #[test]
    fn a_root_without_its_mount_points_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("store")).unwrap();
        let root = folder(&store, &["toolchain"]);
        let folders = Folders { root, toolchains: Vec::new(), launcher: None };
        assert!(RemoteAction::new(&action(&[]), folders, &BTreeMap::new(), false).is_err());
    }
}
