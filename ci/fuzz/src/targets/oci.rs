//! Pod images from users: OCI image layouts that the recipe pins by the digest of the index.

use std::collections::BTreeSet;
use std::fs;

use osbuild::engine::digest::Digest;
use osbuild::engine::store::Store;
use osbuild::plan::Architecture;
use osbuild::produce::podimage::{Image, from_archive};

use crate::documents::{self, Document, END, FALSE_END};
use crate::target::{Memory, Outcome, Target};

/// See the module. An input is documents; the first is the index. serde builds trees of them.
pub const TARGET: Target =
    Target { name: "oci", seeds, run, memory: Memory { base: 8 << 20, per_byte: 1024 } };

fn run(input: &[u8]) -> Outcome {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let blobs = folder.path().join("layout/blobs/sha256");
    fs::create_dir_all(&blobs).expect("a folder can be made");
    let documents = documents::read(input);
    let Some((index, others)) = documents.split_first() else { return Outcome::Refused };
    fs::write(folder.path().join("layout/index.json"), &index.bytes)
        .expect("a file can be written");
    for Document { name, bytes } in others {
        fs::write(blobs.join(name), bytes).expect("a file can be written");
    }
    let store = Store::open(folder.path().join("store")).expect("a store can be made");
    let pinned = format!("sha256:{}", Digest::of(&index.bytes).hex());
    let read = from_archive(&store, &folder.path().join("layout"), &pinned, Architecture::Amd64);
    if let Ok(image) = &read {
        is_pinned(image, index, others, &store);
    }
    Outcome::of(&read)
}

/// The digest in the recipe pins every blob of the image: the documents that lead to a blob match
/// their names.
fn is_pinned(image: &Image, index: &Document, others: &[Document], store: &Store) {
    let mut reached = BTreeSet::new();
    let mut open = vec![index];
    while let Some(document) = open.pop() {
        let text = String::from_utf8_lossy(&document.bytes);
        let is_true = |other: &&Document| other.name == Digest::of(&other.bytes).hex();
        open.extend(
            others
                .iter()
                .filter(is_true)
                .filter(|other| text.contains(&other.name) && reached.insert(&other.name)),
        );
    }
    for blob in &image.blobs {
        assert!(reached.contains(&blob.hex()), "{blob} is not pinned");
        store.read(blob).expect("the store has the image");
    }
    assert!(image.blobs.iter().any(|blob| image.manifest.digest == format!("sha256:{blob}")));
}

fn seeds() -> Vec<Vec<u8>> {
    const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    const INDEX: &str = "application/vnd.oci.image.index.v1+json";
    const CONFIG: &str = r#"{"architecture":"amd64","os":"linux"}"#;
    let blob = |kind: &str, number: u8| {
        format!(
            r#"{{"mediaType":"{kind}","digest":"sha256:@{number}","size":7,
                "platform":{{"architecture":"amd64","os":"linux"}}}}"#
        )
    };
    let index = |entry: &str| format!(r#"{{"schemaVersion":2,"manifests":[{entry}]}}"#);
    let manifest = |number: u8| {
        format!(
            r#"{{"schemaVersion":2,"config":{},"layers":[{}]}}"#,
            blob("c", number),
            blob("l", number + 1)
        )
    };
    let join =
        |documents: &[&str], end: u8| documents.join(&*char::from(end).to_string()).into_bytes();
    let nested =
        [&*index(&blob(INDEX, 1)), &index(&blob(MANIFEST, 2)), &manifest(3), CONFIG, "layer"];
    let mut false_name = join(&nested, END);
    if let Some(second) =
        false_name.iter().enumerate().filter(|(_, byte)| **byte == END).nth(1).map(|(at, _)| at)
    {
        false_name[second] = FALSE_END;
    }
    vec![
        join(&[&index(&blob(MANIFEST, 1)), &manifest(2), CONFIG, "layer"], END),
        join(&nested, END),
        false_name,
    ]
}
