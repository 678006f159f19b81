//! Publishes a release in a channel.

use super::keep::{self, versions};
use super::parts::Parts;
use super::rollout::RolloutChange;
use super::{dsse, provenance, sbom, sources};
use crate::engine::digest::Digest;
use crate::error::{Context, Error, Result, in_words};
use crate::plan::{self, Date};
use crate::produce::sign::ReleaseSigner;
use crate::ship::keys::Keys;
use crate::ship::tuf::{Change, Client, Times, Writer};
use osbuild_release::{Architecture, Channel, Document, File, Sha256, target};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A published release.
#[derive(Clone, Debug)]
pub struct Published {
    /// Its document.
    pub document: Document,
    /// The version and expiry of the metadata.
    pub times: Times,
    /// The versions of the recipe that were removed from the repository.
    pub dropped: Vec<String>,
}

/// The repository and channel of a release, and how its metadata is signed.
pub struct Place<'a> {
    /// The repository, locked.
    pub repository: &'a Writer<'a>,
    /// The channel.
    pub channel: Channel,
    /// The keys that the repository belongs to.
    pub keys: &'a Keys,
    /// The signer of the release.
    pub signer: &'a Arc<dyn ReleaseSigner>,
    /// Which nodes get the release, and when.
    pub rollout: RolloutChange,
    /// The day of the release.
    pub today: Date,
    /// The last day on which the metadata is valid.
    pub until: Date,
    /// How many releases of the recipe to keep, besides those in a channel; all if `None`.
    pub keep: Option<usize>,
}

/// Writes a release of these parts, and makes it the current one of the channel.
///
/// # Errors
/// A different release of this recipe and version exists.
pub fn publish(place: &Place, parts: &Parts) -> Result<Published> {
    let (recipe, version) = (&parts.plan.recipe, &parts.plan.version);
    let client = client(place)?;
    let files = files(place, parts, client.as_ref())?;
    let file = |bytes: &Vec<u8>| File {
        length: bytes.len() as u64,
        sha256: Sha256(*Digest::of(bytes).hash()),
    };
    let listed = files.iter().map(|(name, bytes)| ((*name).to_owned(), file(bytes))).collect();
    let architecture = match parts.plan.architecture {
        plan::Architecture::Amd64 => Architecture::Amd64,
        plan::Architecture::Arm64 => Architecture::Arm64,
    };
    let (epoch, date) = (parts.plan.security_epoch, parts.date.to_string());
    let document = Document::new(recipe, version, architecture, epoch, &date, listed);
    let document = document.or_build(|| "cannot make the document of the release".to_owned())?;
    let text = document.encode();
    let own = target::file(recipe, version, target::DOCUMENT);
    if let Some(client) = &client {
        let before = client.targets().get(&own).map(|target| target.digest);
        if before.is_some_and(|before| before != Digest::of(&text)) {
            return Err(Error::usage(format!(
                "version {version} of `{recipe}` is already released with different contents"
            ))
            .hint(format!(
                "set a new `version` in `recipes/{recipe}.toml`, or publish the old one again with \
                 `--promote {version}`"
            )));
        }
    }
    let mut targets: BTreeMap<String, &[u8]> = files
        .iter()
        .map(|(name, bytes)| (target::file(recipe, version, name), bytes.as_slice()))
        .collect();
    targets.insert(own, &text[..]);
    place.publish(client.as_ref(), document, targets)
}

/// Makes an earlier release the current one of a channel, without building it again.
///
/// # Errors
/// There is no release of this recipe and version, or one of its files does not match its document
/// (`Kind::Digest`), unless the rollout stops.
pub fn promote(place: &Place, recipe: &str, version: &str) -> Result<Published> {
    let own = target::file(recipe, version, target::DOCUMENT);
    let client = client(place)?;
    let released = client.as_ref().map(|client| versions(client, recipe)).unwrap_or_default();
    let client =
        client.filter(|_| released.iter().any(|known| known == version)).ok_or_else(|| {
            let absent =
                Error::usage(format!("version {version} of `{recipe}` has not been released here"));
            absent.hint(match released.is_empty() {
                true => {
                    format!("there is no release yet: `cargo osbuild release {recipe}` makes one")
                }
                false => format!("released: {}", in_words(released.iter().map(String::as_str))),
            })
        })?;
    let text = client.read(&own)?;
    let document = Document::parse(&text).or_build(|| format!("`{own}` is not a release"))?;
    // A release that no further node gets must be stopped even if a file of it is damaged.
    if !matches!(place.rollout, RolloutChange::Stop) {
        is_whole(&client, &document)?;
    }
    place.publish(Some(&client), document, BTreeMap::new())
}

