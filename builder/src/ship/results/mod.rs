//! `osbuild results`: the results of a build's steps as one OCI artifact, in a folder or a
//! registry. The list of results in it is signed by a release key, and names every other file by
//! its digest.

mod authorities;
mod export;
mod folder;
mod import;
mod list;
mod place;
mod registry;

pub use export::{Exported, export};
pub use folder::Folder;
pub use import::{Imported, import};
pub use place::{Place, Source};
pub use registry::Registry;

/// The type of the artifact.
const ARTIFACT: &str = "application/vnd.osbuild.results.v1";
/// The type of the file with the list of results: a signed envelope.
const LIST: &str = "application/vnd.dsse.envelope.v1+json";
/// The type of each file that a step made.
const FILE: &str = "application/vnd.osbuild.result.v1+zstd";
/// The type of the artifact's configuration, which has nothing in it.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// Its bytes.
const EMPTY_BYTES: &[u8] = b"{}";

/// The upper limit of the manifest in bytes: registries refuse larger ones.
const MAX_MANIFEST: u64 = 4 << 20;
/// The upper limit of the list in bytes.
const MAX_LIST: u64 = 64 << 20;
