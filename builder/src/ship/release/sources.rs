//! `sources.txt`: every locked input and every pinned pod image, one per line: SHA-256, ecosystem
//! and name.

use crate::error::{Error, Result};
use crate::plan::{Crate, Lock, Source, crates_digest};
use std::fmt::Write;

/// Writes the list of sources.
pub(super) fn list(sources: &[Source]) -> String {
    let mut text = String::new();
    for source in sources {
        writeln!(text, "{} {} {}", source.digest, source.kind.word(), source.name)
            .expect("a string accepts every write");
    }
    text
}

/// Reads the list of sources, which must match the lock.
///
/// # Errors
/// It does not match (`Kind::Digest`).
pub fn read(text: &str, lock: &Lock) -> Result<Vec<Source>> {
    let mut crates: Vec<Crate> = text.lines().filter_map(krate).collect();
    crates.sort();
    if crates_digest(&crates) != lock.crates.digest {
        return Err(Error::digest("the list of sources has different crates from the lock"));
    }
    let mut sources = lock.sources(&crates);
    sources.extend(text.lines().filter_map(pod_image));
    sources.sort();
    match list(&sources) == text {
        true => Ok(sources),
        false => Err(Error::digest("the list of sources does not match the lock")),
    }
}

/// Reads a line with the image of a pod, which the recipe pins, not the lock.
fn pod_image(line: &str) -> Option<Source> {
    let (sha256, name) = line.split_once(" pod-image image ")?;
    Some(Source::pod_image(name, sha256))
}

/// Reads a line with a crate.
fn krate(line: &str) -> Option<Crate> {
    let (sha256, rest) = line.split_once(" crate crate ")?;
    let (name, version) = rest.split_once(' ')?;
    Some(Crate { name: name.to_owned(), version: version.to_owned(), sha256: sha256.to_owned() })
}
