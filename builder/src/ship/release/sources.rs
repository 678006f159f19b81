//! `sources.txt`: every locked input and every image of a pod that the recipe pins, one a line: its
//! SHA-256, its ecosystem, and what people call it.

use crate::error::{Error, Result};
use crate::plan::{Crate, Lock, Source, crates_digest};
use std::fmt::Write;

/// The list of these sources.
pub(super) fn list(sources: &[Source]) -> String {
    let mut text = String::new();
    for source in sources {
        writeln!(text, "{} {} {}", source.digest, source.kind.word(), source.name)
            .expect("a string takes every write");
    }
    text
}

/// The sources that a list and the lock beside it speak of.
///
/// # Errors
/// They speak of different ones (`Kind::Digest`).
pub fn read(text: &str, lock: &Lock) -> Result<Vec<Source>> {
    let mut crates: Vec<Crate> = text.lines().filter_map(krate).collect();
    crates.sort();
    if crates_digest(&crates) != lock.crates.digest {
        return Err(Error::digest("the list of sources has other crates than the lock"));
    }
    let mut sources = lock.sources(&crates);
    sources.extend(text.lines().filter_map(pod_image));
    sources.sort();
    match list(&sources) == text {
        true => Ok(sources),
        false => Err(Error::digest("the list of sources is not that of the lock")),
    }
}

/// A line with the image of a pod. The lock does not have it: the recipe pins it.
fn pod_image(line: &str) -> Option<Source> {
    let (sha256, name) = line.split_once(" pod-image image ")?;
    Some(Source::pod_image(name, sha256))
}

/// A line with a crate.
fn krate(line: &str) -> Option<Crate> {
    let (sha256, rest) = line.split_once(" crate crate ")?;
    let (name, version) = rest.split_once(' ')?;
    Some(Crate { name: name.to_owned(), version: version.to_owned(), sha256: sha256.to_owned() })
}
