//! Lists keys, for people and programs, without reading private keys.

use super::{Keys, RELEASE, Role, is_for_development};
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::error::{Context, Error, Result};
use crate::plan::Date;
use der::Decode;
use osbuild_signatures::certificate::Certificate;
use osbuild_signatures::efi::Listed;
use serde::Serialize;
use std::fmt;
use std::path::Path;
use x509_cert::TbsCertificate;

/// One key of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Shown {
    /// The name of the keys that it belongs to.
    pub keys: String,
    /// Its role: `PK`, `KEK`, `db`, `db-1` and so on for retired keys, `release`, `root` for
    /// `root.json`, `api` for the CA of the node API, or `dbx` for a revoked image.
    pub role: String,
    /// The subject of the certificate; `None` for a release key, which has no certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// SHA-256 of the certificate in DER, of the public key or of `root.json`; or the Authenticode
    /// digest of an image.
    pub sha256: String,
    /// The last day on which it is valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Whether that day is in the past.
    pub expired: bool,
    /// Whether it is in dbx.
    pub revoked: bool,
    /// Whether it is for development only.
    pub development: bool,
}

/// Every key of these names that is here, and whether it is valid on the day `today`. A machine
/// that only builds has `db.crt` alone.
///
/// # Errors
/// There is no `db.crt`, or a file cannot be read.
pub fn show(keys: &Keys, today: Date) -> Result<Vec<Shown>> {
    let revoked = keys.revoked()?;
    let mut shown = Vec::new();
    for role in Role::ALL.into_iter().filter(|role| *role == Role::Db || keys.has(*role)) {
        shown.push(certificate(keys, role.name(), &keys.certificate(role)?, today));
    }
    for (name, retired) in keys.retired()? {
        let revoked = revoked.contains(&retired.clone().into());
        shown.push(Shown { revoked, ..certificate(keys, &name, &retired, today) });
    }
    let development = shown.iter().any(|key| key.development);
    if keys.folder().join(RELEASE[1]).exists() {
        let sha256 = Digest::of(&content(&keys.folder().join(RELEASE[1]), "public key")?).hex();
        shown.push(Shown { development, ..plain(keys, "release", sha256) });
    }
    if let Some(root) = keys.roots()?.last() {
        let until = root.until();
        let plain = plain(keys, "root", Digest::of(&root.bytes).hex());
        shown.push(Shown {
            development,
            until: Some(until.to_string()),
            expired: until < today,
            ..plain
        });
    }
    if keys.api_certificate().exists() {
        shown.push(Shown { development, ..authority(keys, today)? });
    }
    for listed in revoked {
        if let Listed::Image(digest) = listed {
            shown.push(Shown { revoked: true, ..plain(keys, "dbx", Digest::new(digest, 0).hex()) });
        }
    }
    Ok(shown)
}

/// The content of a PEM file.
fn content(path: &Path, what: &str) -> Result<Vec<u8>> {
    let pem = std::fs::read(path).at("read", path)?;
    let (_, der) = der::pem::decode_vec(&pem).map_err(|error| {
        Error::build(format!("`{}` has no {what}", path.display())).cause(error)
    })?;
    Ok(der)
}

/// The CA of the node API. Its key is not RSA, as those of [`Certificate`] are.
fn authority(keys: &Keys, today: Date) -> Result<Shown> {
    let path = keys.api_certificate();
    let der = content(&path, "certificate")?;
    let parsed = x509_cert::Certificate::from_der(&der);
    let parsed = parsed.or_build(|| format!("`{}` has no certificate", path.display()))?;
    let TbsCertificate { subject, validity, .. } = parsed.tbs_certificate;
    let until = Date::from_unix(validity.not_after.to_unix_duration().as_secs());
    Ok(Shown {
        subject: Some(subject.to_string()),
        until: Some(until.to_string()),
        expired: until < today,
        ..plain(keys, "api", Digest::of(&der).hex())
    })
}

fn certificate(keys: &Keys, role: &str, certificate: &Certificate, today: Date) -> Shown {
    let until = Date::from_unix(certificate.not_after());
    Shown {
        subject: Some(certificate.subject()),
        until: Some(until.to_string()),
        expired: until < today,
        development: is_for_development(certificate),
        ..plain(keys, role, certificate.fingerprint())
    }
}

/// A key or an image without a certificate.
fn plain(keys: &Keys, role: &str, sha256: String) -> Shown {
    let (keys, role) = (keys.name.clone(), role.to_owned());
    Shown {
        keys,
        role,
        subject: None,
        sha256,
        until: None,
        expired: false,
        revoked: false,
        development: false,
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:12} {:8} sha256:{}", self.keys, self.role, self.sha256)?;
        if self.revoked {
            f.write_str("  REVOKED")?;
        }
        match (&self.until, self.expired) {
            (Some(until), false) => write!(f, "  until {until}")?,
            (Some(until), true) => write!(f, "  EXPIRED on {until}")?,
            (None, _) => {}
        }
        match &self.subject {
            Some(subject) => write!(f, "  {subject}"),
            None if self.development => f.write_str("  development only"),
            None => Ok(()),
        }
    }
}
