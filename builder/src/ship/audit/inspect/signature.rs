//! The signatures in a program that firmware starts.

use crate::error::{Context, Result};
use crate::plan::Date;
use osbuild_signatures::authenticode;
use osbuild_signatures::certificate::Certificate;
use serde::Serialize;

/// A signature of slotboot or of a UKI. Only the firmware decides whether to trust the signer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Signature {
    /// The signer's name in the certificate.
    pub signer: String,
    /// SHA-256 of the certificate; `None` if the signature does not include it.
    pub certificate: Option<String>,
    /// The certificate's last day.
    pub until: Option<String>,
    /// Whether the certificate's key signed these bytes.
    pub intact: bool,
}

/// Reads the signatures in a PE image.
pub(super) fn signatures(bytes: &[u8]) -> Result<Vec<Signature>> {
    let found =
        authenticode::signatures(bytes).or_build(|| "cannot read its signature".to_owned())?;
    let look = |signature: &authenticode::Signature| {
        let certificate = signature.certificate();
        Signature {
            signer: signature.name(),
            certificate: certificate.map(Certificate::fingerprint),
            until: certificate
                .map(|certificate| Date::from_unix(certificate.not_after()).to_string()),
            intact: certificate
                .is_some_and(|one| authenticode::verify(bytes, std::slice::from_ref(one)).is_ok()),
        }
    };
    Ok(found.iter().map(look).collect())
}
