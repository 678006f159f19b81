//! The Merkle tree of an unpacked folder of the store, such as the sandbox's root: the messages of
//! its directories, and where its files are. It is made once for each folder and kept in the store.

use crate::engine::action::Properties;
use crate::engine::digest::Digest;
use crate::engine::key::Key;
use crate::engine::reapi;
use crate::engine::store::Store;
use crate::error::{Error, Result};
use bytes::Bytes;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The version of what the store keeps. Raise it when the same folder gives other messages.
const LAYOUT: u32 = 1;

/// The Merkle tree of an unpacked folder.
pub(super) struct Listing {
    /// The folder on this machine.
    path: PathBuf,
    /// Its own message.
    pub top: reapi::Directory,
    /// The bytes of all messages, its own among them.
    pub messages: BTreeMap<Digest, Bytes>,
    /// The digest of its own message.
    pub digest: Digest,
}

impl Listing {
    /// That of the tree `key` of the store, which is the folder `path`.
    ///
    /// # Errors
    /// The store does not have the tree, or its content was changed.
    pub fn of(store: &Store, key: &Digest, path: &Path) -> Result<Listing> {
        let memo = Key::new("listing").field("layout", LAYOUT).field("tree", key.hex());
        let known = store.recall_memo(&memo).map(|known| store.read(&known)).transpose()?;
        let known = known.and_then(|bytes| reapi::Tree::decode(bytes.as_slice()).ok());
        let tree = match known {
            Some(tree) => tree,
            None => {
                let tree = scan(store, key)?;
                store.remember_memo(&memo, &store.put_bytes(&tree.encode_to_vec())?)?;
                tree
            }
        };
        let top = tree.root.unwrap_or_default();
        let bytes = |directory: &reapi::Directory| Bytes::from(directory.encode_to_vec());
        let all = tree.children.iter().chain([&top]).map(bytes);
        let messages = all.map(|bytes| (Digest::of(&bytes), bytes)).collect();
        let digest = Digest::of(&bytes(&top));
        Ok(Listing { path: path.to_owned(), top, messages, digest })
    }

    /// The digests of all messages and files.
    pub fn blobs(&self) -> BTreeSet<Digest> {
        self.files().into_keys().chain(self.messages.keys().copied()).collect()
    }

    /// The path of each file on this machine.
    pub fn files(&self) -> BTreeMap<Digest, PathBuf> {
        let mut files = BTreeMap::new();
        let mut left = vec![(self.path.clone(), self.top.clone())];
        while let Some((path, directory)) = left.pop() {
            for file in directory.files {
                let digest = file.digest.and_then(|digest| digest.to_ours());
                files.extend(digest.map(|digest| (digest, path.join(&file.name))));
            }
            for below in directory.directories {
                let bytes = below.digest.and_then(|digest| self.messages.get(&digest.to_ours()?));
                let message = bytes.and_then(|bytes| reapi::Directory::decode(&bytes[..]).ok());
                left.extend(message.map(|message| (path.join(&below.name), message)));
            }
        }
        files
    }
}

/// The messages of a folder, from its files. Times are left out: with them, a worker cannot link
/// the files of its cache into the input root, and staging takes three times as long.
fn scan(store: &Store, key: &Digest) -> Result<reapi::Tree> {
    let (mut children, mut found) = (BTreeMap::new(), None);
    store.scan_tree(key)?.encode(Properties::Modes, &mut |bytes| {
        let message = reapi::Directory::decode(bytes)
            .map_err(|error| Error::build("cannot read a message of this program").cause(error))?;
        // The last one is the folder itself.
        if let Some(before) = found.replace(message) {
            children.insert(Digest::of(&before.encode_to_vec()), before);
        }
        Ok(())
    })?;
    Ok(reapi::Tree { root: found, children: children.into_values().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::action::InputTree;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn fill(root: &Path) -> Result<()> {
        for folder in ["one/two", "same", "copy", "empty"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for (path, text) in [("one/two/a", "a"), ("same/b", "b"), ("copy/b", "b"), ("c", "c")] {
            fs::write(root.join(path), text).unwrap();
        }
        symlink("/one", root.join("link")).unwrap();
        Ok(())
    }

    #[test]
    fn a_listing_has_each_folder_and_each_file_and_is_made_once() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("store")).unwrap();
        let key = Digest::of(b"tree");
        let path = store.tree(&key, fill).unwrap();
        let made = Listing::of(&store, &key, &path).unwrap();
        let files = made.files();
        for (digest, path) in &files {
            assert_eq!(Digest::of_file(path).unwrap(), *digest);
        }
        assert_eq!(files.len(), 3);
        let tree = InputTree::scan(&path, &mut Digest::of_file).unwrap();
        let mut messages = BTreeSet::new();
        let mut emit = |bytes: &[u8]| {
            messages.insert(Digest::of(bytes));
            Ok(())
        };
        assert_eq!(tree.encode(Properties::Modes, &mut emit).unwrap(), made.digest);
        assert_eq!(made.messages.keys().copied().collect::<BTreeSet<_>>(), messages);
        assert_eq!(made.blobs().len(), messages.len() + 3);
        fs::remove_file(path.join("c")).unwrap();
        assert_eq!(Listing::of(&store, &key, &path).unwrap().digest, made.digest);
    }

    #[test]
    fn a_changed_folder_has_no_listing() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("store")).unwrap();
        let key = Digest::of(b"tree");
        let path = store.tree(&key, fill).unwrap();
        fs::write(path.join("c"), "changed").unwrap();
        assert!(Listing::of(&store, &key, &path).is_err());
    }
}
