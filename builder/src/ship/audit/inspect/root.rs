//! The merged root, compared with the inventory.

use super::file::{File, FileKind};
use crate::error::{Error, Kind, Problem, Result};
use crate::produce::inventory::{Inventory, InventoryBinary};
use osbuild_abi::paths::{BIN, POD_MANIFESTS};
use serde::Serialize;
use std::collections::BTreeMap;

/// The root of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Root {
    /// The recipe that it was built from.
    pub recipe: String,
    /// Its architecture.
    pub architecture: String,
    /// SHA-256 of the lock in hexadecimal.
    pub lock: String,
    /// The lock's epoch in seconds since 1970.
    pub epoch: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The prebuilt components: name and version.
    pub prebuilt: BTreeMap<String, String>,
    /// The files of `/bin`.
    pub binaries: Vec<Binary>,
    /// The static pods.
    pub pods: Vec<Pod>,
    /// The writable paths that the recipe declares: path, mode, `exec` or `noexec`, and backing.
    pub writable: Vec<String>,
    /// Everything in the root, by path.
    pub files: Vec<File>,
}

/// One of the files of `/bin`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Binary {
    /// Its name.
    pub name: String,
    /// The component that it comes from.
    pub component: String,
    /// Its version.
    pub version: String,
    /// Its size in bytes, in the root.
    pub size: u64,
    /// Its permissions in octal, in the root.
    pub mode: String,
    /// Its SHA-256, in the root.
    pub sha256: String,
}

/// A static pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// The images that it runs.
    pub images: Vec<String>,
}

/// The files of the root by path.
pub(super) type Files = BTreeMap<String, File>;

/// Describes the root of these files.
///
/// # Errors
/// The files contradict the inventory (`Kind::Digest`).
pub(super) fn root(inventory: Inventory, files: Files) -> Result<Root> {
    let problems = disagreements(&inventory, &files);
    if !problems.is_empty() {
        return Err(Error::many(Kind::Digest, problems));
    }
    let binary = |binary: InventoryBinary| {
        let file = &files[&format!("{BIN}/{}", binary.name)];
        let InventoryBinary { name, component, version, sha256, .. } = binary;
        Binary { name, component, version, size: file.size, mode: file.mode.clone(), sha256 }
    };
    Ok(Root {
        recipe: inventory.recipe,
        architecture: inventory.architecture,
        lock: inventory.lock,
        epoch: inventory.epoch,
        kernel: inventory.kernel,
        prebuilt: inventory.prebuilt,
        binaries: inventory.binaries.into_iter().map(binary).collect(),
        pods: inventory.pods.into_iter().map(|(name, images)| Pod { name, images }).collect(),
        writable: inventory.writable,
        files: files.into_values().collect(),
    })
}

/// The contradictions between the layers and the inventory.
fn disagreements(inventory: &Inventory, files: &Files) -> Vec<Problem> {
    let mut problems: Vec<_> = inventory
        .binaries
        .iter()
        .filter_map(|binary| disagreement(binary, files))
        .map(Problem::new)
        .collect();
    let declared = inventory.pods.keys().map(|pod| format!("{POD_MANIFESTS}/{pod}.yaml"));
    problems.extend(declared.filter(|path| !files.contains_key(path)).map(|path| {
        Problem::new(format!("the inventory lists a pod, but the root does not have its `{path}`"))
    }));
    let listed = |name: &str| inventory.binaries.iter().any(|binary| binary.name == name);
    let extra = files.keys().filter(|path| {
        path.strip_prefix(BIN)
            .and_then(|rest| rest.strip_prefix('/'))
            .is_some_and(|name| !listed(name))
    });
    problems.extend(extra.map(|path| {
        Problem::new(format!("the root has `{path}`, which the inventory does not list"))
    }));
    problems
}

/// The contradiction between a binary in the root and its entry in the inventory.
fn disagreement(binary: &InventoryBinary, files: &Files) -> Option<String> {
    let path = format!("{BIN}/{}", binary.name);
    let (size, sha256) = (binary.size, &binary.sha256);
    match files.get(&path) {
        Some(file) if file.kind != FileKind::File => {
            Some(format!("`{path}` is not a regular file"))
        }
        Some(file) if file.size != size => {
            Some(format!("`{path}` has {} bytes, the inventory says {size}", file.size))
        }
        Some(File { sha256: Some(found), .. }) if found != sha256 => {
            Some(format!("`{path}` is sha256:{found}, the inventory says sha256:{sha256}"))
        }
        Some(_) => None,
        None => Some(format!("the inventory lists `{path}`, which the root does not have")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory() -> Inventory {
        let binary = InventoryBinary {
            name: "init".into(),
            component: "init".into(),
            version: "1".into(),
            size: 5,
            sha256: "ab".into(),
        };
        Inventory {
            recipe: "node".into(),
            architecture: "amd64".into(),
            lock: "cd".into(),
            epoch: 1,
            binaries: vec![binary],
            kernel: "6.12".into(),
            prebuilt: BTreeMap::new(),
            pods: [("dhcp".to_owned(), vec!["localhost/dhcp:1".to_owned()])].into(),
            writable: vec![],
        }
    }

    fn files(rows: &[Row]) -> Files {
        let file = |(path, kind, size): &Row| File {
            path: (*path).into(),
            kind: *kind,
            mode: "0755".into(),
            owner: "0:0".into(),
            size: *size,
            sha256: (*kind == FileKind::File).then(|| "ab".into()),
            target: None,
        };
        rows.iter().map(|row| (row.0.to_owned(), file(row))).collect()
    }

    /// Path, type and size.
    type Row = (&'static str, FileKind, u64);

    const POD: Row = ("/usr/share/osbuild/pods/dhcp.yaml", FileKind::File, 9);
    const INIT: Row = ("/bin/init", FileKind::File, 5);

    #[test]
    fn sizes_and_modes_come_from_the_root() {
        let root = root(inventory(), files(&[INIT, POD])).unwrap();
        assert_eq!((root.binaries[0].size, root.binaries[0].mode.as_str()), (5, "0755"));
        assert_eq!(root.files.len(), 2);
    }

    #[test]
    fn a_root_that_contradicts_the_inventory_is_refused() {
        let cases: [(&[Row], &str); 5] = [
            (
                &[("/bin/init", FileKind::File, 6), POD],
                "`/bin/init` has 6 bytes, the inventory says 5",
            ),
            (&[("/bin/init", FileKind::Link, 5), POD], "`/bin/init` is not a regular file"),
            (&[POD], "the inventory lists `/bin/init`, which the root does not have"),
            (
                &[INIT, ("/bin/sh", FileKind::File, 1), POD],
                "the root has `/bin/sh`, which the inventory does not list",
            ),
            (
                &[INIT],
                "the inventory lists a pod, but the root does not have its \
                 `/usr/share/osbuild/pods/dhcp.yaml`",
            ),
        ];
        for (rows, message) in cases {
            let error = root(inventory(), files(rows)).unwrap_err();
            assert_eq!((error.kind, error.problems[0].message.as_str()), (Kind::Digest, message));
        }
    }

    #[test]
    fn a_binary_with_other_bytes_of_the_same_length_is_refused() {
        let mut inventory = inventory();
        inventory.binaries[0].sha256 = "cd".into();
        let error = root(inventory, files(&[INIT, POD])).unwrap_err();
        assert_eq!(
            error.problems[0].message,
            "`/bin/init` is sha256:ab, the inventory says sha256:cd"
        );
    }
}
