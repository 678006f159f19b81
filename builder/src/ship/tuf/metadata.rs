//! Signed metadata of a TUF repository
//! (<https://theupdateframework.github.io/specification/latest/>).

use super::wait::wait;
use crate::error::{Context, Error, Result};
use crate::plan::Date;
use crate::produce::sign::{ReleasePublicKey, ReleaseSigner};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::error::Error as StdError;
use std::sync::Arc;
use tough::async_trait;
use tough::editor::signed::SignedRole;
use tough::key_source::KeySource;
use tough::schema::key::Key;
use tough::schema::{KeyHolder, Role, Root};
use tough::sign::Sign;

/// The version of the specification that is followed.
const SPECIFICATION: &str = "1.0.0";

type AnyError = Box<dyn StdError + Send + Sync + 'static>;

/// A file of metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Metadata {
    /// Its name without its version: `targets.json`.
    pub name: &'static str,
    /// Its version.
    pub version: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Metadata {
    /// Its name in a repository with consistent snapshots.
    pub fn file_name(&self) -> String {
        format!("{}.{}", self.version, self.name)
    }
}

/// Makes metadata of a role: the common fields, and those of the role in `rest`. It is valid
/// through the day `until`.
pub(super) fn role(kind: &str, version: u64, until: Date, rest: Value) -> Value {
    let mut role = json!({ "_type": kind, "spec_version": SPECIFICATION, "version": version });
    role["expires"] = format!("{}T00:00:00Z", until.plus_days(1)).into();
    let own = rest.as_object().cloned().unwrap_or_default();
    role.as_object_mut().expect("it was made as an object").extend(own);
    role
}

/// The last full day before an expiry in seconds since 1970.
pub(super) fn last_day(expires: i64) -> Date {
    Date::from_unix(u64::try_from(expires - 1).unwrap_or(0))
}

/// Signs metadata with each of `keys` that one of the roots `by` names for its role. The bytes are
/// reproducible.
pub(super) fn sign<T>(
    name: &'static str,
    role: Value,
    by: &[&Root],
    keys: &[Arc<dyn ReleaseSigner>],
) -> Result<Metadata>
where
    T: Role + Serialize + DeserializeOwned + Clone,
{
    let cannot = || format!("cannot sign `{name}`");
    let role: T = serde_json::from_value(role).or_build(cannot)?;
    let version = role.version().get();
    let sources: Vec<Box<dyn KeySource>> =
        keys.iter().map(|key| Box::new(ToughKey { name, signer: key.clone() }) as _).collect();
    let mut signatures = Vec::new();
    for root in by {
        let holder = KeyHolder::Root((*root).clone());
        let random = SystemRandom::new();
        let signed =
            wait(async { Ok(SignedRole::new(role.clone(), &holder, &sources, &random).await) })?;
        let signed = signed.map_err(|error| {
            own_error(&error).unwrap_or_else(|| Error::build(cannot()).cause(error))
        })?;
        signatures.extend(
            signed
                .signed()
                .signatures
                .iter()
                .map(|one| serde_json::to_value(one).expect("a signature serializes")),
        );
    }
    signatures.sort_by_key(Value::to_string);
    signatures.dedup();
    // JSON maps are sorted by key. The order of the crate's own maps changes from run to run.
    let signed = serde_json::to_value(&role).or_build(cannot)?;
    let mut bytes =
        serde_json::to_vec_pretty(&json!({ "signatures": signatures, "signed": signed }))
            .or_build(cannot)?;
    bytes.push(b'\n');
    Ok(Metadata { name, version, bytes })
}

/// The error of our signer inside an error of `tough`.
fn own_error(error: &(dyn StdError + 'static)) -> Option<Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(ours) = error.downcast_ref::<Error>() {
            return Some(ours.clone());
        }
        next = error.source();
    }
    None
}

/// The identifier that TUF gives a key, in hexadecimal.
pub(super) fn key_id(key: &Value) -> Result<String> {
    let cannot = || "cannot name a key".to_owned();
    let key: Key = serde_json::from_value(key.clone()).or_build(cannot)?;
    let id = serde_json::to_value(key.key_id().or_build(cannot)?).or_build(cannot)?;
    Ok(id.as_str().unwrap_or_default().to_owned())
}

/// A key in the format of TUF.
pub(super) fn tuf_key(key: ReleasePublicKey) -> Value {
    match key {
        ReleasePublicKey::Ed25519(bytes) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            json!({ "keytype": "ed25519", "scheme": "ed25519", "keyval": { "public": hex } })
        }
        ReleasePublicKey::P256(_) => {
            let public = json!({ "public": key.pem() });
            json!({ "keytype": "ecdsa", "scheme": "ecdsa-sha2-nistp256", "keyval": public })
        }
    }
}

/// Adapts a signer to the traits of `tough`.
#[derive(Clone, Debug)]
struct ToughKey {
    name: &'static str,
    signer: Arc<dyn ReleaseSigner>,
}

#[async_trait]
impl KeySource for ToughKey {
    async fn as_sign(&self) -> std::result::Result<Box<dyn Sign>, AnyError> {
        Ok(Box::new(self.clone()))
    }

    async fn write(&self, _value: &str, _key_id_hex: &str) -> std::result::Result<(), AnyError> {
        Err("only `osbuild keys` makes keys".into())
    }
}

#[async_trait]
impl Sign for ToughKey {
    fn tuf_key(&self) -> Key {
        serde_json::from_value(tuf_key(self.signer.public()))
            .expect("a key of ours always has this form")
    }

    async fn sign(
        &self,
        message: &[u8],
        _random: &(dyn SecureRandom + Sync),
    ) -> std::result::Result<Vec<u8>, AnyError> {
        // This runs inside a `wait`. A signer with a remote key waits too, and `wait` cannot be
        // nested on one thread.
        let signed =
            std::thread::scope(|scope| scope.spawn(|| self.signer.sign(self.name, message)).join());
        Ok(signed.expect("a signer does not panic")?)
    }
}
