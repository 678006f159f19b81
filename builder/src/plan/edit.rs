//! Changes of a recipe's text that keep everything else in it as somebody wrote it.

use super::print::quote;
use super::project::Project;
use super::resolve::RECIPES;
use super::{BinaryName, Version};
use crate::error::{Error, Kind, Result};
use std::collections::BTreeMap;

/// The files of a recipe, by path, with the version of `component` set in each place where the recipe or one that it inherits from
/// names it. Nothing comes back for a component whose version stands nowhere, or stands there already.
///
/// # Errors
/// The recipe cannot be read.
pub fn set_version(project: &Project, recipe: &str, component: &str, version: Version) -> Result<BTreeMap<String, String>> {
    let mut problems = Vec::new();
    let document = RECIPES.read(project, recipe, &mut problems);
    let document = match document {
        Some(document) if problems.is_empty() => document,
        Some(_) => return Err(Error::many(Kind::Usage, problems)),
        None => return Err(Error::many(Kind::Usage, vec![RECIPES.absent(project, recipe)])),
    };
    let places = BinaryName::ALL.into_iter().filter_map(|name| {
        let binary = document.get("binaries")?.get(name.file_name())?;
        let written = binary.get("version")?;
        (binary.text_of("component")? == component && written.text()? != version.to_string()).then_some(&written.spot)
    });
    let mut places: Vec<_> = places.collect();
    // From the end of a file to its start, so that a change does not move the next one.
    places.sort_by_key(|spot| std::cmp::Reverse(spot.span().start));
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for spot in places {
        let text = files.entry(spot.file().to_owned()).or_insert_with(|| spot.text().to_owned());
        text.replace_range(spot.span(), &quote(&version.to_string()));
    }
    Ok(files)
}
