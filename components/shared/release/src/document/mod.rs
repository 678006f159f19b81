//! The document of a release.

use crate::{Sha256, target};
use osbuild_rollout::Rollout;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The description of a release. Its JSON has one canonical form, so that all readers agree on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Document {
    format: u32,
    /// The recipe of the build.
    pub recipe: String,
    /// Its version, as in the header of a slot.
    pub version: String,
    /// The architecture of its machines.
    pub architecture: Architecture,
    /// The security epoch: a node never goes back to a lower one.
    pub security_epoch: u32,
    /// The day of the release: `2026-11-21`.
    pub date: String,
    /// Its files, by name.
    pub files: BTreeMap<String, File>,
    /// Which nodes may update, and when; all of them now if there is none. Only the document of a
    /// channel has one: that of the version never changes. An older node refuses such a document,
    /// and so waits until the rollout is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
}

/// A processor's architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// x86-64.
    Amd64,
    /// AArch64.
    Arm64,
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Architecture::Amd64 => "amd64",
            Architecture::Arm64 => "arm64",
        })
    }
}

/// One file of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its length in bytes.
    pub length: u64,
    /// Its digest.
    pub sha256: Sha256,
}

/// Why a document was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

impl Document {
    /// The maximum size of a document in bytes.
    pub const MAX_BYTES: usize = 64 << 10;

    const FORMAT: u32 = 1;

    /// Makes a document.
    ///
    /// # Errors
    /// One of the texts is invalid: see [`Document::parse`].
    pub fn new(
        recipe: &str,
        version: &str,
        architecture: Architecture,
        security_epoch: u32,
        date: &str,
        files: BTreeMap<String, File>,
    ) -> Result<Self, Refusal> {
        let [recipe, version, date] = [recipe, version, date].map(str::to_owned);
        let document = Document {
            format: Self::FORMAT,
            recipe,
            version,
            architecture,
            security_epoch,
            date,
            files,
            rollout: None,
        };
        document.check().map(|()| document)
    }

    /// Reads a document. Each of its names is safe as a component of a path.
    ///
    /// # Errors
    /// It is not JSON, has another format, an unknown key or an invalid text, lacks a UKI or a
    /// slotboot, or is not in the canonical form of [`Document::encode`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        if bytes.len() > Self::MAX_BYTES {
            return Err(Refusal(format!("it has more than {} bytes", Self::MAX_BYTES)));
        }
        let document: Document =
            serde_json::from_slice(bytes).map_err(|error| Refusal(error.to_string()))?;
        document.check()?;
        match document.encode() == bytes {
            true => Ok(document),
            false => Err(Refusal("it is not in the canonical form of a document".to_owned())),
        }
    }

    /// Returns the document as JSON: indented, keys in a fixed order, with a final newline.
    pub fn encode(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("a document always serializes");
        text.push(b'\n');
        text
    }

    fn check(&self) -> Result<(), Refusal> {
        let refuse = |what: String| Err(Refusal(what));
        if self.format != Self::FORMAT {
            return refuse(format!("its format is {}, not {}", self.format, Self::FORMAT));
        }
        for (what, text) in [("a recipe", &self.recipe), ("a version", &self.version)] {
            if !is_name(text) {
                return refuse(format!("{text:?} is not the name of {what}"));
            }
        }
        if !is_day(&self.date) {
            return refuse(format!("{:?} is not a date", self.date));
        }
        if let Some(name) = self.files.keys().find(|name| !is_name(name)) {
            return refuse(format!("{name:?} is not the name of a file"));
        }
        match [target::NODE, target::BOOT].into_iter().find(|name| !self.files.contains_key(*name))
        {
            Some(name) => refuse(format!("it has no `{name}`")),
            None => Ok(()),
        }
    }
}

/// Whether this is a name: letters, digits and `.~-`, at most 64 as in the header of a slot, and
/// first a letter or a digit.
fn is_name(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b".~-".contains(&byte);
    text.len() <= 64
        && text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && text.bytes().all(inside)
}

/// `YYYY-MM-DD`.
fn is_day(text: &str) -> bool {
    let is = |(index, byte): (usize, u8)| {
        if index == 4 || index == 7 { byte == b'-' } else { byte.is_ascii_digit() }
    };
    text.len() == 10 && text.bytes().enumerate().all(is)
}

#[cfg(test)]
mod tests;
