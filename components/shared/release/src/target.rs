//! The names of targets in a TUF repository.
//!
//! None has a slash: where the digest stands in the path of a target of a consistent snapshot that
//! lies in a folder, the clients do not agree. As no part of a name has an underscore, no two names
//! are the same.

use crate::Channel;

/// The UKI.
pub const NODE: &str = "node.efi";
/// What the firmware starts: slotboot.
pub const BOOT: &str = "boot.efi";
/// The lock that it was built from.
pub const LOCK: &str = "recipe.lock";
/// The list of the lock's sources.
pub const SOURCES: &str = "sources.txt";
/// What is in it, as SPDX 2.3.
pub const SBOM: &str = "sbom.spdx.json";
/// How it was built, as an in-toto statement in a DSSE envelope.
pub const PROVENANCE: &str = "provenance.dsse.json";

/// The document of a version, which its channel has too.
pub const DOCUMENT: &str = "release.json";

/// The name of the document of what a channel has for a recipe: `stable_qemu-amd64.json`.
pub fn document(channel: Channel, recipe: &str) -> String {
    format!("{channel}_{recipe}.json")
}

/// The name of a file of a release: `qemu-amd64_1.35.8_node.efi`.
pub fn file(recipe: &str, version: &str, name: &str) -> String {
    format!("{recipe}_{version}_{name}")
}
