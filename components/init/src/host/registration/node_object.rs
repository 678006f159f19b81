//! The labels and taints of the registered node, which the child `init cluster` reads from the
//! cluster and writes to a file below `/run`.

use std::collections::BTreeMap;

use osbuild_failure::Outcome;
use osbuild_protocol::{Setting, SettingName};

use crate::host::run_files;

/// The file.
const FILE: &str = "/run/osbuild/kubelet/node-object";

/// The labels and taints of the registered node, as the child read them last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Its labels that a node may set, and its taints.
    pub settings: BTreeMap<SettingName, String>,
    /// Why labels were not changed; empty if they were, or needed no change.
    pub error: String,
}

impl Found {
    /// Reads the lines that [`Self::text`] writes.
    pub fn parse(text: &str) -> Found {
        let mut found = Found::default();
        for line in text.lines() {
            if let Some(error) = line.strip_prefix("error ") {
                found.error = error.to_owned();
            } else if let Ok(setting) = Setting::parse(line) {
                found.settings.insert(setting.name(), setting.value());
            }
        }
        found
    }

    /// A line for each.
    pub fn text(&self) -> String {
        let settings = self.settings.iter().map(|(name, value)| format!("{name} {value}\n"));
        let error = match self.error.as_str() {
            "" => None,
            error => Some(format!("error {}\n", error.replace(char::is_control, " "))),
        };
        settings.chain(error).collect()
    }
}

/// Writes the file.
pub fn write(found: &Found) -> Outcome {
    run_files::write(FILE, &found.text())
}

/// Reads the file; nothing if it is missing.
pub fn read() -> Found {
    Found::parse(&run_files::read(FILE).unwrap_or_default())
}
