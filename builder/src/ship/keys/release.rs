//! The keys of releases: the release key signs them, and the root key signs `root.json`, which
//! names the release key. The root key can be kept offline until the next rotation.

use super::public_file::{put, write_public};
use super::terms::{Terms, last_day};
use super::{KMS, Keys, RELEASE, RELEASE_KMS, ROOT};
use crate::engine::digest::Digest;
use crate::engine::fs_error::{IoContext, remove};
use crate::error::{Error, Result};
use crate::plan::Date;
use crate::produce::sign::{KmsReleaseKey, ReleaseKey, ReleasePublicKey, ReleaseSigner};
use crate::ship::tuf::{Root, sign_root};
use osbuild_aws::KeyArn;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// The new root key, until the root of trust names it.
const UNFINISHED_ROOT: &str = ".root.unfinished";

impl Keys {
    /// The key that signs releases: the one in `release.key`, or the one in AWS KMS that
    /// `release.kms` names.
    ///
    /// # Errors
    /// There is no key, it does not match `release.pub`, or the newest root of trust does not name
    /// it: then nothing would trust what it signs.
    pub fn release_key(&self) -> Result<Arc<dyn ReleaseSigner>> {
        let [file, named] = [RELEASE[0], RELEASE_KMS].map(|name| self.folder.join(name));
        if file.exists() || !named.exists() {
            let key = self.secret(RELEASE[0])?;
            return self.trusted(key, &file);
        }
        let of = |error: Error| error.cause(format!("the key is `{}`", named.display()));
        let arn = self.kms(&fs::read_to_string(&named).at("read", &named)?).map_err(of)?;
        self.trusted(Arc::new(KmsReleaseKey::open(&arn).map_err(of)?), &named)
    }

    /// Returns the release key, which is in `file` or named there, unless a rotation was
    /// interrupted before all public files named it.
    fn trusted(&self, key: Arc<dyn ReleaseSigner>, file: &Path) -> Result<Arc<dyn ReleaseSigner>> {
        let token = if file.ends_with(RELEASE_KMS) { " --token ARN" } else { "" };
        let names_other = |name: &str| {
            let path = self.folder.join(name);
            Err(Error::build(format!("`{}` belongs to another release key", path.display()))
                .cause(format!("the key is `{}`", file.display()))
                .hint(format!(
                    "if its rotation was interrupted, repeat it: `cargo osbuild keys rotate {} \
                     --role release{token}`; if it is from another machine, copy all public files \
                     from there",
                    self.name
                )))
        };
        if key.public() != self.release_public()? {
            return names_other(RELEASE[1]);
        }
        match self.roots()?.last() {
            Some(root) if !root.release_keys().contains(&key.public()) => names_other(ROOT[1]),
            _ => Ok(key),
        }
    }

    /// Whether the release key is here: in a file, or named in AWS KMS.
    pub fn has_release_key(&self) -> bool {
        [RELEASE[0], RELEASE_KMS].iter().any(|file| self.folder.join(file).exists())
    }

    /// The public half of the release key.
    pub fn release_public(&self) -> Result<ReleasePublicKey> {
        ReleasePublicKey::read(&self.folder.join(RELEASE[1]))
    }

    /// All roots of trust, the oldest first. A client that trusts any of them can follow them to
    /// the newest.
    ///
    /// # Errors
    /// One of them cannot be read, or is invalid.
    pub fn roots(&self) -> Result<Vec<Root>> {
        let mut roots = Vec::new();
        for path in self.root_files() {
            let bytes = fs::read(&path).at("read", &path)?;
            roots.push(
                Root::parse(&bytes)
                    .map_err(|error| error.cause(format!("it is `{}`", path.display())))?,
            );
        }
        Ok(roots)
    }

    /// The existing files of `root-1.json`, `root-2.json` …, and `root.json`.
    fn root_files(&self) -> Vec<std::path::PathBuf> {
        let retired = (1..)
            .map(|number| self.folder.join(format!("root-{number}.json")))
            .take_while(|path| path.exists());
        retired
            .chain([self.folder.join(ROOT[1])].into_iter().filter(|path| path.exists()))
            .collect()
    }

    fn secret(&self, name: &str) -> Result<Arc<dyn ReleaseSigner>> {
        let path = self.folder.join(name);
        if !path.exists() {
            return Err(Error::build(format!("there is no key `{}`", path.display()))
                .hint("run this on the machine with the key"));
        }
        Ok(Arc::new(ReleaseKey::read(&path)?))
    }
}

/// Makes the keys of releases in `folder`, and a root of trust that is valid through the day
/// `until`.
pub(super) fn write_release(folder: &Path, until: Date) -> Result<()> {
    let key = ReleaseKey::generate()?;
    key.write(&folder.join(RELEASE[0]))?;
    let release = key.public();
    write_public(&folder.join(RELEASE[1]), release.pem())?;
    write_root(folder, release, until)
}

