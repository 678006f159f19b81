//! The files that the child `init kubelet-config` writes: two configurations, of which the kubelet
//! reads one, and the list of the fields that a drop-in on DATA overrides.

use std::collections::BTreeMap;

use osbuild_failure::Outcome;
use osbuild_protocol::KubeletKey;

use crate::daemons::kubelet_config::{JOINED, STANDALONE};
use crate::host::run_files;

/// The file with a line `KEY NAME` for each field that the drop-in of this name sets.
const OVERRIDDEN: &str = "/run/osbuild/kubelet/overridden-fields";
/// The kubelet's configurations.
const CONFIGURATIONS: [&str; 2] = [STANDALONE, JOINED];

/// The texts of the configurations, as the child has written them last.
#[derive(Default, PartialEq, Eq)]
pub struct Files([Option<String>; CONFIGURATIONS.len()]);

impl Files {
    /// Reads them.
    pub fn read() -> Files {
        Files(CONFIGURATIONS.map(run_files::read))
    }

    /// Writes those again that another program has changed. Returns a line for the console for
    /// each.
    pub fn hold(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (path, text) in CONFIGURATIONS.into_iter().zip(&self.0) {
            let Some(text) = text else { continue };
            if run_files::read(path).as_ref() == Some(text) {
                continue;
            }
            lines.push(match run_files::write(path, text) {
                Ok(()) => format!("another program changed `{path}`, it is as before again"),
                Err(failure) => failure.to_string(),
            });
        }
        lines
    }
}

/// Writes which fields a drop-in overrides, each with the name of that.
pub fn write_overridden(fields: &[(KubeletKey, String)]) -> Outcome {
    let lines = fields.iter().map(|(key, name)| {
        let name = name.replace(char::is_control, "?");
        format!("{key} {name}\n")
    });
    let text: String = lines.collect();
    run_files::set(OVERRIDDEN, (!text.is_empty()).then_some(text.as_str()))
}

/// The fields that a drop-in overrides, each with the name of that.
pub fn overridden() -> BTreeMap<KubeletKey, String> {
    let text = run_files::read(OVERRIDDEN).unwrap_or_default();
    let pair = |line: &str| {
        let (key, name) = line.split_once(' ')?;
        Some((KubeletKey::parse(key).ok()?, name.to_owned()))
    };
    text.lines().filter_map(pair).collect()
}
