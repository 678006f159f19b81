//! The settings that the image gives its node: `[node]` of the recipe.

use super::{Content, RootFile};
use osbuild_abi::paths::IMAGE_SETTINGS;

/// The section `[node]` of a recipe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSettings {
    /// Its keys, `kubelet.labels`, each with its value in TOML on one line.
    pub keys: Vec<(String, String)>,
    /// Its settings as `init` reads them, one on each line.
    pub lines: Vec<String>,
}

impl NodeSettings {
    /// The file in the root of the node, if there are settings.
    pub fn file(&self) -> Option<RootFile> {
        let text: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        let content = Content::Text(text);
        let file = RootFile { path: IMAGE_SETTINGS.to_owned(), mode: 0o644, content };
        (!self.lines.is_empty()).then_some(file)
    }
}
