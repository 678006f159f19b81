//! Builds a reproducible image with one layer, usually a static program as the entry point and its
//! payload.

use super::layout::{Descriptor, Image};
use crate::engine::digest::Digest;
use crate::engine::store::Store;
use crate::error::{Context, Result};
use crate::plan::Architecture;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Mount points of the container runtime, which a read-only root must contain.
const FOLDERS: [&str; 6] = ["dev", "etc", "proc", "run", "sys", "tmp"];

/// Executable files by their absolute path in an image.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A file or a symbolic link in an image.
#[derive(Clone, Debug)]
pub enum Entry<'a> {
    /// A file.
    File {
        /// Its content.
        bytes: &'a [u8],
        /// Its permissions, with those bits that change a program's user.
        mode: u32,
    },
    /// A symbolic link to this path.
    Link(String),
}

/// The content of an image, and the defaults of its containers.
#[derive(Clone, Debug, Default)]
pub struct Content<'a> {
    /// By absolute path. Folders are made as needed.
    pub entries: BTreeMap<String, Entry<'a>>,
    /// The program and its first arguments; none if each container names its own.
    pub entry_point: Vec<String>,
    /// The arguments of a container that names none.
    pub arguments: Vec<String>,
    /// The user's id; root without it.
    pub user: Option<u32>,
}

impl<'a> Entry<'a> {
    /// A file that everyone may execute.
    pub fn program(bytes: &'a [u8]) -> Self {
        Entry::File { bytes, mode: 0o755 }
    }
}

/// Makes an image whose entry point `/NAME` is `program`. `payload` has the programs that it
/// installs on the node.
pub fn from_program(
    store: &Store,
    name: &str,
    program: &[u8],
    payload: &Files,
    architecture: Architecture,
) -> Result<Image> {
    let entry_point = format!("/{name}");
    let payload = payload.iter().map(|(path, bytes)| (path.clone(), Entry::program(bytes)));
    let entries = payload.chain([(entry_point.clone(), Entry::program(program))]).collect();
    let entry_point = vec![entry_point];
    let content = Content { entries, entry_point, ..Content::default() };
    from_content(store, name, &content, architecture)
}

/// Makes an image. `name` is its name in errors.
pub fn from_content(
    store: &Store,
    name: &str,
    content: &Content<'_>,
    architecture: Architecture,
) -> Result<Image> {
    let layer = layer(content).or_build(|| format!("cannot pack the image of `{name}`"))?;
    let layer = put(store, &layer, "application/vnd.oci.image.layer.v1.tar")?;
    let mut start = json!({});
    for (key, words) in [("Entrypoint", &content.entry_point), ("Cmd", &content.arguments)] {
        if !words.is_empty() {
            start[key] = json!(words);
        }
    }
    if let Some(user) = content.user {
        start["User"] = json!(user.to_string());
    }
    let config = json!({
        "architecture": architecture.go(),
        "os": "linux",
        "config": start,
        // The layer is not compressed, so its digest is also its diff ID.
        "rootfs": { "type": "layers", "diff_ids": [layer.0.digest] },
    });
    let config =
        put(store, config.to_string().as_bytes(), "application/vnd.oci.image.config.v1+json")?;
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest =
        json!({ "schemaVersion": 2, "mediaType": kind, "config": config.0, "layers": [layer.0] });
    let manifest = put(store, manifest.to_string().as_bytes(), kind)?;
    Ok(Image { manifest: manifest.0, blobs: vec![layer.1, config.1, manifest.1] })
}

fn put(store: &Store, bytes: &[u8], media_type: &str) -> Result<(Descriptor, Digest)> {
    let digest = store.put_bytes(bytes)?;
    let size = bytes.len() as u64;
    let descriptor = Descriptor {
        media_type: media_type.into(),
        digest: format!("sha256:{}", digest.hex()),
        size,
        platform: None,
        annotations: BTreeMap::new(),
    };
    Ok((descriptor, digest))
}

fn layer(content: &Content<'_>) -> std::io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    let entries =
        || content.entries.iter().map(|(path, entry)| (path.trim_start_matches('/'), entry));
    let above =
        entries().flat_map(|(path, _)| path.match_indices('/').map(|(end, _)| &path[..end]));
    // Sorted, so that each folder precedes its content.
    for folder in above.chain(FOLDERS).collect::<BTreeSet<_>>() {
        let mut header = header(0o755, 0);
        header.set_entry_type(tar::EntryType::Directory);
        tar.append_data(&mut header, format!("{folder}/"), std::io::empty())?;
    }
    for (path, entry) in entries() {
        match entry {
            Entry::File { bytes, mode } => {
                tar.append_data(&mut header(*mode, bytes.len() as u64), path, *bytes)?;
            }
            Entry::Link(target) => {
                let mut header = header(0o777, 0);
                header.set_entry_type(tar::EntryType::Symlink);
                tar.append_link(&mut header, path, target)?;
            }
        }
    }
    tar.into_inner()
}

fn header(mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_modes_links_a_user_and_the_words_that_it_starts_with() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store")).unwrap();
        let content = Content {
            entries: [
                ("/bin/tool".to_owned(), Entry::File { bytes: b"tool", mode: 0o4755 }),
                ("/bin/sh".to_owned(), Entry::Link("/bin/tool".to_owned())),
            ]
            .into(),
            entry_point: vec!["/bin/tool".to_owned()],
            arguments: vec!["wait".to_owned()],
            user: Some(1234),
        };
        let image = from_content(&store, "tool", &content, Architecture::Amd64).unwrap();
        let [layer, config, _] = &image.blobs[..] else { panic!("{:?}", image.blobs) };
        let config: serde_json::Value =
            serde_json::from_slice(&store.read(config).unwrap()).unwrap();
        let start = json!({ "Entrypoint": ["/bin/tool"], "Cmd": ["wait"], "User": "1234" });
        assert_eq!(config["config"], start);
        let layer = store.read(layer).unwrap();
        let mut tar = tar::Archive::new(&layer[..]);
        let mut found = BTreeMap::new();
        for entry in tar.entries().unwrap() {
            let entry = entry.unwrap();
            let link = entry.link_name().unwrap().map(|to| to.display().to_string());
            let path = entry.path().unwrap().display().to_string();
            found.insert(path, (entry.header().mode().unwrap(), link));
        }
        assert_eq!(found["bin/tool"], (0o4755, None));
        assert_eq!(found["bin/sh"], (0o777, Some("/bin/tool".to_owned())));
        assert_eq!(found["bin/"], (0o755, None));
    }
}
