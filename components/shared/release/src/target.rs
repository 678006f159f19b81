//! The names of targets in a TUF repository.
//!
//! Names have no slash, because TUF clients disagree about the place of the digest in the path of a
//! target in a folder (consistent snapshots). The parts of a name have no underscore, so names are
//! unique.

use crate::Channel;

/// The UKI.
pub const NODE: &str = "node.efi";
/// slotboot, the program that the firmware starts.
pub const BOOT: &str = "boot.efi";
/// The lock of the build.
pub const LOCK: &str = "recipe.lock";
/// The list of the lock's sources.
pub const SOURCES: &str = "sources.txt";
/// The bill of materials, in SPDX 2.3.
pub const SBOM: &str = "sbom.spdx.json";
/// The provenance: an in-toto statement in a DSSE envelope.
pub const PROVENANCE: &str = "provenance.dsse.json";

/// The document of a version. A channel has it under the name [`document`], with its rollout there.
pub const DOCUMENT: &str = "release.json";

/// The name of the document of a channel's release for a recipe: `stable_qemu-amd64.json`.
pub fn document(channel: Channel, recipe: &str) -> String {
    format!("{channel}_{recipe}.json")
}

/// The name of a file of a release: `qemu-amd64_1.35.8_node.efi`.
pub fn file(recipe: &str, version: &str, name: &str) -> String {
    format!("{recipe}_{version}_{name}")
}
