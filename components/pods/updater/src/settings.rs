//! The settings that the image has for the pod.

use std::fs;
use std::path::Path;

use osbuild_abi::update::Settings as Lines;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_release::Channel;
use url::Url;

/// Where the releases are, and which of them are for this node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The TUF repository's folder, on a web server or on this node (`file://`).
    pub url: Url,
    /// The channel that the node follows.
    pub channel: Channel,
    /// The recipe that the node was built from.
    pub recipe: String,
    /// Seconds between two checks.
    pub interval_s: u64,
    /// Whether the node asks its cluster before it reboots.
    pub waits_for_grant: bool,
    /// The security epoch of the running image.
    pub security_epoch: u32,
    /// TUF's root metadata: the keys that must have signed the releases.
    pub root: Vec<u8>,
}

impl Settings {
    /// Reads the settings and the root metadata from two files.
    pub fn read(settings: &Path, root: &Path) -> Outcome<Settings> {
        let text =
            fs::read_to_string(settings).explain(format_args!("read {}", settings.display()))?;
        let lines = Lines::parse(&text)
            .ok_or_else(|| Failure::new(format!("{} has invalid settings", settings.display())))?;
        Ok(Settings {
            url: Url::parse(&format!("{}/", lines.url.trim_end_matches('/')))
                .explain(format_args!("read `{}`", lines.url))?,
            channel: lines.channel.parse().explain("read the settings")?,
            recipe: lines.recipe.to_owned(),
            interval_s: lines.interval_s,
            waits_for_grant: lines.waits_for_grant,
            security_epoch: lines.security_epoch,
            root: fs::read(root).explain(format_args!("read {}", root.display()))?,
        })
    }
}
