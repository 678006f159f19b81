//! Changes of a recipe's text that leave everything else in it as it was written.

use super::{compiled, payloads, read};
use crate::error::{Error, Kind, Result};
use crate::plan::document::{Located, Origin, Spot};
use crate::plan::keys::RecipeFile;
use crate::plan::print::quote;
use crate::plan::resolve::components::Components;
use crate::plan::{Project, Version};
use std::collections::BTreeMap;

/// The files of a recipe, by path, with the version of `component` set wherever the recipe or one
/// that it inherits from names it. The result is empty for a component whose version is named
/// nowhere, or is already this one.
///
/// # Errors
/// The recipe cannot be read.
pub fn set_version(
    project: &Project,
    recipe: &str,
    component: &str,
    version: Version,
) -> Result<BTreeMap<String, String>> {
    let places = places(project, recipe, component)?;
    Ok(rewrite(places.iter().map(|(_, version)| version).collect(), version))
}

/// The lines on which the recipe, or one that it inherits from, names a version of `component`,
/// each with its section.
///
/// # Errors
/// The recipe cannot be read.
pub fn version_lines(
    project: &Project,
    recipe: &str,
    component: &str,
) -> Result<Vec<(Origin, &'static str)>> {
    let places = places(project, recipe, component)?.into_iter();
    Ok(places.map(|(section, version)| (version.spot.origin(), section)).collect())
}

/// The versions of `component`, each with its section.
fn places(
    project: &Project,
    recipe: &str,
    component: &str,
) -> Result<Vec<(&'static str, Located<Version>)>> {
    let document = read(project, recipe)?;
    let mut problems = Vec::new();
    let carried = payloads(&document, &mut Components::new(project), &mut problems);
    if !problems.is_empty() {
        return Err(Error::many(Kind::Usage, problems));
    }
    let compiled = compiled(&document).filter(|entry| &*entry.component.value == component);
    let compiled = compiled.filter_map(|entry| Some((entry.section, entry.version?.clone())));
    let carried = carried.into_iter().filter(|(name, _)| name == component);
    let carried = carried.map(|(_, version)| (key!(RecipeFile.pods), version));
    Ok(compiled.chain(carried).collect())
}

/// The files of a recipe, by path, with the version of the Go toolchain set where the recipe or one
/// that it inherits from names it. The result is empty if it is already this one.
///
/// # Errors
/// The recipe cannot be read.
pub fn set_go_toolchain(
    project: &Project,
    recipe: &str,
    version: Version,
) -> Result<BTreeMap<String, String>> {
    let document = read(project, recipe)?;
    let toolchains = document.toolchains.as_ref();
    Ok(rewrite(toolchains.and_then(|found| found.go.as_ref()).into_iter().collect(), version))
}

fn rewrite(mut places: Vec<&Located<Version>>, version: Version) -> BTreeMap<String, String> {
    places.retain(|place| place.value != version);
    let mut spots: Vec<&Spot> = places.into_iter().map(|place| &place.spot).collect();
    // From the end of each file to its start, so that a change does not move the next one.
    spots.sort_by_key(|spot| std::cmp::Reverse(spot.span().start));
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for spot in spots {
        let text = files.entry(spot.file().to_owned()).or_insert_with(|| spot.text().to_owned());
        text.replace_range(spot.span(), &quote(&version.to_string()));
    }
    files
}
