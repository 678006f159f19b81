//! The unified kernel image: its sections and the kernel's command line.

use super::signature::{Signature, signatures};
use crate::error::{Context, Result};
use osbuild_formats::{pe, uki};
use serde::Serialize;

/// A UKI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Uki {
    /// The slot that it was found in, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// Its size in bytes.
    pub size: u64,
    /// The kernel's release, as `uname -r` says it.
    pub uname: String,
    /// The security epoch; 0 for a UKI that says nothing of it.
    pub security_epoch: u32,
    /// The kernel's command line.
    pub command_line: String,
    /// Who signed it; nobody for an unsigned one.
    pub signatures: Vec<Signature>,
    /// Its sections, in the order of the file.
    pub sections: Vec<Section>,
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
pub(super) fn read(bytes: &[u8], slot: Option<String>) -> Result<(Uki, &[u8])> {
    let parts = uki::read(bytes).or_build(|| "cannot read the UKI".to_owned())?;
    let image = pe::Image::parse(bytes).or_build(|| "cannot read the UKI".to_owned())?;
    let sections = image.sections.iter().map(|section| Section { name: section.name.clone(), size: section.data().len() as u64 });
    let plain = |text: &str| text.trim_end_matches(['\0', '\n', ' ']).to_owned();
    let uki = Uki {
        slot,
        size: bytes.len() as u64,
        uname: plain(parts.uname),
        security_epoch: parts.security_epoch,
        command_line: plain(parts.command_line),
        signatures: signatures(bytes)?,
        sections: sections.collect(),
    };
    Ok((uki, parts.initramfs))
}
