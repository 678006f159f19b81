//! `osbuild summary`

use super::{Session, not_releases};
use crate::cli;
use crate::error::{Error, Result};
use crate::plan::{Strictness, makes_programs, resolve};
use crate::produce::out::{IMAGE, Out};
use crate::ship::audit::diff::{is_repository, last_release};
use crate::ship::audit::summary::Summary;
use std::path::PathBuf;

/// The default folder of releases in `out/<recipe>/`.
const RELEASE: &str = "release";

/// `osbuild summary`: compares the last build of each recipe with a release, and prints reports.
pub fn run(session: &Session, recipes: &cli::Recipes, against: Option<PathBuf>) -> Result<()> {
    let (all, mut recipes) = (recipes.all, session.selected(recipes)?);
    if all {
        // Programs for the build machine have no image to report on.
        recipes.retain(|recipe| !makes_programs(&session.project, recipe));
    }
    let summaries = recipes.iter().map(|recipe| summary(session, recipe, against.clone()));
    let summaries = summaries.collect::<Result<Vec<_>>>()?;
    if session.common.json {
        let line = |one| serde_json::to_string(one).expect("a summary always serializes");
        summaries.iter().for_each(|one| session.report.data(line(one)));
    } else {
        let texts: Vec<_> =
            summaries.iter().map(|one| one.to_string().trim_end().to_owned()).collect();
        session.report.data(texts.join("\n\n"));
    }
    Ok(())
}

/// Compares the last build of a recipe with a release.
fn summary(session: &Session, recipe: &str, against: Option<PathBuf>) -> Result<Summary> {
    let plan = resolve(&session.project, recipe, session.today, Strictness::Build)?;
    let out = Out::open(session.root(), recipe)?;
    let image = out.path(IMAGE);
    if !image.is_file() {
        let error = Error::usage(format!("there is no image of `{recipe}` to report on"));
        return Err(error.hint(format!("build it: `cargo osbuild build {recipe}`")));
    }
    let release = Some(out.path(RELEASE)).filter(|folder| folder.is_dir());
    let before = against.or(release).map(|path| last(path, recipe)).transpose()?.flatten();
    if before.is_none() {
        session.report.note("no release to compare with: name one with `--against FOLDER`");
    }
    Summary::new(&image, before.as_deref(), session.skew(&plan)?)
}

/// Resolves a folder of releases to the recipe's last one. A folder without files, except hidden
/// ones such as git's, is valid for a new recipe, and gives `None`.
fn last(path: PathBuf, recipe: &str) -> Result<Option<PathBuf>> {
    if is_repository(&path) {
        return last_release(&path, recipe);
    }
    let is_shown = |file: std::fs::DirEntry| !file.file_name().as_encoded_bytes().starts_with(b".");
    match std::fs::read_dir(&path).map(|files| files.flatten().any(is_shown)) {
        Ok(true) => Err(not_releases(&path)),
        Ok(false) => Ok(None),
        Err(_) => Ok(Some(path)),
    }
}
