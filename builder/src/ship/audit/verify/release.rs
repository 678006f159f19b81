//! Checks the folder of a release: whether a node would trust it, and whether its documents are
//! consistent.

use super::contents::contents;
use super::{BOOT, CONTENTS, Check, Policy};
use crate::engine::digest::Digest;
use crate::error::{Error, Kind, Result};
use crate::plan::{Lock, Source};
use crate::produce::sign::ReleasePublicKey;
use crate::ship::audit::inspect::{self, Inspection, open};
use crate::ship::release::{dsse, provenance, sbom, sources};
use crate::ship::tuf::{Client, Repository, Root, Target};
use osbuild_formats::epoch;
use osbuild_formats::pe::Image;
use osbuild_release::{Channel, Document, target};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How to read a repository.
#[derive(Clone, Debug)]
pub struct Reader {
    /// The root of trust.
    pub root: Root,
    /// The channel to check; `None` for all of them.
    pub channel: Option<Channel>,
    /// Whether to read the files of every release, not only of those in the channels.
    pub all: bool,
    /// The folder that remembers the newest metadata seen, if any.
    pub memory: Option<PathBuf>,
}

/// Checks the repository in `folder`: its metadata, each target, and each channel's release.
pub(super) fn checks(folder: &Path, reader: &Reader, policy: &Policy) -> Result<Vec<Check>> {
    let client = match Repository::at(folder).read(&reader.root, reader.memory.as_deref()) {
        Ok(client) => client,
        Err(error) if error.kind == Kind::Digest => {
            return Ok(vec![Check::fails("metadata", in_one_line(&error))]);
        }
        Err(error) => return Err(error),
    };
    let times = client.times()?;
    let version = times.version;
    let mut checks = vec![Check::holds(
        "metadata",
        format!("signed by the keys of the root of trust, version {version}"),
    )];
    checks.push(match &times.until {
        (until, first) if *until < policy.day => {
            Check::fails("metadata dates", format!("{first} expired on {until}"))
        }
        (until, first) => {
            Check::holds("metadata dates", format!("valid until {until}, when {first} expires"))
        }
    });
    let documents = documents(&client, reader.channel);
    checks.push(targets(&client, &documents, reader.all));
    let keys = client.release_keys(&reader.root)?;
    if documents.is_empty() {
        checks.push(Check::fails("release", "the channel has no release".to_owned()));
    }
    for name in documents {
        checks.extend(release(&client, &name, &keys, policy)?);
    }
    Ok(checks)
}

/// Checks that every target exists. Only the targets of the current releases, in `documents`, are
/// read, so that the time does not grow with history; with `all`, every target is read.
fn targets(client: &Client, documents: &[String], all: bool) -> Check {
    let targets = client.targets();
    let offered: BTreeSet<String> =
        documents.iter().flat_map(|name| offered(client, name)).collect();
    let (read, seen): (Vec<_>, Vec<_>) =
        targets.iter().partition(|(name, _)| all || offered.contains(*name));
    let unlike = |(name, _): &(&String, &Target)| client.read(name).err();
    let absent = |(name, target): &(&String, &Target)| {
        let length = std::fs::metadata(client.path(name, target)).map(|about| about.len());
        let is_there = length.is_ok_and(|length| length == target.digest.size());
        (!is_there).then(|| {
            Error::digest(format!(
                "`{name}` is missing or has a different length from the \
            metadata"
            ))
        })
    };
    match read.iter().find_map(unlike).or_else(|| seen.iter().find_map(absent)) {
        Some(error) => Check::fails("targets", in_one_line(&error)),
        None if seen.is_empty() => {
            Check::holds("targets", format!("{} files match the metadata", read.len()))
        }
        None => Check::holds(
            "targets",
            format!(
                "{} files match the metadata; {} of older releases exist but were not read: \
                 `--all` reads them",
                read.len(),
                seen.len()
            ),
        ),
    }
}

