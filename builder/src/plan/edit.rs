//! Changes of a recipe's text that keep everything else in it as somebody wrote it.

use super::Version;
use super::component::{Components, Place};
use super::document::Node;
use super::print::quote;
use super::project::Project;
use super::resolve::{RECIPES, makes_programs};
use super::upstream::payloads;
use crate::error::{Error, Kind, Result};
use std::collections::BTreeMap;

/// The files of a recipe, by path, with the version of `component` set in each place where the
/// recipe or one that it inherits from names it. Nothing comes back for a component whose version
/// stands nowhere, or stands there already.
///
/// # Errors
/// The recipe cannot be read.
pub fn set_version(
    project: &Project,
    recipe: &str,
    component: &str,
    version: Version,
) -> Result<BTreeMap<String, String>> {
    let document = read(project, recipe)?;
    let asked =
        compiled(&document).filter(|(_, _, asked)| asked.text_of("component") == Some(component));
    let places = asked.filter_map(|(_, _, asked)| asked.get("version"));
    let mut problems = Vec::new();
    let carried = payloads(&document, &mut Components::new(project), &mut problems);
    if !problems.is_empty() {
        return Err(Error::many(Kind::Usage, problems));
    }
    let carried =
        carried.iter().filter(|(carried, _)| carried == component).map(|(_, version)| version);
    Ok(rewrite(places.chain(carried).collect(), version))
}

/// The files of a recipe, by path, with the version of the Go toolchain set where the recipe or one
/// that it inherits from names it. Nothing comes back when it stands there already.
///
/// # Errors
/// The recipe cannot be read.
pub fn set_go_toolchain(
    project: &Project,
    recipe: &str,
    version: Version,
) -> Result<BTreeMap<String, String>> {
    let document = read(project, recipe)?;
    Ok(rewrite(
        document
            .get("toolchains")
            .and_then(|toolchains| toolchains.get("go"))
            .into_iter()
            .collect(),
        version,
    ))
}

/// What a recipe compiles of components, by file name: a node's binaries, or programs for the
/// machine that builds.
pub(super) fn compiled(document: &Node) -> impl Iterator<Item = (Place, &str, &Node)> {
    let of = |section, place| {
        document.entries_of(section).map(move |(name, entry)| (place, name.as_str(), &entry.node))
    };
    of("binaries", Place::Host).chain(of("programs", Place::Lab))
}

/// A recipe with all that it inherits.
pub(super) fn read(project: &Project, recipe: &str) -> Result<Node> {
    let mut problems = Vec::new();
    let document = match makes_programs(project, recipe) {
        true => RECIPES.read_part(project, recipe, &mut problems).map(|(document, _)| document),
        false => RECIPES.read(project, recipe, &mut problems),
    };
    match document {
        Some(document) if problems.is_empty() => Ok(document),
        Some(_) => Err(Error::many(Kind::Usage, problems)),
        None => Err(Error::many(Kind::Usage, vec![RECIPES.absent(project, recipe)])),
    }
}

fn rewrite(mut places: Vec<&Node>, version: Version) -> BTreeMap<String, String> {
    let version = version.to_string();
    places.retain(|place| place.text() != Some(&version));
    // From the end of a file to its start, so that a change does not move the next one.
    places.sort_by_key(|place| std::cmp::Reverse(place.spot.span().start));
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for Node { spot, .. } in places {
        let text = files.entry(spot.file().to_owned()).or_insert_with(|| spot.text().to_owned());
        text.replace_range(spot.span(), &quote(&version));
    }
    files
}
