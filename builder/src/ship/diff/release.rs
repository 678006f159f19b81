//! A release in the folder of a TUF repository, as far as it is compared: its UKI and its SBOM. Whether it may be believed is what
//! `osbuild verify` says.

use crate::error::{Context, Error, Result};
use crate::produce::disk::OnDisk;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What ends the name of a release's UKI.
const UKI: &str = "_node.efi";
/// What ends the name of its SBOM.
const SBOM: &str = "_sbom.spdx.json";

/// A release.
pub(super) struct Release {
    /// Its UKI.
    pub uki: PathBuf,
    sbom: PathBuf,
}

/// The metadata of a repository that speak of its files (TUF 1.0, 4.5).
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
    /// The release that somebody calls `path`: a folder with one release, or `FOLDER@VERSION`. None if no repository is there.
    pub fn find(path: &Path) -> Result<Option<Self>> {
        if path.join("metadata").is_dir() {
            return Release::of(path, None).map(Some);
        }
        let parts = path.to_str().and_then(|text| text.rsplit_once('@'));
        match parts.filter(|(folder, _)| Path::new(folder).join("metadata").is_dir()) {
            Some((folder, version)) => Release::of(Path::new(folder), Some(version)).map(Some),
            None => Ok(None),
        }
    }

    fn of(folder: &Path, version: Option<&str>) -> Result<Self> {
        let targets = targets(folder)?;
        // `RECIPE_VERSION_node.efi`: no part has an underscore.
        let releases: Vec<(&str, &str)> = targets.keys().filter_map(|name| name.strip_suffix(UKI)?.split_once('_')).collect();
        let wanted: Vec<_> = releases.iter().filter(|(_, its)| version.is_none_or(|version| version == *its)).collect();
        let [(recipe, version)] = wanted[..] else {
            let shown = folder.display();
            let all = releases.iter().map(|(recipe, version)| format!("{version} of {recipe}")).collect::<Vec<_>>().join(", ");
            let error = Error::usage(format!("`{shown}` has {} such releases, not one", wanted.len()));
            return Err(error.cause(format!("it has {all}")).hint(format!("name the version: `{shown}@VERSION`")));
        };
        let file = |end: &str| -> Result<PathBuf> {
            let name = format!("{recipe}_{version}{end}");
            let digest = targets.get(&name).and_then(|target| target.hashes.get("sha256"));
            let digest = digest.ok_or_else(|| Error::usage(format!("`{}` has no `{name}`", folder.display())))?;
            Ok(folder.join("targets").join(format!("{digest}.{name}")))
        };
        Ok(Release { uki: file(UKI)?, sbom: file(SBOM)? })
    }

    /// The packages of its SBOM: the versions of each, by its package URL without the version, or by its name if it has none.
    pub fn packages(&self) -> Result<BTreeMap<String, String>> {
        let document: Value = json(&self.sbom)?;
        let mut packages: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for package in document["packages"].as_array().into_iter().flatten() {
            let url = package["externalRefs"][0]["referenceLocator"].as_str();
            // The version and what qualifies it stand behind the last `@` (purl specification).
            let name = url.and_then(|url| url.rsplit_once('@')).map(|(name, _)| name).or(package["name"].as_str());
            let version = package["versionInfo"].as_str().unwrap_or_default();
            packages.entry(name.unwrap_or_default().to_owned()).or_default().insert(version.to_owned());
        }
        Ok(packages.into_iter().map(|(name, versions)| (name, Vec::from_iter(versions).join(", "))).collect())
    }
}

/// The files that the newest metadata speak of.
fn targets(folder: &Path) -> Result<BTreeMap<String, Target>> {
    let metadata = folder.join("metadata");
    let version = |path: &PathBuf| path.file_name()?.to_str()?.strip_suffix(".targets.json")?.parse::<u64>().ok();
    let files = fs::read_dir(&metadata).at("read", &metadata)?.flatten().map(|entry| entry.path());
    let newest = files.filter(|path| version(path).is_some()).max_by_key(version);
    let newest = newest.ok_or_else(|| Error::usage(format!("`{}` has no `N.targets.json`", metadata.display())))?;
    json::<Metadata>(&newest).map(|metadata| metadata.signed.targets)
}

fn json<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T> {
    let bytes = fs::read(path).at("read", path)?;
    serde_json::from_slice(&bytes).or_build(|| format!("cannot read `{}`", path.display()))
}