/// Writes a new key, or the ARN of one in AWS KMS, and returns its public half.
fn write_key(keys: &Keys, path: &Path, arn: Option<&str>) -> Result<ReleasePublicKey> {
    let Some(arn) = arn else {
        let key = ReleaseKey::generate()?;
        key.write(path)?;
        return Ok(key.public());
    };
    if !KeyArn::is_arn(arn) {
        return Err(Error::usage("a release key must be in a file or in AWS KMS")
            .cause(format!("`{arn}` is neither")));
    }
    let key = KmsReleaseKey::open(&keys.kms(arn)?)?;
    write_public(path, format!("{arn}\n"))?;
    Ok(key.public())
}

fn write_root(folder: &Path, release: ReleasePublicKey, until: Date) -> Result<()> {
    let key = ReleaseKey::generate()?;
    key.write(&folder.join(ROOT[0]))?;
    let root = sign_root(until, &(Arc::new(key) as _), release, None)?;
    write_public(&folder.join(ROOT[1]), &root.bytes)
}

/// Adds a root of trust to keys that were made before keys had one.
pub fn complete(keys: &Keys, terms: Terms) -> Result<()> {
    if keys.folder.join(ROOT[1]).exists() {
        return Ok(());
    }
    write_root(&keys.folder, keys.release_public()?, last_day(terms))
}

/// Makes a new release key, or uses the one in AWS KMS with this ARN, and makes a root of trust
/// that names it instead of the old one.
///
/// # Errors
/// There is no root key here.
pub fn rotate_release(keys: &Keys, terms: Terms, arn: Option<&str>) -> Result<()> {
    resume(keys)?;
    let key = keys.secret(ROOT[0])?;
    let unfinished = keys.folder.join(".release.unfinished");
    remove(&unfinished)?;
    let release = write_key(keys, &unfinished, arn)?;
    let root = next(keys, terms, &key, &key, release)?;
    for (file, kind) in [(RELEASE[0], "key"), (RELEASE_KMS, KMS)] {
        if keys.folder.join(file).exists() {
            retire(keys, file, "release", kind)?;
        }
    }
    let (file, other) =
        if arn.is_some() { (RELEASE_KMS, RELEASE[0]) } else { (RELEASE[0], RELEASE_KMS) };
    put(&unfinished, &keys.folder.join(file))?;
    remove(&keys.folder.join(other))?;
    write_public(&keys.folder.join(RELEASE[1]), release.pem())?;
    write_next(keys, &root)
}

/// Makes a new root key, and a root of trust with the signatures of the old and the new one.
///
/// # Errors
/// The old root key is not here.
pub fn rotate_root(keys: &Keys, terms: Terms) -> Result<()> {
    resume(keys)?;
    let (old, new) = (keys.secret(ROOT[0])?, ReleaseKey::generate()?);
    new.write(&keys.folder.join(UNFINISHED_ROOT))?;
    let root = next(keys, terms, &(Arc::new(new) as _), &old, keys.release_public()?)?;
    // From here on only the new key can sign the next root.
    write_next(keys, &root)?;
    take_root(keys)
}

/// Completes an interrupted rotation of the root key if the root names the new key, because the
/// unfinished file is then its only copy. Otherwise discards it.
fn resume(keys: &Keys) -> Result<()> {
    let unfinished = keys.folder.join(UNFINISHED_ROOT);
    let named = keys.roots()?.last().map(Root::root_keys).unwrap_or_default();
    if !unfinished.exists() || named.contains(&keys.secret(ROOT[0])?.public()) {
        return remove(&unfinished);
    }
    match named.contains(&ReleaseKey::read(&unfinished)?.public()) {
        true => take_root(keys),
        false => remove(&unfinished),
    }
}

/// Replaces the old root key with the new one.
fn take_root(keys: &Keys) -> Result<()> {
    let unfinished = keys.folder.join(UNFINISHED_ROOT);
    retire(keys, ROOT[0], "root", "key")?;
    put(&unfinished, &keys.folder.join(ROOT[0]))
}

fn next(
    keys: &Keys,
    terms: Terms,
    by: &Arc<dyn ReleaseSigner>,
    old: &Arc<dyn ReleaseSigner>,
    release: ReleasePublicKey,
) -> Result<Root> {
    let roots = keys.roots()?;
    let last = roots
        .last()
        .ok_or_else(|| Error::build(format!("the keys `{}` have no `{}`", keys.name, ROOT[1])))?;
    sign_root(last_day(terms), by, release, Some((last, old)))
}

fn write_next(keys: &Keys, root: &Root) -> Result<()> {
    retire(keys, ROOT[1], "root", "json")?;
    write_public(&keys.folder.join(ROOT[1]), &root.bytes)
}

/// Copies a file that will be replaced to the next free name of `NAME-1`, `NAME-2`, ….
fn retire(keys: &Keys, file: &str, name: &str, kind: &str) -> Result<()> {
    let now = keys.folder.join(file);
    let same = |path: &Path| Digest::of_file(path).ok() == Digest::of_file(&now).ok();
    let free = (1..)
        .map(|number| keys.folder.join(format!("{name}-{number}.{kind}")))
        .find(|path| !path.exists() || same(path));
    let path = free.expect("there is always a next number");
    let unfinished = keys.folder.join(".retired.unfinished");
    fs::copy(&now, &unfinished).at("write", &unfinished)?;
    put(&unfinished, &path)
}
