//! Where a node gets its updates.

use super::{Content, RootFile};
use osbuild_abi::paths;
use osbuild_abi::update::Settings;
use osbuild_release::Channel;

/// The section `[updates]` of a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Updates {
    /// The TUF repository.
    pub url: String,
    /// The channel that the node follows.
    pub channel: Channel,
    /// The root of trust: a file of the project, which the plan does not read.
    pub root: String,
    /// Seconds between two checks for updates.
    pub interval_s: u64,
    /// Whether a node in a cluster waits until the cluster grants its reboot.
    pub waits_for_grant: bool,
}

impl Updates {
    /// The files with the settings in the root of a node of this recipe and security epoch.
    pub fn files(&self, recipe: &str, security_epoch: u32) -> [RootFile; 2] {
        let Updates { url, channel, root, interval_s, waits_for_grant } = self;
        let settings = Settings {
            url,
            channel: channel.name(),
            recipe,
            interval_s: *interval_s,
            waits_for_grant: *waits_for_grant,
            security_epoch,
        }
        .to_string();
        [
            (paths::UPDATE_ROOT, Content::File(root.clone())),
            (paths::UPDATE_SETTINGS, Content::Text(settings)),
        ]
        .map(|(path, content)| RootFile { path: path.to_owned(), mode: 0o644, content })
    }
}