/// The names of the targets of the release with this document.
fn offered(client: &Client, name: &str) -> Vec<String> {
    // The check of the release itself reports a document that cannot be read.
    let document = client.read(name).ok().and_then(|bytes| Document::parse(&bytes).ok());
    let files = document.into_iter().flat_map(|document| {
        let Document { recipe, version, files, .. } = document;
        let names = files.into_keys().chain([target::DOCUMENT.to_owned()]);
        names.map(move |file| target::file(&recipe, &version, &file)).collect::<Vec<_>>()
    });
    files.chain([name.to_owned()]).collect()
}

/// The documents of these channels.
fn documents(client: &Client, channel: Option<Channel>) -> Vec<String> {
    let channels =
        Channel::ALL.into_iter().filter(|one| channel.is_none_or(|channel| channel == *one));
    let prefixes: Vec<String> = channels.map(|channel| format!("{channel}_")).collect();
    let is_one = |name: &String| prefixes.iter().any(|prefix| name.starts_with(prefix));
    client.targets().into_keys().filter(is_one).collect()
}

/// Checks one release, starting from its document.
fn release(
    client: &Client,
    name: &str,
    keys: &[ReleasePublicKey],
    policy: &Policy,
) -> Result<Vec<Check>> {
    let document = match client.read(name).and_then(|bytes| {
        Document::parse(&bytes).map_err(|error| {
            Error::digest(format!("`{name}` is not a release document")).cause(error)
        })
    }) {
        Ok(document) => document,
        Err(error) => return Ok(vec![Check::fails("release", in_one_line(&error))]),
    };
    let Document { recipe, version, date, .. } = &document;
    let mut checks = vec![Check::holds(
        "release",
        format!("{name} is version {version} of {recipe}, of {date}"),
    )];
    if let Some(rollout) = &document.rollout {
        checks.push(Check::holds("rollout", rollout.to_string()));
    }
    match files(client, &document) {
        Ok(files) => {
            checks.extend(programs(client, &document, &files, policy)?);
            checks.extend(papers(&document, &files, keys));
        }
        Err(error) => checks.push(Check::fails("files", in_one_line(&error))),
    }
    Ok(checks)
}

/// Reads the files of a release, and checks each against its document.
fn files(client: &Client, document: &Document) -> Result<BTreeMap<String, Vec<u8>>> {
    let read = |(name, file): (&String, &osbuild_release::File)| {
        let bytes = client.read(&target::file(&document.recipe, &document.version, name))?;
        match Digest::of(&bytes) == Digest::new(file.sha256.0, file.length) {
            true => Ok((name.clone(), bytes)),
            false => Err(Error::digest(format!("`{name}` does not match the document"))),
        }
    };
    document.files.iter().map(read).collect()
}

/// Checks slotboot and the UKI: signatures, dates, revocation and contents.
fn programs(
    client: &Client,
    document: &Document,
    files: &BTreeMap<String, Vec<u8>>,
    policy: &Policy,
) -> Result<Vec<Check>> {
    let mut checks = Vec::new();
    for (names, file) in [(BOOT, target::BOOT), (CONTENTS, target::NODE)] {
        checks.extend(policy.program(names, &files[file]));
    }
    let name = target::file(&document.recipe, &document.version, target::NODE);
    let path =
        client.targets().get(&name).map(|target| client.path(&name, target)).unwrap_or_default();
    let lock = files.get(target::LOCK).map(|bytes| Digest::of(bytes).hex()).unwrap_or_default();
    let found = open(&path)?.inspect();
    checks.extend(found.as_ref().ok().map(|found| origin(found, document, &lock)));
    checks.push(version(&files[target::NODE], document));
    checks.push(epoch_of_boot(&files[target::BOOT], document.security_epoch));
    checks.extend(contents(found));
    Ok(checks)
}

/// Checks that the UKI has the version of its release. Its layers, which may be damaged, are not
/// needed.
fn version(uki: &[u8], document: &Document) -> Check {
    let released = &document.version;
    match inspect::version(uki) {
        Ok(Some(inside)) if inside == *released => {
            Check::holds("version", format!("the UKI has version {inside}"))
        }
        Ok(Some(inside)) => Check::fails(
            "version",
            format!("the release is {released}, but its UKI has version {inside}"),
        ),
        Ok(None) => Check::fails(
            "version",
            format!("the release is {released}, but its UKI has no version"),
        ),
        Err(error) => Check::fails("version", in_one_line(&error)),
    }
}

