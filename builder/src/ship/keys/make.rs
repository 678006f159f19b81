//! Makes and rotates keys.

use super::api::write_api;
use super::public_file::write_public;
use super::release::write_release;
use super::terms::{Terms, last_day, set_validity};
use super::{DEV, DEV_UNIT, KMS, Keys, Role, TOKEN};
use crate::engine::digest::Digest;
use crate::engine::fs_error::{IoContext, remove};
use crate::error::{Context, Error, Result};
use crate::plan::Date;
use crate::produce::sign::{PrivateKey, RsaKey};
use osbuild_signatures::certificate::Certificate;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose,
};
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Makes a key for each role, with a self-signed certificate: firmware enrolls each of them
/// separately, so there is no chain. `token` names an existing key for db: the PKCS#11 URI of a key
/// in a token, or the ARN of one in AWS KMS. The folder appears as a whole, or not at all.
///
/// # Errors
/// Keys with this name exist. They are never replaced.
pub fn make(keys: &Keys, terms: Terms, token: Option<&str>) -> Result<()> {
    let folder = keys.folder();
    if folder.exists() {
        return Err(Error::usage(format!("keys `{}` already exist", keys.name))
            .cause("keys are never overwritten: machines would reject what they signed")
            .hint(format!("cargo osbuild keys show {}", keys.name)));
    }
    let above = folder.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(above).at("make", above)?;
    let unfinished = above.join(format!(".{}.unfinished", keys.name));
    remove(&unfinished)?;
    fs::create_dir(&unfinished).at("make", &unfinished)?;
    fs::set_permissions(&unfinished, Permissions::from_mode(0o755)).at("make", &unfinished)?;
    let name = |role: Role| format!("{} {}", keys.name, role.name());
    let token = |role| token.filter(|_| role == Role::Db);
    let made = Role::ALL
        .into_iter()
        .try_for_each(|role| write(&unfinished, keys, role, &name(role), terms, token(role)));
    match made
        .and_then(|()| write_release(&unfinished, last_day(terms)))
        .and_then(|()| write_api(&unfinished, keys, terms))
        .and_then(|()| fs::rename(&unfinished, folder).at("make", folder))
    {
        Ok(()) => Ok(()),
        Err(error) => {
            // Incomplete keys are useless, and the first error is the one to report.
            let _ = remove(&unfinished);
            Err(error)
        }
    }
}

/// Makes a new key for db, or uses the one that `token` names, as in [`make`]. The old key and its
/// certificate get the next free name of `db-1`, `db-2`, ….
///
/// # Errors
/// The new certificate would begin before the old one.
pub fn rotate(keys: &Keys, terms: Terms, token: Option<&str>) -> Result<()> {
    let since = Date::from_unix(keys.certificate(Role::Db)?.not_before());
    if terms.since < since {
        return Err(Error::usage(format!(
            "the new certificate would begin on {}, before the old one on {since}",
            terms.since
        ))
        .cause("firmware rejects a list that is older than its own"));
    }
    let (folder, number) = (keys.folder(), keys.retired()?.len() + 1);
    let unfinished = folder.join(".rotation");
    remove(&unfinished)?;
    fs::create_dir(&unfinished).at("make", &unfinished)?;
    write(&unfinished, keys, Role::Db, &format!("{} db {}", keys.name, number + 1), terms, token)?;
    let kinds = ["key", TOKEN, KMS, "crt"];
    // The old files keep their first name until the new ones replace them, so that an interruption
    // loses nothing.
    for kind in kinds {
        let (now, then) =
            (folder.join(format!("db.{kind}")), folder.join(format!("db-{number}.{kind}")));
        match fs::hard_link(&now, &then) {
            // Only one kind of key file exists, and an interrupted rotation has linked it already.
            Err(error)
                if kind != "crt"
                    && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) => {}
            linked => linked.at("write", &then)?,
        }
    }
    for kind in kinds {
        let (new, path) =
            (unfinished.join(format!("db.{kind}")), folder.join(format!("db.{kind}")));
        if new.exists() { fs::rename(new, &path).at("write", &path)? } else { remove(&path)? }
    }
    remove(&unfinished)
}

/// Writes one key, or the name of `token`, and its certificate with the common name `name`.
fn write(
    folder: &Path,
    keys: &Keys,
    role: Role,
    name: &str,
    terms: Terms,
    token: Option<&str>,
) -> Result<()> {
    let path = |kind| folder.join(format!("{}.{kind}", role.name()));
    let key: Box<dyn RsaKey> = match token {
        Some(token) => {
            let (kind, key) = keys.external(token)?;
            write_public(&path(kind), format!("{token}\n"))?;
            key
        }
        None => {
            let key = PrivateKey::generate()?;
            key.write(&path("key"))?;
            Box::new(key)
        }
    };
    let certificate = certificate(&*key, subject(name, keys.name == DEV), role, terms)?;
    write_public(&path("crt"), certificate.pem())
}

fn certificate(
    key: &dyn RsaKey,
    subject: DistinguishedName,
    role: Role,
    terms: Terms,
) -> Result<Certificate> {
    let cannot = || "cannot make a certificate".to_owned();
    let mut params = CertificateParams::default();
    params.distinguished_name = subject;
    set_validity(&mut params, terms);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    if role == Role::Db {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
    }
    let made = params.self_signed(&RcgenKey(key)).or_build(cannot)?;
    Certificate::from_der(made.der()).or_build(cannot)
}

/// The subject of a certificate. Firmware shows its common name in menus and logs.
fn subject(name: &str, for_development: bool) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, "osbuild");
    if for_development {
        subject.push(DnType::OrganizationalUnitName, DEV_UNIT);
    }
    subject.push(DnType::CommonName, name);
    subject
}

/// Adapts a key to the traits of `rcgen`.
struct RcgenKey<'k>(&'k dyn RsaKey);

impl rcgen::PublicKeyData for RcgenKey<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0.public()
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_RSA_SHA256
    }
}

impl rcgen::SigningKey for RcgenKey<'_> {
    fn sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, rcgen::Error> {
        self.0.sign(&Digest::of(message)).map_err(|_| rcgen::Error::RemoteKeyError)
    }
}
