//! The labels and taints of the registered node, which two children read from the cluster: `init
//! cluster` writes them to a file below `/run`, and `init node-condition` has them in its report.

use std::collections::BTreeMap;

use osbuild_failure::Outcome;
use osbuild_protocol::{Setting, SettingName};

use crate::host::run_files;

/// The file.
const FILE: &str = "/run/osbuild/kubelet/node-object";

/// The start of each line about them in a report. Another line has it alone, as there may be none.
const HAS: &str = "has:";

/// The labels and taints of the registered node, as a child read them last.
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

    /// The lines of a report.
    pub fn report(&self) -> String {
        let text = self.text();
        let lines = text.lines().map(|line| format!("{HAS}{line}\n"));
        std::iter::once(format!("{HAS}\n")).chain(lines).collect()
    }

    /// Separates them from the other lines of a report. There are none if it has not even the line
    /// that stands alone.
    pub fn split(report: &str) -> (Option<Found>, String) {
        let (has, others): (Vec<&str>, Vec<&str>) =
            report.lines().partition(|line| line.starts_with(HAS));
        let text = |lines: Vec<&str>| lines.iter().map(|line| format!("{line}\n")).collect();
        let has: Vec<&str> = has.iter().filter_map(|line| line.strip_prefix(HAS)).collect();
        let found = (!has.is_empty()).then(|| Found::parse(&has.join("\n")));
        (found, text(others))
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