/// Checks that the UKI has the recipe and the security epoch of the document, and the digest of the
/// lock.
fn origin(found: &Inspection, document: &Document, lock: &str) -> Check {
    let epoch = document.security_epoch;
    if found.root.recipe != document.recipe {
        let (inside, released) = (&found.root.recipe, &document.recipe);
        return Check::fails(
            "lock",
            format!("the release is of {released}, but its UKI was built from recipe {inside}"),
        );
    }
    if found.root.lock != lock {
        return Check::fails(
            "lock",
            format!("the UKI was built from a different lock, sha256:{}", found.root.lock),
        );
    }
    match found.uki.as_ref().is_some_and(|uki| uki.security_epoch == epoch) {
        true => Check::holds("lock", format!("the UKI was built from it, sha256:{lock}")),
        false => Check::fails("lock", format!("the UKI is not of security epoch {epoch}")),
    }
}

/// Checks that slotboot has the release's security epoch: a node does not replace its slotboot with
/// one of an older epoch.
fn epoch_of_boot(program: &[u8], expected: u32) -> Check {
    let found = Image::parse(program).ok().and_then(|image| epoch::of(&image).ok());
    match found == Some(expected) {
        true => Check::holds("boot epoch", expected.to_string()),
        false => {
            Check::fails("boot epoch", format!("slotboot is not of security epoch {expected}"))
        }
    }
}

/// Checks the provenance, the SBOM and the list of sources of the release.
fn papers(
    document: &Document,
    files: &BTreeMap<String, Vec<u8>>,
    keys: &[ReleasePublicKey],
) -> Vec<Check> {
    let sources = match inputs(files) {
        Ok(sources) => sources,
        Err(error) => return vec![Check::fails("sources", in_one_line(&error))],
    };
    let digests: BTreeMap<String, String> =
        document.files.iter().map(|(name, file)| (name.clone(), file.sha256.to_string())).collect();
    let subjects = digests.iter().filter(|(name, _)| *name != target::PROVENANCE);
    let subjects = subjects.map(|(name, sha256)| (name.clone(), sha256.clone())).collect();
    let statement = file(files, target::PROVENANCE)
        .and_then(|bytes| dsse::open(bytes, provenance::STATEMENT, keys));
    let stated = statement.and_then(|statement| {
        provenance::check(&statement, &subjects, &digests[target::LOCK], &sources)
    });
    let listed = file(files, target::SBOM).and_then(|bytes| {
        sbom::check(bytes, [&digests[target::NODE], &digests[target::BOOT]], &sources)
    });
    vec![
        Check::holds("sources", format!("{} inputs, as in the lock", sources.len())),
        checked(
            "provenance",
            stated.map(|()| {
                "signed by a release key, about these files, this lock and these sources".to_owned()
            }),
        ),
        checked(
            "sbom",
            listed.map(|count| {
                format!(
                    "{count} packages: the programs, and the inputs of the \
            lock"
                )
            }),
        ),
    ]
}

/// Every input of the release.
fn inputs(files: &BTreeMap<String, Vec<u8>>) -> Result<Vec<Source>> {
    let text =
        |name: &str| Ok::<_, Error>(String::from_utf8_lossy(file(files, name)?).into_owned());
    let lock = Lock::parse(target::LOCK, &text(target::LOCK)?)?;
    sources::read(&text(target::SOURCES)?, &lock)
}

fn file<'a>(files: &'a BTreeMap<String, Vec<u8>>, name: &str) -> Result<&'a [u8]> {
    files
        .get(name)
        .map(Vec::as_slice)
        .ok_or_else(|| Error::digest(format!("the release has no `{name}`")))
}

fn checked(name: &'static str, found: Result<String>) -> Check {
    match found {
        Ok(found) => Check::holds(name, found),
        Err(error) => Check::fails(name, in_one_line(&error)),
    }
}

/// An error with its root cause, in one line.
fn in_one_line(error: &Error) -> String {
    let problem = &error.problems[0];
    match problem.causes.last() {
        Some(cause) => format!("{}: {cause}", problem.message),
        None => problem.message.clone(),
    }
}
