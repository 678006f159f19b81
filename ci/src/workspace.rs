//! The packages of this workspace, from cargo's metadata.

use crate::site::Site;
use osbuild::error::{Context, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A package of the workspace.
pub struct Member {
    /// Its name.
    pub name: String,
    /// The folder of its `Cargo.toml`.
    pub folder: PathBuf,
    /// Whether it has a program.
    pub has_program: bool,
}

/// All packages.
pub fn members(site: &Site) -> Result<Vec<Member>> {
    let mut cargo = site.cargo()?;
    cargo.args(["metadata", "--quiet", "--format-version", "1", "--no-deps", "--locked"]);
    let metadata: Value = serde_json::from_str(&site.finish("metadata", &mut cargo)?.output)
        .or_build(|| "cannot read cargo's metadata".to_owned())?;
    Ok(metadata["packages"].as_array().into_iter().flatten().filter_map(member).collect())
}

fn member(package: &Value) -> Option<Member> {
    let name = package["name"].as_str()?.to_owned();
    let folder = Path::new(package["manifest_path"].as_str()?).parent()?.to_owned();
    let mut targets = package["targets"].as_array().into_iter().flatten();
    Some(Member { name, folder, has_program: targets.any(|target| target["kind"][0] == "bin") })
}
