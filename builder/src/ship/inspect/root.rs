//! The initramfs, its layers, and the root that they make; held against the inventory.

use crate::error::{Context, Error, Kind, Problem, Result};
use crate::produce::inventory::{self, Inventory, InventoryBinary};
use osbuild_abi::paths::{BIN, LAYERS, POD_MANIFESTS};
use osbuild_formats::cpio::{self, Kind as EntryKind};
use osbuild_formats::erofs;
use serde::Serialize;
use std::collections::BTreeMap;

/// How many of the biggest files are shown.
const BIGGEST: usize = 10;

/// `st_mode` of a regular file (inode(7)).
const REGULAR: u32 = 0o100000;

/// The parts of an initramfs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Initramfs {
    /// Its size in bytes.
    pub size: u64,
    /// Its layers, the topmost last.
    pub layers: Vec<Layer>,
}

/// A read-only layer of the root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Layer {
    /// Its file name.
    pub name: String,
    /// Its size in bytes, compressed.
    pub size: u64,
    /// How many files it has.
    pub files: usize,
}

/// What the node runs.
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
    /// What was not compiled from source, by name and version.
    pub prebuilt: BTreeMap<String, String>,
    /// The files of `/bin`.
    pub binaries: Vec<Binary>,
    /// The static pods.
    pub pods: Vec<Pod>,
    /// The biggest files of the root, the biggest first.
    pub biggest: Vec<File>,
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
    /// Its size in bytes, as the root has it.
    pub size: u64,
    /// Its permissions in octal, as the root has them.
    pub mode: String,
    /// Its SHA-256, as the inventory says it.
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

/// A file of the root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct File {
    /// Its path.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
}

/// Reads an initramfs.
///
/// # Errors
/// It is damaged, has no inventory, or its layers do not hold what the inventory says (`Kind::Digest`).
pub(super) fn read(initramfs: &[u8]) -> Result<(Initramfs, Root)> {
    let entries = cpio::read(initramfs).or_build(|| "cannot read the initramfs".to_owned())?;
    let (mut layers, mut merged, mut inventory) = (Vec::new(), BTreeMap::new(), None);
    for entry in &entries {
        let EntryKind::File(bytes) = &entry.kind else { continue };
        let path = absolute(&entry.path);
        if let Some(name) = path.strip_prefix(LAYERS).and_then(|rest| rest.strip_prefix('/')) {
            let entries =
                erofs::read(bytes).map_err(|error| Error::build(format!("cannot read the layer `{name}`")).cause(error))?;
            let files = entries.iter().filter(|entry| is_file(entry)).count();
            layers.push((Layer { name: name.to_owned(), size: bytes.len() as u64, files }, entries));
        } else if path == absolute(inventory::PATH) {
            let read: Inventory = serde_json::from_slice(bytes).or_build(|| "cannot read the inventory".to_owned())?;
            inventory = Some(read);
        }
    }
    let inventory = inventory.ok_or_else(|| Error::build(format!("the initramfs has no `{}`", absolute(inventory::PATH))))?;
    layers.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
    for (_, entries) in &mut layers {
        merged.extend(entries.drain(..).map(|entry| (entry.path.clone(), entry)));
    }
    let layers = layers.into_iter().map(|(layer, _)| layer).collect();
    Ok((Initramfs { size: initramfs.len() as u64, layers }, root(inventory, &merged)?))
}

fn absolute(path: &str) -> String {
    format!("/{}", path.trim_start_matches("./").trim_start_matches('/'))
}

fn is_file(entry: &erofs::Entry) -> bool {
    entry.mode & 0o170000 == REGULAR
}

/// The entries of the root by path. A path of a higher layer stands for that of all beneath it.
type Entries = BTreeMap<String, erofs::Entry>;

fn root(inventory: Inventory, entries: &Entries) -> Result<Root> {
    let problems = disagreements(&inventory, entries);
    if !problems.is_empty() {
        return Err(Error::many(Kind::Digest, problems));
    }
    let binary = |binary: InventoryBinary| {
        let entry = &entries[&format!("{BIN}/{}", binary.name)];
        let InventoryBinary { name, component, version, sha256, .. } = binary;
        Binary { name, component, version, size: entry.size, mode: format!("{:04o}", entry.mode & 0o7777), sha256 }
    };
    let mut biggest: Vec<File> = entries
        .values()
        .filter(|entry| is_file(entry))
        .map(|entry| File { path: entry.path.clone(), size: entry.size })
        .collect();
    biggest.sort_by(|one, other| other.size.cmp(&one.size).then_with(|| one.path.cmp(&other.path)));
    biggest.truncate(BIGGEST);
    Ok(Root {
        recipe: inventory.recipe,
        architecture: inventory.architecture,
        lock: inventory.lock,
        epoch: inventory.epoch,
        kernel: inventory.kernel,
        prebuilt: inventory.prebuilt,
        binaries: inventory.binaries.into_iter().map(binary).collect(),
        pods: inventory.pods.into_iter().map(|(name, images)| Pod { name, images }).collect(),
        biggest,
    })
}

