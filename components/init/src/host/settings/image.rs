//! The settings of the recipe. PID 1 reads no TOML: the builder writes them to a file of the signed
//! root, one on each line.

use osbuild_abi::paths::IMAGE_SETTINGS;
use osbuild_protocol::{Refusal, Setting};

/// The settings of the file, which is missing if the recipe has none.
pub fn settings() -> impl Iterator<Item = Result<Setting, Refusal>> {
    let text = std::fs::read_to_string(IMAGE_SETTINGS).unwrap_or_default();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.into_iter().map(|line| Setting::parse(&line))
}
