//! `osbuild summary`: a report on an image for a pull request. It shows sizes and versions,
//! compared with the last release, and the API servers that the node can join.

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
    /// The name of the file or release that it is compared with, if any.
    pub against: Option<String>,
    /// The files and the root of the node, the largest first.
    pub sizes: Vec<Size>,
    /// The components of the node, the largest first.
    pub components: Vec<Size>,
    /// Changed, added and removed versions: binaries, kernel, prebuilt components, and the packages
    /// of two releases.
    pub moved: Vec<Change<String>>,
    /// The number of other differences by category: files, kernel options …
    pub others: BTreeMap<&'static str, usize>,
    /// The API servers, oldest first.
    pub skew: Vec<Skew>,
}

/// A size in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Size {
    /// The name of the file or component.
    pub name: String,
    /// Its version, if it has one.
    pub version: Option<String>,
    /// Its size; `None` if it was removed.
    pub now: Option<u64>,
    /// Its size in the compared file; `None` if it is new, or if there is no comparison.
    pub before: Option<u64>,
}

/// One API server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Skew {
    /// Its minor.
    pub api_server: String,
    /// Why the node cannot join it; `None` if it can.
    pub obstacle: Option<String>,
    /// The last day on which both it and the kubelet are supported, if known.
    pub until: Option<String>,
    /// Whether both are supported today.
    pub supported: bool,
}

impl Summary {
    /// Reads an image and compares it with `against`: any path that [`diff::diff`] accepts.
    ///
    /// # Errors
    /// One of them cannot be read.
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

/// The sizes of the files of a build.
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

/// The compressed size of each component in the image.
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

/// Joins the sizes of both by name, the largest first.
fn table(now: &Sizes, before: Sizes, versions: &BTreeMap<String, String>) -> Vec<Size> {
    let names: BTreeSet<&String> = now.keys().chain(before.keys()).collect();
    let size = |name: &String| Size {
        name: name.clone(),
        version: versions.get(name).cloned(),
        now: now.get(name).copied(),
        before: before.get(name).copied(),
    };
    let mut sizes: Vec<Size> = names.into_iter().map(size).collect();
    // Entries of equal size stay sorted by name.
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
