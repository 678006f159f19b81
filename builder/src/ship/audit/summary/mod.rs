//! `osbuild summary`: a report on an image for a pull request. How big it is and each of its parts,
//! against the last release; what moved; and which API servers its node can join.

mod text;

use super::diff::{self, Change, Difference};
use super::inspect::{Inspection, inspect};
use crate::error::Result;
use crate::plan::skew::Row;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Summary {
    /// The recipe.
    pub recipe: String,
    /// The node's architecture.
    pub architecture: String,
    /// What it is compared with, as its user calls it; nothing if there is nothing.
    pub against: Option<String>,
    /// The files and the root of the node, the largest first.
    pub sizes: Vec<Size>,
    /// What the node is made of, the largest first.
    pub components: Vec<Size>,
    /// What moved, came or went: binaries, kernel, what was not compiled, and packages between two
    /// releases.
    pub moved: Vec<Change<String>>,
    /// How much else differs, by what it is about: files, kernel options …
    pub others: BTreeMap<&'static str, usize>,
    /// The API servers, oldest first.
    pub skew: Vec<Skew>,
}

/// The size of something, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Size {
    /// What it is.
    pub name: String,
    /// Its version, if it has one.
    pub version: Option<String>,
    /// Its size; none if it is gone.
    pub now: Option<u64>,
    /// Its size in what is compared with; none if it was not there, or nothing is compared.
    pub before: Option<u64>,
}

/// One API server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Skew {
    /// Its minor.
    pub api_server: String,
    /// Why the node cannot join it; nothing if it can.
    pub obstacle: Option<String>,
    /// Until when it and the kubelet are supported, where that is known.
    pub until: Option<String>,
    /// Whether they are today.
    pub supported: bool,
}

impl Summary {
    /// Reads an image, and what it is compared with: anything that [`diff::diff`] takes.
    ///
    /// # Errors
    /// One of both cannot be read.
    pub fn new(image: &Path, against: Option<&Path>, skew: Vec<Row>) -> Result<Self> {
        let now = inspect(image)?;
        let before = against.map(diff::inspect).transpose()?;
        let difference = against.map(|path| diff::diff(path, image)).transpose()?;
        let (moved, others) = difference
            .map(|difference| (moved(&difference), others(&difference)))
            .unwrap_or_default();
        let components = table(
            &components(&now),
            before.as_ref().map(components).unwrap_or_default(),
            &versions(&now),
        );
        let sizes =
            table(&sizes(&now), before.as_ref().map(sizes).unwrap_or_default(), &BTreeMap::new());
        Ok(Summary {
            recipe: now.root.recipe.clone(),
            architecture: now.root.architecture.clone(),
            against: against.map(|path| {
                path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
            }),
            sizes,
            components,
            moved,
            others,
            skew: skew.into_iter().map(Skew::from).collect(),
        })
    }
}

impl From<Row> for Skew {
    fn from(row: Row) -> Self {
        let until = row.until.map(|date| date.to_string());
        Skew {
            api_server: row.api_server.to_string(),
            obstacle: row.obstacle,
            until,
            supported: row.supported,
        }
    }
}

type Sizes = BTreeMap<String, u64>;

/// The files that a build leaves.
fn sizes(found: &Inspection) -> Sizes {
    let image = found.disk.is_some().then(|| ("image".to_owned(), found.size));
    let uki = found.uki.as_ref().map(|uki| ("UKI".to_owned(), uki.size));
    let initramfs = Some(("initramfs".to_owned(), found.initramfs.size));
    let files = Some((
        "files in the root, unpacked".to_owned(),
        found.root.files.iter().map(|file| file.size).sum(),
    ));
    [image, uki, initramfs, files].into_iter().flatten().collect()
}

/// What each component adds to the image, compressed as it is there.
fn components(found: &Inspection) -> Sizes {
    let layers =
        found.initramfs.layers.iter().map(|layer| (layer.component().to_owned(), layer.size));
    let sections = found.uki.iter().flat_map(|uki| &uki.sections);
    let kernel = sections
        .filter(|section| section.name == ".linux")
        .map(|section| ("linux".to_owned(), section.size));
    let boot = found.disk.iter().map(|disk| ("slotboot".to_owned(), disk.boot.size));
    layers.chain(kernel).chain(boot).collect()
}

/// The version of each component that has one.
fn versions(found: &Inspection) -> BTreeMap<String, String> {
    let binaries =
        found.root.binaries.iter().map(|binary| (binary.component.clone(), binary.version.clone()));
    binaries.chain([("linux".to_owned(), found.root.kernel.clone())]).collect()
}

/// Each name of both, the largest first. What the other file has not because of its kind, such as a
/// release that is a UKI, is not said to be gone or new.
fn table(now: &Sizes, before: Sizes, versions: &BTreeMap<String, String>) -> Vec<Size> {
    let names: BTreeSet<&String> = now.keys().chain(before.keys()).collect();
    let size = |name: &String| Size {
        name: name.clone(),
        version: versions.get(name).cloned(),
        now: now.get(name).copied(),
        before: before.get(name).copied(),
    };
    let mut sizes: Vec<Size> = names.into_iter().map(size).collect();
    // What has one size stays in the order of the names.
    sizes.sort_by_key(|size| Reverse(size.now.max(size.before)));
    sizes
}

fn moved(difference: &Difference) -> Vec<Change<String>> {
    [&difference.versions, &difference.packages].into_iter().flatten().cloned().collect()
}

fn others(difference: &Difference) -> BTreeMap<&'static str, usize> {
    let words = &difference.command_line;
    let all = [
        ("files", difference.files.len()),
        ("kernel options", difference.kernel_options.len()),
        ("partitions", difference.partitions.len()),
        ("pods", difference.pods.len()),
        ("words of the command line", words.added.len() + words.removed.len()),
    ];
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}
