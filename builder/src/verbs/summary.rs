//! `osbuild summary`.

use super::Session;
use crate::error::{Error, Result};
use crate::plan::{Strictness, resolve};
use crate::produce::out::{IMAGE, Out};
use crate::ship::audit::diff::{is_repository, last_release};
use crate::ship::audit::summary::Summary;
use std::path::PathBuf;

/// The folder of releases beside an image.
const RELEASE: &str = "release";

/// Reads what the last build has left, and what it is compared with, and writes the report to
/// stdout.
pub fn run(session: &Session, recipe: &str, against: Option<PathBuf>) -> Result<()> {
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
        session
            .report
            .note("there is nothing to compare with: name a release with `--against FOLDER`");
    }
    let summary = Summary::new(&image, before.as_deref(), session.skew(&plan)?)?;
    session.report.data(if session.common.json {
        serde_json::to_string_pretty(&summary).expect("a summary always serializes")
    } else {
        summary.to_string().trim_end().to_owned()
    });
    Ok(())
}

/// The recipe's last release, where a folder of releases is named. A folder without any file, but
/// those that are hidden as git's are, is as good as nothing: each recipe is new once.
fn last(path: PathBuf, recipe: &str) -> Result<Option<PathBuf>> {
    if is_repository(&path) {
        return last_release(&path, recipe);
    }
    let is_shown = |file: std::fs::DirEntry| !file.file_name().as_encoded_bytes().starts_with(b".");
    match std::fs::read_dir(&path).map(|files| files.flatten().any(is_shown)) {
        Ok(true) => Err(Error::usage(format!("`{}` is not a folder of releases", path.display()))
            .hint("`cargo osbuild release RECIPE --to FOLDER` writes one")),
        Ok(false) => Ok(None),
        Err(_) => Ok(Some(path)),
    }
}
