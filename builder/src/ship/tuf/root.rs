//! The root of trust: `root.json`, which names the keys that sign releases.

use super::metadata::{Metadata, key_id, last_day, role, sign, tuf_key};
use crate::error::{Context, Error, Result};
use crate::plan::Date;
use crate::produce::sign::{ReleasePublicKey, ReleaseSigner};
use serde_json::json;
use std::sync::Arc;
use tough::schema::{self, RoleType, Signed};

/// A root of trust with a valid signature by its own key.
#[derive(Clone, Debug)]
pub struct Root {
    /// The file.
    pub bytes: Vec<u8>,
    pub(super) signed: schema::Root,
}

impl Root {
    /// Reads one.
    ///
    /// # Errors
    /// It is invalid, or not signed by the key that it names (`Kind::Digest`).
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Self::verified(bytes, &[])
    }

    /// Reads the root that follows this one, and checks the signatures of both keys.
    ///
    /// # Errors
    /// It is invalid, or not signed by its own key and by that of this root (`Kind::Digest`).
    pub fn next(&self, bytes: &[u8]) -> Result<Self> {
        let next = Self::verified(bytes, &[self])?;
        match next.version() == self.version() + 1 {
            true => Ok(next),
            false => Err(Error::digest(format!(
                "it has version {}, but follows {}",
                next.version(),
                self.version()
            ))),
        }
    }

    fn verified(bytes: &[u8], by: &[&Self]) -> Result<Self> {
        let refuse = |error: &dyn std::error::Error| {
            Error::digest("it is not a valid root of trust").cause(error)
        };
        let root: Signed<schema::Root> =
            serde_json::from_slice(bytes).map_err(|error| refuse(&error))?;
        for signed in by.iter().map(|root| &root.signed).chain([&root.signed]) {
            signed.verify_role(&root).map_err(|error| refuse(&error))?;
        }
        Ok(Root { bytes: bytes.to_owned(), signed: root.signed })
    }

    /// Its version, which each rotation of a key increments.
    pub fn version(&self) -> u64 {
        self.signed.version.get()
    }

    /// The last day on which it is valid.
    pub fn until(&self) -> Date {
        last_day(self.signed.expires.as_second())
    }

    /// The keys that sign releases.
    pub fn release_keys(&self) -> Vec<ReleasePublicKey> {
        self.keys_of(RoleType::Targets)
    }

    /// The keys that sign the next root.
    pub fn root_keys(&self) -> Vec<ReleasePublicKey> {
        self.keys_of(RoleType::Root)
    }

    fn keys_of(&self, role: RoleType) -> Vec<ReleasePublicKey> {
        let key = |key: &schema::key::Key| match key {
            schema::key::Key::Ed25519 { keyval, .. } => {
                Some(ReleasePublicKey::Ed25519(keyval.public.to_vec().try_into().ok()?))
            }
            schema::key::Key::Ecdsa { keyval, .. } => {
                Some(ReleasePublicKey::P256(keyval.public.to_vec().try_into().ok()?))
            }
            _ => None,
        };
        self.signed.keys(role).filter_map(key).collect()
    }
}

/// Signs a root of trust: `by` is the root key, which also signs the next root, and `release` signs
/// all other metadata. The root is valid through the day `until`. `before` is the root that it
/// follows, whose key signs it too.
pub fn sign_root(
    until: Date,
    by: &Arc<dyn ReleaseSigner>,
    release: ReleasePublicKey,
    before: Option<(&Root, &Arc<dyn ReleaseSigner>)>,
) -> Result<Root> {
    let [own, other] = [tuf_key(by.public()), tuf_key(release)];
    let [own_id, other_id] = [key_id(&own)?, key_id(&other)?];
    let one = |id: &str| json!({ "keyids": [id], "threshold": 1 });
    let rest = json!({
        "consistent_snapshot": true,
        "keys": { own_id.as_str(): own, other_id.as_str(): other },
        "roles": {
            "root": one(&own_id),
            "targets": one(&other_id),
            "snapshot": one(&other_id),
            "timestamp": one(&other_id),
        },
    });
    let version = before.map_or(1, |(root, _)| root.version() + 1);
    let root = role("root", version, until, rest);
    let own: schema::Root = serde_json::from_value(root.clone())
        .or_build(|| "cannot make a root of trust".to_owned())?;
    let (roots, keys) = match before {
        Some((before, key)) => (vec![&own, &before.signed], vec![by.clone(), key.clone()]),
        None => (vec![&own], vec![by.clone()]),
    };
    let Metadata { bytes, .. } = sign::<schema::Root>("root.json", root, &roots, &keys)?;
    Root::parse(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::produce::sign::ReleaseKey;

    const UNTIL: Date = Date { year: 2036, month: 11, day: 21 };

    fn key() -> Arc<dyn ReleaseSigner> {
        Arc::new(ReleaseKey::generate().unwrap())
    }

    #[test]
    fn a_root_names_the_release_key_and_cannot_be_changed() {
        let (key, release) = (key(), ReleaseKey::generate().unwrap().public());
        let root = sign_root(UNTIL, &key, release, None).unwrap();
        assert_eq!((root.version(), root.until(), root.release_keys()), (1, UNTIL, vec![release]));
        let text = String::from_utf8(root.bytes.clone()).unwrap();
        assert!(Root::parse(text.replace("2036", "2037").as_bytes()).is_err());
        assert_eq!(sign_root(UNTIL, &key, release, None).unwrap().bytes, root.bytes);
    }

    #[test]
    fn the_next_root_has_both_signatures() {
        let (old, new, release) = (key(), key(), ReleaseKey::generate().unwrap().public());
        let first = sign_root(UNTIL, &old, release, None).unwrap();
        let second = sign_root(UNTIL, &new, release, Some((&first, &old))).unwrap();
        let signed: Signed<schema::Root> = serde_json::from_slice(&second.bytes).unwrap();
        assert_eq!((second.version(), signed.signatures.len()), (2, 2));
        assert!(first.signed.verify_role(&signed).is_ok());
        let same = sign_root(UNTIL, &old, release, Some((&first, &old))).unwrap();
        let signed: Signed<schema::Root> = serde_json::from_slice(&same.bytes).unwrap();
        assert_eq!(signed.signatures.len(), 1);
    }
}
