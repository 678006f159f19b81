//! Recipes that checks derive from the project's, in copies of the checkout.

use crate::site::Site;
use osbuild::error::{Context, Result};
use osbuild::plan::Lock;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Writes the recipe `name`, which inherits `base` and adds the text `more`, and locks it with the
/// lock of `base`.
pub fn inherit(site: &Site, project: &Path, name: &str, base: &str, more: &str) -> Result<()> {
    let mut osbuild = site.osbuild()?;
    osbuild.current_dir(project);
    inherit_with(site, osbuild, project, name, base, more)
}

/// Like [`inherit`], with the `osbuild` of another release.
pub fn inherit_with(
    site: &Site,
    mut osbuild: Command,
    project: &Path,
    name: &str,
    base: &str,
    more: &str,
) -> Result<()> {
    let lock = |recipe: &str| project.join(Lock::path(recipe));
    let (was, is) = (format!("recipe = \"{base}\""), format!("recipe = \"{name}\""));
    fs::write(
        project.join("recipes").join(format!("{name}.toml")),
        format!("inherit = \"{base}\"\n{more}"),
    )
    .and_then(|()| fs::read_to_string(lock(base)))
    .and_then(|text| fs::write(lock(name), text.replacen(&was, &is, 1)))
    .or_build(|| format!("cannot write recipe `{name}`"))?;
    let words = ["lock", name, "--offline", "--yes"];
    site.finish(&format!("{name}-lock"), osbuild.args(words)).map(drop)
}
