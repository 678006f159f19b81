//! `OsImages.osbuild`: the release that runs.

use super::rows::Rows;
use super::{ObservedType, slot};
use crate::settings::{NODE, column, names};
use osbuild_abi::cmdline::EPOCH;
use osbuild_cosi::v1::OsImageSpec;
use osbuild_protocol::{Contents, NodeStatus};
use prost_types::Timestamp;

pub const TYPE: ObservedType = ObservedType {
    names: names("OsImages", "OsImage"),
    columns: &[
        column("Version", "{.version}"),
        column("SHA256", "{.sha256}"),
        column("Source epoch", "{.sourceEpoch}"),
    ],
    max_count: 1,
};

/// The spec, from what `init` knows of the running slot and from the kernel's command line.
///
/// # Errors
/// The reason why nothing is known of the slots.
pub fn rows(status: &NodeStatus, command_line: &str) -> Result<Rows<OsImageSpec>, String> {
    let mut spec = OsImageSpec { source_epoch: source_epoch(command_line), ..Default::default() };
    if let Contents::Release(release) = &slot::known(status)?.running.contents {
        spec.version = release.version.clone();
        spec.sha256 = release.sha256.clone();
    }
    let mut rows = Rows::at_most(TYPE.max_count);
    rows.insert(0, NODE.to_owned(), spec);
    Ok(rows)
}

/// The source epoch. Empty if the command line has none.
fn source_epoch(command_line: &str) -> String {
    let mut words = command_line.split_whitespace();
    let seconds = words.find_map(|word| word.strip_prefix(EPOCH)?.strip_prefix('='));
    let seconds = seconds.and_then(|seconds| seconds.parse().ok());
    seconds.map_or_else(String::new, |seconds| Timestamp { seconds, nanos: 0 }.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_epoch_is_a_word_of_the_command_line() {
        let line = "console=ttyS0 osbuild.epoch=1790000000 gpt";
        assert_eq!(source_epoch(line), "2026-09-21T14:13:20Z");
        for line in ["", "osbuild.epochs=1", "osbuild.epoch=soon"] {
            assert_eq!(source_epoch(line), "");
        }
    }
}
