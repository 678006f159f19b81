//! The document of a release.

use crate::{Sha256, target};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// What a release says of itself. It has one form in JSON, so that no two readers see two things in
/// it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Document {
    format: u32,
    /// The recipe that it was built from.
    pub recipe: String,
    /// Its version, which the header of a slot has too.
    pub version: String,
    /// The machines that it is for.
    pub architecture: Architecture,
    /// Which flaws it no longer has: a node never goes back to a lower one.
    pub security_epoch: u32,
    /// The day on which it was made: `2026-11-21`.
    pub date: String,
    /// Its files, by name.
    pub files: BTreeMap<String, File>,
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

/// Why a document is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

impl Document {
    /// No document has more bytes.
    pub const MOST: usize = 64 << 10;

    const FORMAT: u32 = 1;

    /// A document.
    ///
    /// # Errors
    /// One of the texts is none that a document may have: see [`Document::parse`].
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
        };
        document.check().map(|()| document)
    }

    /// Reads a document. Each of its names can be part of a path.
    ///
    /// # Errors
    /// It is not JSON, has another format, an unknown key or a text that cannot be, names no UKI or
    /// no slotboot, or has not the form in which [`Document::encode`] writes it.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        if bytes.len() > Self::MOST {
            return Err(Refusal(format!("it has more than {} bytes", Self::MOST)));
        }
        let document: Document =
            serde_json::from_slice(bytes).map_err(|error| Refusal(error.to_string()))?;
        document.check()?;
        match document.encode() == bytes {
            true => Ok(document),
            false => Err(Refusal("it is not in the one form that a document has".to_owned())),
        }
    }

    /// The document as JSON: indented, its keys in a fixed order, a line feed at its end.
    pub fn encode(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("a document always serializes");
        text.push(b'\n');
        text
    }

    fn check(&self) -> Result<(), Refusal> {
        let refuse = |what: String| Err(Refusal(what));
        if self.format != Self::FORMAT {
            return refuse(format!(
                "its format is {}, and only {} is known",
                self.format,
                Self::FORMAT
            ));
        }
        for (what, text) in [("a recipe", &self.recipe), ("a version", &self.version)] {
            if !is_name(text) {
                return refuse(format!("{text:?} is not the name of {what}"));
            }
        }
        if !is_day(&self.date) {
            return refuse(format!("{:?} is no day", self.date));
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

/// Letters, digits and `.~-`, at most 64 of them as in the header of a slot, of which the first is
/// a letter or a digit.
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
