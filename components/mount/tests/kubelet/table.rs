//! Reads `calls.toml` and `programs.toml`.

use serde::Deserialize;

/// The supported calls.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Calls {
    /// The version of `k8s.io/kubernetes` that the tables were taken from.
    pub kubernetes: String,
    /// Lines of the kubelet's volume code that mount, and lines of mount-utils that unmount.
    pub call: Vec<Call>,
    /// Functions that build the arguments of those lines.
    pub function: Vec<Function>,
    /// Lines that look like a mount but are not.
    pub other: Vec<Site>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Call {
    /// The kind of volume, or another reason.
    pub used_by: String,
    pub site: Site,
    /// The function around the line, and the digest of its text: see [`Function`].
    pub function: String,
    pub digest: String,
    /// The command lines that are then executed, in order. `W` is a folder.
    pub lines: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Function {
    pub module: String,
    pub file: String,
    pub name: String,
    /// The digest of its text: see [`crate::golang::digest`].
    pub digest: String,
}

/// A line of source.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Site {
    pub module: String,
    pub file: String,
    pub source: String,
}

/// The programs that the kubelet would execute and the node does not ship.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Programs {
    pub program: Vec<Program>,
    pub other: Vec<Other>,
    pub module: Vec<Module>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Program {
    pub name: String,
    /// The feature of the kubelet that needs it.
    pub used_for: String,
    /// The effect that a user of this node sees, such as an event, with its text.
    pub seen: String,
    /// Phrases of `seen` that are in the source, each with its file.
    pub phrases: Vec<Phrase>,
    /// The lines that execute it.
    pub sites: Vec<Site>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Phrase {
    pub module: String,
    pub file: String,
    pub text: String,
}

/// A line that executes none of the programs for the table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Other {
    /// Why not.
    #[serde(rename = "why")]
    pub _why: String,
    pub site: Site,
}

/// A module that the kubelet is built from and that executes programs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Module {
    pub path: String,
    /// The folders that the kubelet is built from.
    pub folders: Vec<String>,
}

pub fn calls() -> Calls {
    toml::from_str(include_str!("../../calls.toml")).unwrap()
}

pub fn programs() -> Programs {
    toml::from_str(include_str!("../../programs.toml")).unwrap()
}
