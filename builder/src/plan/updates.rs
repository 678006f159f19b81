//! Where a node gets its updates.

use super::{Content, RootFile};
use osbuild_abi::paths;
use osbuild_abi::update::Settings;
use osbuild_release::Channel;

/// The section `[updates]` of a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Updates {
    /// The recipe whose releases the node takes: its own.
    pub recipe: String,
    /// The TUF repository.
    pub url: String,
    /// The channel that the node follows.
    pub channel: Channel,
    /// The root of trust: a file of the project, which no plan reads.
    pub root: String,
    /// How many seconds the node waits between two looks.
    pub interval_s: u64,
    /// The recipe's security epoch: no release of a lower one is taken.
    pub security_epoch: u32,
}

impl Updates {
    /// What the root holds for it.
    pub(super) fn files(&self) -> [RootFile; 2] {
        let Updates { recipe, url, channel, root, interval_s, security_epoch } = self;
        let settings =
            Settings { url, channel: channel.name(), recipe, interval_s: *interval_s, security_epoch: *security_epoch }
                .to_string();
        [(paths::UPDATE_ROOT, Content::File(root.clone())), (paths::UPDATE_SETTINGS, Content::Text(settings))]
            .map(|(path, content)| RootFile { path: path.to_owned(), mode: 0o644, content })
    }
}
