//! Decides which releases of a recipe stay in a repository.

use crate::error::{Context, Result};
use crate::ship::tuf::Client;
use osbuild_release::{Channel, Document, target};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// The versions of the releases that are neither among the newest `keep` nor in `current`. Releases
/// are ordered by day, then by version.
fn outdated(mut releases: Vec<Document>, keep: usize, current: &BTreeSet<String>) -> Vec<String> {
    releases.sort_by(|a, b| b.date.cmp(&a.date).then_with(|| by_number(&b.version, &a.version)));
    let old = releases.into_iter().skip(keep).map(|document| document.version);
    old.filter(|version| !current.contains(version)).collect()
}

/// Compares two versions, with numbers by value: `1.35.8` < `1.35.8-2` < `1.35.8-10`.
fn by_number(a: &str, b: &str) -> Ordering {
    parts(a).cmp(&parts(b))
}

/// The parts of a version: text, or a number without leading zeros, preceded by its length.
fn parts(version: &str) -> Vec<(bool, usize, &str)> {
    let mut parts = Vec::new();
    let mut rest = version;
    while let Some(first) = rest.chars().next() {
        let is_number = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != is_number).unwrap_or(rest.len());
        let part = if is_number { rest[..end].trim_start_matches('0') } else { &rest[..end] };
        parts.push((is_number, if is_number { part.len() } else { 0 }, part));
        rest = &rest[end..];
    }
    parts
}

/// The versions of a recipe to remove from a repository once `channel` has the release `now`: all
/// but the newest `keep` and those in a channel.
///
/// # Errors
/// The document of a release is damaged.
pub(super) fn versions_to_drop(
    client: &Client,
    recipe: &str,
    keep: usize,
    now: &Document,
    channel: Channel,
) -> Result<Vec<String>> {
    let read = |name: &str| {
        let bytes = client.read(name)?;
        Document::parse(&bytes).or_build(|| format!("`{name}` is not a release document"))
    };
    let (mut releases, mut current) = (vec![now.clone()], BTreeSet::from([now.version.clone()]));
    for other in Channel::ALL.into_iter().filter(|other| *other != channel) {
        let name = target::document(other, recipe);
        if client.targets().contains_key(&name) {
            current.insert(read(&name)?.version);
        }
    }
    for version in versions(client, recipe).iter().filter(|version| **version != now.version) {
        releases.push(read(&target::file(recipe, version, target::DOCUMENT))?);
    }
    Ok(outdated(releases, keep, &current))
}

/// The released versions of a recipe.
pub(super) fn versions(client: &Client, recipe: &str) -> Vec<String> {
    let version = |name: &String| {
        Some(
            name.strip_prefix(recipe)?
                .strip_prefix('_')?
                .strip_suffix(target::DOCUMENT)?
                .strip_suffix('_')?
                .to_owned(),
        )
    };
    client.targets().keys().filter_map(version).collect()
}

/// The names of all targets of these versions of a recipe.
pub(super) fn targets_of(client: &Client, recipe: &str, versions: &[String]) -> BTreeSet<String> {
    let prefixes: Vec<String> =
        versions.iter().map(|version| target::file(recipe, version, "")).collect();
    client
        .targets()
        .into_keys()
        .filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_release::{Architecture, File, Sha256};

    fn release(version: &str, date: &str) -> Document {
        let file = File { length: 1, sha256: Sha256([0; 32]) };
        let files = [target::NODE, target::BOOT].map(|name| (name.to_owned(), file)).into();
        Document::new("small", version, Architecture::Amd64, 0, date, files).unwrap()
    }

    fn dropped(keep: usize, current: &[&str]) -> Vec<String> {
        let releases = [
            ("1.35.8-10", "2026-11-21"),
            ("1.35.8", "2026-11-21"),
            ("1.35.8-2", "2026-11-21"),
            ("1.34.9", "2026-11-22"),
        ];
        let releases = releases.map(|(version, date)| release(version, date));
        outdated(
            releases.into(),
            keep,
            &current.iter().map(|version| (*version).to_owned()).collect(),
        )
    }

    #[test]
    fn the_newest_releases_stay_by_day_and_then_by_version() {
        assert_eq!(dropped(1, &[]), ["1.35.8-10", "1.35.8-2", "1.35.8"]);
        assert_eq!(dropped(3, &[]), ["1.35.8"]);
        assert!(dropped(4, &[]).is_empty() && dropped(100, &[]).is_empty());
    }

    #[test]
    fn a_release_in_a_channel_stays_however_old_it_is() {
        assert_eq!(dropped(1, &["1.35.8"]), ["1.35.8-10", "1.35.8-2"]);
    }
}
