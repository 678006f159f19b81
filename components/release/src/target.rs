//! The names of targets in a TUF repository.

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

/// The name of the document of what a channel has for a recipe: `stable/qemu-amd64.json`.
pub fn document(channel: Channel, recipe: &str) -> String {
    format!("{channel}/{recipe}.json")
}

/// The name of a file of a release: `qemu-amd64/1.35.8/node.efi`.
pub fn file(recipe: &str, version: &str, name: &str) -> String {
    format!("{recipe}/{version}/{name}")
}