/// Where the layers do not hold what the inventory says, or hold more.
fn disagreements(inventory: &Inventory, entries: &Entries) -> Vec<Problem> {
    let mut problems = Vec::new();
    for binary in &inventory.binaries {
        let path = format!("{BIN}/{}", binary.name);
        match entries.get(&path) {
            Some(entry) if !is_file(entry) => problems.push(Problem::new(format!("`{path}` is no regular file"))),
            Some(entry) if entry.size != binary.size => {
                problems.push(Problem::new(format!("`{path}` has {} bytes, the inventory says {}", entry.size, binary.size)));
            }
            Some(_) => {}
            None => problems.push(Problem::new(format!("the inventory lists `{path}`, which the root does not have"))),
        }
    }
    let declared = inventory.pods.keys().map(|pod| format!("{POD_MANIFESTS}/{pod}.yaml"));
    problems.extend(
        declared
            .filter(|path| !entries.contains_key(path))
            .map(|path| Problem::new(format!("the inventory lists a pod whose `{path}` the root does not have"))),
    );
    let listed = |name: &str| inventory.binaries.iter().any(|binary| binary.name == name);
    let extra = entries
        .keys()
        .filter(|path| path.strip_prefix(BIN).and_then(|rest| rest.strip_prefix('/')).is_some_and(|name| !listed(name)));
    problems.extend(extra.map(|path| Problem::new(format!("the root has `{path}`, which the inventory does not list"))));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory() -> Inventory {
        let binary =
            InventoryBinary { name: "init".into(), component: "init".into(), version: "1".into(), size: 5, sha256: "ab".into() };
        Inventory {
            recipe: "node".into(),
            architecture: "amd64".into(),
            lock: "cd".into(),
            epoch: 1,
            binaries: vec![binary],
            kernel: "6.12".into(),
            prebuilt: BTreeMap::new(),
            pods: [("dhcp".to_owned(), vec!["localhost/dhcp:1".to_owned()])].into(),
        }
    }

    fn entries(files: &[Row]) -> Entries {
        let entry = |(path, mode, size): &Row| erofs::Entry {
            path: (*path).into(),
            mode: *mode,
            uid: 0,
            gid: 0,
            size: *size,
            target: None,
        };
        files.iter().map(|file| (file.0.to_owned(), entry(file))).collect()
    }

    /// Path, `st_mode` and size.
    type Row = (&'static str, u32, u64);

    const POD: Row = ("/usr/share/osbuild/pods/dhcp.yaml", 0o100444, 9);

    #[test]
    fn sizes_and_modes_are_those_of_the_root() {
        let root = root(inventory(), &entries(&[("/bin/init", 0o100755, 5), POD])).unwrap();
        assert_eq!((root.binaries[0].size, root.binaries[0].mode.as_str()), (5, "0755"));
        assert_eq!(root.biggest[0].path, POD.0);
    }

    #[test]
    fn a_root_that_is_not_what_the_inventory_says_is_refused() {
        let cases: [(&[Row], &str); 5] = [
            (&[("/bin/init", 0o100755, 6), POD], "`/bin/init` has 6 bytes, the inventory says 5"),
            (&[("/bin/init", 0o120777, 5), POD], "`/bin/init` is no regular file"),
            (&[POD], "the inventory lists `/bin/init`, which the root does not have"),
            (
                &[("/bin/init", 0o100755, 5), ("/bin/sh", 0o100755, 1), POD],
                "the root has `/bin/sh`, which the inventory does not list",
            ),
            (
                &[("/bin/init", 0o100755, 5)],
                "the inventory lists a pod whose `/usr/share/osbuild/pods/dhcp.yaml` the root does not have",
            ),
        ];
        for (files, message) in cases {
            let error = root(inventory(), &entries(files)).unwrap_err();
            assert_eq!((error.kind, error.problems[0].message.as_str()), (Kind::Digest, message));
        }
    }
}
