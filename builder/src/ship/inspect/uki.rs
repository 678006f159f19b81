//! The unified kernel image: its sections and the kernel's command line.

use crate::error::{Context, Result};
use crate::plan::Date;
use osbuild_formats::{pe, uki};
use osbuild_signatures::authenticode;
use osbuild_signatures::certificate::Certificate;
use serde::Serialize;

/// A UKI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Uki {
    /// Its path on the EFI system partition, when it was found there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its size in bytes.
    pub size: u64,
    /// The kernel's release, as `uname -r` says it.
    pub uname: String,
    /// The kernel's command line.
    pub command_line: String,
    /// Who signed it; nobody for an unsigned one.
    pub signatures: Vec<Signature>,
    /// Its sections, in the order of the file.
    pub sections: Vec<Section>,
}

/// A signature of the UKI. Whether to trust the signer is another question, which the firmware answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Signature {
    /// The signer's name in the certificate.
    pub signer: String,
    /// SHA-256 of the certificate; none if the signature came without it.
    pub certificate: Option<String>,
    /// The certificate's last day.
    pub until: Option<String>,
    /// Whether the certificate's key signed these very bytes.
    pub intact: bool,
}

/// A section of the UKI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Section {
    /// Its name.
    pub name: String,
    /// Size of its data in bytes.
    pub size: u64,
}

/// Reads a UKI, and gives its initramfs too.
pub(super) fn read(bytes: &[u8], path: Option<String>) -> Result<(Uki, &[u8])> {
    let parts = uki::read(bytes).or_build(|| "cannot read the UKI".to_owned())?;
    let image = pe::Image::parse(bytes).or_build(|| "cannot read the UKI".to_owned())?;
    let sections = image.sections.iter().map(|section| Section { name: section.name.clone(), size: section.data().len() as u64 });
    let plain = |text: &str| text.trim_end_matches(['\0', '\n', ' ']).to_owned();
    let uki = Uki {
        path,
        size: bytes.len() as u64,
        uname: plain(parts.uname),
        command_line: plain(parts.command_line),
        signatures: signatures(bytes)?,
        sections: sections.collect(),
    };
    Ok((uki, parts.initramfs))
}

fn signatures(bytes: &[u8]) -> Result<Vec<Signature>> {
    let found = authenticode::signatures(bytes).or_build(|| "cannot read the UKI's signature".to_owned())?;
    let look = |signature: &authenticode::Signature| {
        let certificate = signature.certificate();
        Signature {
            signer: signature.name(),
            certificate: certificate.map(Certificate::fingerprint),
            until: certificate.map(|certificate| Date::from_unix(certificate.not_after()).to_string()),
            intact: certificate.is_some_and(|one| authenticode::verify(bytes, std::slice::from_ref(one)).is_ok()),
        }
    };
    Ok(found.iter().map(look).collect())
}
