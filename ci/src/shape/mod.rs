//! The shape of the code as checks: sizes, layers, words, and the tests that texts cite.

mod claims;
mod code;
mod layers;
mod maps;
mod size;
mod words;

use crate::check::Outcome;
use crate::site::Site;
use code::Source;
use osbuild::error::{Context, Result};
use std::collections::BTreeSet;
use std::fs;

/// Limits on the lengths of functions, files and lines.
pub fn size(site: &Site) -> Result<Outcome> {
    let sources = sources(site)?;
    Ok(Outcome::of(
        sources.iter().flat_map(size::problems).collect(),
        format!("{} files", sources.len()),
    ))
}

/// Each module uses only the layers below it, and each right has one owner.
pub fn layers(site: &Site) -> Result<Outcome> {
    let mut problems: Vec<_> = sources(site)?.iter().flat_map(layers::problems).collect();
    for (file, text) in texts(site, ".toml")? {
        problems.extend(layers::crate_problems(&file, &text));
    }
    Ok(Outcome::of(problems, ""))
}

/// No replaced words, no marks of unfinished work, no empty words in names, no comments that begin
/// with a free clause, no path of a developer's machine, no host of a registry.
pub fn words(site: &Site) -> Result<Outcome> {
    let sources = sources(site)?;
    let mut problems: Vec<_> = sources.iter().flat_map(words::in_names).collect();
    problems.extend(sources.iter().flat_map(words::in_comments));
    problems.extend(sources.iter().filter_map(|source| words::in_path(&source.file)));
    for (file, text) in texts(site, "")? {
        problems.extend(words::in_text(&file, &text));
        problems.extend(words::replaced(&file, &text));
    }
    Ok(Outcome::of(problems, ""))
}

/// Each check that a text cites exists, and so does each test whose name has four words or more. A
/// check is cited by `vm: NAME`, or after the words "the check".
pub fn claims(site: &Site) -> Result<Outcome> {
    let checks = crate::names().chain(crate::vm::secure::claims());
    let mut known: BTreeSet<String> = checks.map(str::to_owned).collect();
    known.extend(sources(site)?.iter().flat_map(|source| claims::tests(&source.code)));
    let texts = texts(site, ".md")?;
    Ok(Outcome::of(
        texts.iter().flat_map(|(file, text)| claims::problems(file, text, &known)).collect(),
        "",
    ))
}

/// Each map of a README names existing paths and every folder beside the README.
pub fn maps(site: &Site) -> Result<Outcome> {
    let files = site.files()?;
    let ignored = fs::read_to_string(site.root.join(".gitignore"))
        .or_build(|| "cannot read `.gitignore`".to_owned())?;
    let ignored = ignored.lines().map(|line| line.trim_matches('/').to_owned()).collect();
    let problems = texts(site, "README.md")?
        .iter()
        .flat_map(|(file, text)| maps::problems(file, text, &files, &ignored))
        .collect();
    Ok(Outcome::of(problems, ""))
}

fn sources(site: &Site) -> Result<Vec<Source>> {
    Ok(texts(site, ".rs")?.into_iter().map(|(file, text)| Source::new(file, text)).collect())
}

/// Git's files whose names end with `end`, and their texts. Files that are not UTF-8 are left out.
fn texts(site: &Site, end: &str) -> Result<Vec<(String, String)>> {
    let mut texts = Vec::new();
    for file in site.files()?.into_iter().filter(|file| file.ends_with(end)) {
        let bytes = fs::read(site.root.join(&file)).or_build(|| format!("cannot read `{file}`"))?;
        texts.extend(String::from_utf8(bytes).ok().map(|text| (file, text)));
    }
    Ok(texts)
}
