//! What an image says of itself: `/osbuild.json` in the initramfs, which `osbuild inspect` reads
//! and compares with what is there.

use super::digest::Digest;
use crate::plan::{BinaryName, DebianPackage, DebianProgram, Locked, Plan};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Path of the inventory in the initramfs.
pub const PATH: &str = "osbuild.json";

/// All that went into an image, by version and digest.
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
    /// The kernel: what `uname -r` says.
    pub kernel: String,
    /// What has a version besides these: UEFI stub, libraries, toolchains, and what images of pods
    /// install on the node.
    pub prebuilt: BTreeMap<String, String>,
    /// Static pods and the images that they run.
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
    /// Upstream's version; this workspace's for our own.
    pub version: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

impl Inventory {
    /// The inventory of `plan`, whose binaries have these digests.
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
        // Of the sandbox's packages, those whose bytes can end up in a product: what compiles, and
        // what is linked.
        let compiles = |package: &&DebianPackage| {
            ["binutils", "gcc", "libc6-dev"].iter().any(|name| package.package.starts_with(name))
        };
        let compilers = locked.sandbox.packages.iter().filter(compiles);
        let mut prebuilt: BTreeMap<_, _> =
            compilers.map(|package| (package.package.clone(), package.version.clone())).collect();
        prebuilt.extend([
            (plan.stub().package.clone(), plan.stub().version.clone()),
            ("go".into(), locked.toolchain.go.version.clone()),
            ("rust".into(), plan.rust().version.clone()),
        ]);
        prebuilt.extend(
            plan.statically_linked()
                .map(|package| (package.package.clone(), package.version.clone())),
        );
        let carried: BTreeSet<_> = plan
            .payloads()
            .flat_map(|payload| &payload.debian)
            .flat_map(DebianProgram::packages)
            .collect();
        let carried =
            locked.files.packages.iter().filter(|package| carried.contains(&package.package));
        prebuilt.extend(carried.map(|package| (package.package.clone(), package.version.clone())));
        prebuilt.extend(
            plan.payloads()
                .map(|payload| (payload.go.name.clone(), payload.go.version.to_string())),
        );
        Inventory {
            recipe: plan.recipe.clone(),
            architecture: plan.architecture.name().into(),
            lock: lock.hex(),
            epoch: locked.epoch,
            binaries: BinaryName::ALL.into_iter().map(binary).collect(),
            kernel: kernel.into(),
            prebuilt,
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
}
