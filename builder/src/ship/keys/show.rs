//! What keys there are, for people and programs. Private keys are not read for it.

use super::{Keys, RELEASE, Role, is_for_development};
use crate::error::{Error, Result};
use crate::plan::Date;
use crate::produce::digest::Digest;
use crate::produce::disk::OnDisk;
use serde::Serialize;
use std::fmt;

/// One key of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Shown {
    /// The name of the keys that it is one of.
    pub keys: String,
    /// What it is for: `PK`, `KEK`, `db` or `release`.
    pub role: String,
    /// Whom the certificate is for; nothing for a release key, which has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// SHA-256 of the certificate in DER, or of the public key.
    pub sha256: String,
    /// The last day on which it is valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Whether that day is over.
    pub expired: bool,
    /// Whether it is for development alone.
    pub development: bool,
}

/// Every key of these names, and whether it is valid on the day `today`.
pub fn show(keys: &Keys, today: Date) -> Result<Vec<Shown>> {
    let mut shown = Role::ALL.iter().map(|role| certificate(keys, *role, today)).collect::<Result<Vec<_>>>()?;
    let path = keys.folder().join(RELEASE[1]);
    let pem = std::fs::read(&path).at("read", &path)?;
    let (_, der) = der::pem::decode_vec(&pem)
        .map_err(|error| Error::build(format!("`{}` holds no public key", path.display())).cause(error))?;
    let development = shown.iter().any(|key| key.development);
    shown.push(Shown {
        keys: keys.name.clone(),
        role: "release".to_owned(),
        subject: None,
        sha256: Digest::of(&der).hex(),
        until: None,
        expired: false,
        development,
    });
    Ok(shown)
}

fn certificate(keys: &Keys, role: Role, today: Date) -> Result<Shown> {
    let certificate = keys.certificate(role)?;
    let until = Date::from_unix(certificate.not_after());
    Ok(Shown {
        keys: keys.name.clone(),
        role: role.name().to_owned(),
        subject: Some(certificate.subject()),
        sha256: certificate.fingerprint(),
        until: Some(until.to_string()),
        expired: until < today,
        development: is_for_development(&certificate),
    })
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:12} {:8} sha256:{}", self.keys, self.role, self.sha256)?;
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
