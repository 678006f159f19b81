//! The inventory of an image: `/osbuild.json` in the initramfs, which `osbuild inspect` reads and
//! compares with the image.

use crate::engine::digest::Digest;
use crate::plan::{BinaryName, DebianPackage, Locked, Plan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Path of the inventory in the initramfs.
pub const PATH: &str = "osbuild.json";

/// Everything in an image, with versions and digests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Inventory {
    /// The recipe.
    pub recipe: String,
    /// `amd64` or `arm64`.
    pub architecture: String,
    /// SHA-256 of the lock in hexadecimal.
    pub lock: String,
    /// The lock's epoch in seconds since 1970.
    pub epoch: u64,
    /// The seven host binaries.
    pub binaries: Vec<InventoryBinary>,
    /// The kernel release, as `uname -r` shows it.
    pub kernel: String,
    /// The versions of everything else: UEFI stub, libraries, toolchains, and the programs that
    /// images of pods install on the node.
    pub prebuilt: BTreeMap<String, String>,
    /// The images of each static pod.
    pub pods: BTreeMap<String, Vec<String>>,
    /// The writable paths that the recipe declares, as the node reads them
    /// ([`osbuild_abi::declared`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<String>,
}

/// One of the seven.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct InventoryBinary {
    /// File name in `/bin`.
    pub name: String,
    /// The component that it comes from.
    pub component: String,
    /// Upstream's version; for our own programs that of this workspace.
    pub version: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

impl Inventory {
    /// The inventory of `plan` with these host binaries. `lock` is the digest of its lock, `kernel`
    /// the kernel release.
    pub fn new(
        plan: &Plan<Locked>,
        lock: &Digest,
        kernel: &str,
        binaries: &BTreeMap<String, Digest>,
    ) -> Self {
        let locked = plan.lock.get();
        let binary = |name: BinaryName| {
            let (digest, component) = (binaries[name.file_name()], plan.component(name));
            let ours = || env!("CARGO_PKG_VERSION").to_owned();
            InventoryBinary {
                name: name.to_string(),
                component: component.name().to_owned(),
                version: component.version().map_or_else(ours, |version| version.to_string()),
                size: digest.size(),
                sha256: digest.hex(),
            }
        };
        Inventory {
            recipe: plan.recipe.clone(),
            architecture: plan.architecture.name().into(),
            lock: lock.hex(),
            epoch: locked.epoch,
            binaries: BinaryName::ALL.into_iter().map(binary).collect(),
            kernel: kernel.into(),
            prebuilt: prebuilt(plan),
            writable: plan.writable.iter().map(|path| path.declared().to_string()).collect(),
            pods: plan
                .pods
                .iter()
                .map(|pod| {
                    (pod.name.clone(), pod.images.iter().map(|image| image.name.clone()).collect())
                })
                .collect(),
        }
    }

    /// The text of the file.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("an inventory always serializes")
    }
}

/// The versions of everything in the image that is not a host binary or the kernel.
fn prebuilt(plan: &Plan<Locked>) -> BTreeMap<String, String> {
    let packages = plan.compilers().chain(plan.statically_linked()).chain(plan.carried());
    let version = |package: &DebianPackage| (package.package.clone(), package.version.clone());
    let payloads = plan.payloads().map(|payload| &payload.go);
    let mut prebuilt: BTreeMap<_, _> = packages.chain([plan.stub()]).map(version).collect();
    prebuilt.extend(payloads.map(|go| (go.name.clone(), go.version.to_string())));
    prebuilt.extend([
        ("go".to_owned(), plan.lock.get().toolchain.go.version.clone()),
        ("rust".to_owned(), plan.rust().version.clone()),
    ]);
    prebuilt
}