/// The version of the recipe that the channel has.
///
/// # Errors
/// It has none.
pub fn current(place: &Place, recipe: &str) -> Result<String> {
    let document = client(place)?.map(|client| offered(&client, place.channel, recipe)).transpose();
    document?.flatten().map(|document| document.version).ok_or_else(|| {
        Error::usage(format!("channel {} has no release of `{recipe}` here", place.channel))
            .hint("name the channel with `--channel` and the folder with `--to DIR`")
    })
}

/// The document that a channel has for a recipe.
fn offered(client: &Client, channel: Channel, recipe: &str) -> Result<Option<Document>> {
    let name = target::document(channel, recipe);
    if !client.targets().contains_key(&name) {
        return Ok(None);
    }
    let document = Document::parse(&client.read(&name)?);
    document.or_build(|| format!("`{name}` is not a release document")).map(Some)
}

/// Checks every file of a release before a channel gets it: the files of an old release may be
/// damaged unnoticed.
fn is_whole(client: &Client, document: &Document) -> Result<()> {
    for (name, file) in &document.files {
        let name = target::file(&document.recipe, &document.version, name);
        if Digest::of(&client.read(&name)?) != Digest::new(file.sha256.0, file.length) {
            return Err(Error::digest(format!(
                "`{name}` does not match the document of the release"
            )));
        }
    }
    Ok(())
}

fn client(place: &Place) -> Result<Option<Client>> {
    let roots = place.keys.roots()?;
    place
        .repository
        .exists()
        .then(|| place.repository.latest(roots.first().ok_or_else(|| place.rootless())?))
        .transpose()
}

/// The files of a release, by name. `client` has read the repository, if there is one.
fn files(
    place: &Place,
    parts: &Parts,
    client: Option<&Client>,
) -> Result<BTreeMap<&'static str, Vec<u8>>> {
    let mut files = BTreeMap::from([
        (target::NODE, parts.node.clone()),
        (target::BOOT, parts.boot.clone()),
        (target::LOCK, parts.lock().into_bytes()),
        (target::SOURCES, sources::list(&parts.sources()).into_bytes()),
        (target::SBOM, sbom::document(parts)),
    ]);
    let statement = provenance::statement(parts, &files, &place.keys.name);
    let sealed = match client.and_then(|client| sealed_before(place, parts, client, &statement)) {
        Some(sealed) => sealed,
        None => dsse::seal(target::PROVENANCE, provenance::STATEMENT, &statement, &**place.signer)?,
    };
    files.insert(target::PROVENANCE, sealed);
    Ok(files)
}

/// The provenance in the repository, if it is of this release and has the same statement. A key in
/// KMS never gives the same signature twice, so a new one would make a different release. One that
/// cannot be read is not used, and is replaced.
fn sealed_before(
    place: &Place,
    parts: &Parts,
    client: &Client,
    statement: &[u8],
) -> Option<Vec<u8>> {
    let name = target::file(&parts.plan.recipe, &parts.plan.version, target::PROVENANCE);
    let sealed = client.read(&name).ok()?;
    let keys = client.release_keys(place.keys.roots().ok()?.first()?).ok()?;
    let known = dsse::open(&sealed, provenance::STATEMENT, &keys).ok()?;
    (known == statement).then_some(sealed)
}

impl Place<'_> {
    /// Makes a release the current one of the channel, with its rollout and the new targets `put`,
    /// and removes releases beyond `keep`.
    fn publish(
        &self,
        before: Option<&Client>,
        document: Document,
        put: BTreeMap<String, &[u8]>,
    ) -> Result<Published> {
        let current = before.map(|client| offered(client, self.channel, &document.recipe));
        let current = current.transpose()?.flatten();
        let document = self.rollout.apply(document, current.as_ref(), self.today);
        let text = document.encode();
        let mut put = put;
        put.insert(target::document(self.channel, &document.recipe), &text);
        let roots = self.keys.roots()?;
        if roots.is_empty() {
            return Err(self.rootless());
        }
        self.repository.check_roots(&roots, &self.keys.name)?;
        let dropped = match (before, self.keep) {
            (Some(client), Some(keep)) => {
                keep::versions_to_drop(client, &document.recipe, keep, &document, self.channel)?
            }
            _ => Vec::new(),
        };
        let gone = before
            .map(|client| keep::targets_of(client, &document.recipe, &dropped))
            .unwrap_or_default();
        let times = self.repository.publish(
            &roots,
            self.signer,
            self.until,
            &Change { put, dropped: gone },
        )?;
        if self.keep.is_some() {
            self.repository.sweep(before, &self.repository.read(&roots[0], None)?)?;
        }
        Ok(Published { document, times, dropped })
    }

    fn rootless(&self) -> Error {
        let name = &self.keys.name;
        Error::build(format!("the keys `{name}` have no root of trust"))
            .hint(format!("cargo osbuild keys rotate {name} --role root"))
    }
}
