//! The unified kernel image: its sections and the kernel's command line.

use super::kernel;
use super::signature::{Signature, signatures};
use crate::engine::digest::Digest;
use crate::error::{Context, Result};
use osbuild_formats::{pe, uki};
use serde::Serialize;
use std::collections::BTreeMap;

/// A UKI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Uki {
    /// The slot that holds it, for an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// Its size in bytes.
    pub size: u64,
    /// The version of the node, from its os-release; `None` if it has no `VERSION_ID`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The kernel's release, as `uname -r` prints it.
    pub uname: String,
    /// The security epoch; 0 for a UKI without one.
    pub security_epoch: u32,
    /// The kernel's command line.
    pub command_line: String,
    /// The enabled kernel options; `None` if the kernel does not embed its configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_options: Option<BTreeMap<String, String>>,
    /// Its signatures: empty for an unsigned UKI.
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
    /// SHA-256 of its data in hexadecimal.
    pub sha256: String,
}

/// Reads a UKI, and returns it with its initramfs.
pub(super) fn read(bytes: &[u8], slot: Option<String>) -> Result<(Uki, &[u8])> {
    let parts = uki::read(bytes).or_build(|| "cannot read the UKI".to_owned())?;
    let image = pe::Image::parse(bytes).or_build(|| "cannot read the UKI".to_owned())?;
    let section = |section: &pe::Section| {
        let digest = Digest::of(section.data());
        Section { name: section.name.clone(), size: digest.size(), sha256: digest.hex() }
    };
    let plain = |text: &str| text.trim_end_matches(['\0', '\n', ' ']).to_owned();
    let uki = Uki {
        slot,
        size: bytes.len() as u64,
        version: version_id(parts.os_release),
        uname: plain(parts.uname),
        security_epoch: parts.security_epoch,
        command_line: plain(parts.command_line),
        kernel_options: kernel::options(parts.kernel),
        signatures: signatures(bytes)?,
        sections: image.sections.iter().map(section).collect(),
    };
    Ok((uki, parts.initramfs))
}

/// The version in a UKI's os-release; `None` if it has no `VERSION_ID`.
///
/// # Errors
/// The bytes are not a UKI.
pub(in crate::ship) fn version(bytes: &[u8]) -> Result<Option<String>> {
    Ok(version_id(uki::read(bytes).or_build(|| "cannot read the UKI".to_owned())?.os_release))
}

/// `VERSION_ID` of an os-release (os-release(5)), without quotes.
fn version_id(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("VERSION_ID="))?;
    Some(value.trim_matches(['"', '\'']).to_owned())
}
