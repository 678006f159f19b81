//! An OCI image layout (OCI Image Format Specification 1.1, "Image Layout") with every image of the
//! node.

use crate::engine::action::InputTree;
use crate::engine::digest::Digest;
use crate::engine::store::Store;
use crate::error::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The annotations that name an image: containerd's and the specification's.
const NAMES: [&str; 2] = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];

/// A reference to a blob (OCI "Content Descriptors"), reduced to the fields that we use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// The media type of the blob.
    pub media_type: String,
    /// `sha256:…`
    pub digest: String,
    /// Its size in bytes.
    pub size: u64,
    /// The machine that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Free text by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// The machine that an image is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// `amd64` or `arm64`.
    pub architecture: String,
    /// `linux`
    pub os: String,
}

/// One image: its manifest, and all of its blobs including the manifest.
#[derive(Clone, Debug)]
pub struct Image {
    /// The descriptor of the manifest.
    pub manifest: Descriptor,
    /// Blobs in the store.
    pub blobs: Vec<Digest>,
}

/// Images by name.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    images: BTreeMap<String, Image>,
}

impl Layout {
    /// Adds an image under its name in pod manifests. A later image replaces one of the same name.
    pub fn add(&mut self, name: &str, image: Image) {
        self.images.insert(name.to_owned(), image);
    }

    /// Writes the layout below `folder` of `tree`.
    pub fn place(&self, store: &Store, tree: &mut InputTree, folder: &str) -> Result<()> {
        let manifests = self.images.iter().map(|(name, image)| {
            let mut manifest = image.manifest.clone();
            manifest.annotations.extend(NAMES.map(|key| (key.to_owned(), name.clone())));
            manifest
        });
        let index = serde_json::json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": manifests.collect::<Vec<_>>(),
        });
        tree.add_file(
            &format!("{folder}/index.json"),
            store.put_bytes(index.to_string().as_bytes())?,
            false,
        )?;
        tree.add_file(
            &format!("{folder}/oci-layout"),
            store.put_bytes(br#"{"imageLayoutVersion":"1.0.0"}"#)?,
            false,
        )?;
        let blobs = self
            .images
            .values()
            .flat_map(|image| &image.blobs)
            .map(|blob| (blob.hex(), *blob))
            .collect::<BTreeMap<_, _>>();
        for (hex, blob) in blobs {
            tree.add_file(&format!("{folder}/blobs/sha256/{hex}"), blob, false)?;
        }
        Ok(())
    }
}
