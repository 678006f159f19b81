//! A release in the folder of a TUF repository: its UKI, slotboot and SBOM. Only `osbuild verify`
//! checks its signatures.

use crate::engine::fs_error::IoContext;
use crate::error::{Context, Error, Result};
use osbuild_release::{Channel, Document, target};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The suffix of the name of a release's UKI.
const UKI: &str = "_node.efi";
/// The suffix of the name of its slotboot.
const BOOT: &str = "_boot.efi";
/// The suffix of the name of its SBOM.
const SBOM: &str = "_sbom.spdx.json";

/// A release.
pub(super) struct Release {
    /// Its UKI.
    pub uki: PathBuf,
    /// Its slotboot.
    pub boot: PathBuf,
    sbom: PathBuf,
}

/// The targets metadata of a repository (TUF 1.0, 4.5).
#[derive(Deserialize)]
struct Metadata {
    signed: Signed,
}

#[derive(Deserialize)]
struct Signed {
    targets: BTreeMap<String, Target>,
}

#[derive(Deserialize)]
struct Target {
    hashes: BTreeMap<String, String>,
}

impl Release {
    /// Finds the release that `path` names: a folder with one release, `FOLDER@VERSION`, or
    /// `FOLDER@RECIPE_VERSION`. `None` if there is no repository.
    pub fn find(path: &Path) -> Result<Option<Self>> {
        if is_repository(path) {
            return Release::of(path, None).map(Some);
        }
        let parts = path.to_str().and_then(|text| text.rsplit_once('@'));
        match parts.filter(|(folder, _)| is_repository(Path::new(folder))) {
            Some((folder, name)) => Release::of(Path::new(folder), Some(name)).map(Some),
            None => Ok(None),
        }
    }

    fn of(folder: &Path, requested: Option<&str>) -> Result<Self> {
        let targets = targets(folder)?;
        // `RECIPE_VERSION_node.efi`: no part has an underscore.
        let releases: Vec<&str> =
            targets.keys().filter_map(|name| name.strip_suffix(UKI)).collect();
        let is_requested = |name: &&&str| {
            let version = name.split_once('_').map(|(_, version)| version);
            requested.is_none_or(|requested| requested == **name || Some(requested) == version)
        };
        let requested: Vec<&&str> = releases.iter().filter(is_requested).collect();
        let [name] = requested[..] else {
            let shown = folder.display();
            let error =
                Error::usage(format!("{} releases in `{shown}` match, not one", requested.len()));
            let hint = releases.last().map(|name| format!("name one of them: `{shown}@{name}`"));
            return Err(hint
                .into_iter()
                .fold(error.cause(format!("it has {}", releases.join(", "))), Error::hint));
        };
        let file = |end: &str| -> Result<PathBuf> {
            let name = format!("{name}{end}");
            path(folder, &targets, &name)
                .ok_or_else(|| Error::usage(format!("`{}` has no `{name}`", folder.display())))
        };
        Ok(Release { uki: file(UKI)?, boot: file(BOOT)?, sbom: file(SBOM)? })
    }

    /// The versions of each package in the SBOM, by its package URL without the version, or by its
    /// name if it has no URL.
    pub fn packages(&self) -> Result<BTreeMap<String, String>> {
        let document: Value = json(&self.sbom)?;
        let mut packages: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for package in document["packages"].as_array().into_iter().flatten() {
            let url = package["externalRefs"][0]["referenceLocator"].as_str();
            // The version and its qualifiers follow the last `@` (purl specification).
            let name = url
                .and_then(|url| url.rsplit_once('@'))
                .map(|(name, _)| name)
                .or(package["name"].as_str());
            let version = package["versionInfo"].as_str().unwrap_or_default();
            packages
                .entry(name.unwrap_or_default().to_owned())
                .or_default()
                .insert(version.to_owned());
        }
        Ok(packages
            .into_iter()
            .map(|(name, versions)| (name, Vec::from_iter(versions).join(", ")))
            .collect())
    }
}

/// The name of a recipe's last release in a repository, as [`Release::find`] accepts it: the
/// release of the channel `candidate`, or else of `stable`. `None` if the recipe has no release
/// there.
///
/// # Errors
/// The repository cannot be read.
pub fn last_release(folder: &Path, recipe: &str) -> Result<Option<PathBuf>> {
    let targets = targets(folder)?;
    let documents =
        [Channel::Candidate, Channel::Stable].map(|channel| target::document(channel, recipe));
    let Some(path) = documents.iter().find_map(|name| path(folder, &targets, name)) else {
        return Ok(None);
    };
    let document = Document::parse(&fs::read(&path).at("read", &path)?)
        .or_build(|| format!("`{}` is not a release document", path.display()))?;
    let (folder, version) = (folder.display(), document.version);
    Ok(Some(PathBuf::from(format!("{folder}@{recipe}_{version}"))))
}

/// Whether a folder is a TUF repository.
pub fn is_repository(folder: &Path) -> bool {
    folder.join("metadata").is_dir()
}

/// The targets in the newest metadata.
fn targets(folder: &Path) -> Result<BTreeMap<String, Target>> {
    let metadata = folder.join("metadata");
    let version = |path: &PathBuf| {
        path.file_name()?.to_str()?.strip_suffix(".targets.json")?.parse::<u64>().ok()
    };
    let files = fs::read_dir(&metadata).at("read", &metadata)?.flatten().map(|entry| entry.path());
    let newest = files.filter(|path| version(path).is_some()).max_by_key(version);
    let newest = newest
        .ok_or_else(|| Error::usage(format!("`{}` has no `N.targets.json`", metadata.display())))?;
    json::<Metadata>(&newest).map(|metadata| metadata.signed.targets)
}

/// The path of a target; `None` if the repository has none of this name.
fn path(folder: &Path, targets: &BTreeMap<String, Target>, name: &str) -> Option<PathBuf> {
    let digest = targets.get(name)?.hashes.get("sha256")?;
    Some(folder.join("targets").join(format!("{digest}.{name}")))
}

fn json<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T> {
    let bytes = fs::read(path).at("read", path)?;
    serde_json::from_slice(&bytes).or_build(|| format!("cannot read `{}`", path.display()))
}
