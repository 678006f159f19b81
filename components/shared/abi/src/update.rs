//! The settings of a node that updates itself: the lines of [`crate::paths::UPDATE_SETTINGS`], each
//! a key, a space and its value.

use core::fmt;

/// The component whose pod updates the node.
pub const COMPONENT: &str = "updater";

/// The source of updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings<'a> {
    /// The URL of the TUF repository, which has `metadata/` and `targets/`: `http://…`, `https://…`
    /// or `file:///…`.
    pub url: &'a str,
    /// The channel that the node follows.
    pub channel: &'a str,
    /// The recipe of the node.
    pub recipe: &'a str,
    /// Seconds between two checks for an update.
    pub interval_s: u64,
    /// Whether a node in a cluster waits until the cluster grants its reboot.
    pub waits_for_grant: bool,
    /// The security epoch of the image. The node takes no release with a lower one.
    pub security_epoch: u32,
}

impl<'a> Settings<'a> {
    /// Reads the settings; `None` if a line is missing, unknown, duplicate or invalid.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (mut url, mut channel, mut recipe) = (None, None, None);
        let (mut interval, mut waits, mut epoch) = (None, None, None);
        for line in text.lines() {
            let (key, value) = line.split_once(' ')?;
            let place = match key {
                "url" => &mut url,
                "channel" => &mut channel,
                "recipe" => &mut recipe,
                "interval-s" => &mut interval,
                "waits-for-grant" => &mut waits,
                "security-epoch" => &mut epoch,
                _ => return None,
            };
            if place.replace(value).is_some() {
                return None;
            }
        }
        Some(Settings {
            url: url?,
            channel: channel?,
            recipe: recipe?,
            interval_s: interval?.parse().ok()?,
            waits_for_grant: waits?.parse().ok()?,
            security_epoch: epoch?.parse().ok()?,
        })
    }
}

impl fmt::Display for Settings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { url, channel, recipe, interval_s, waits_for_grant, security_epoch } = self;
        write!(
            f,
            "url {url}\nchannel {channel}\nrecipe {recipe}\ninterval-s {interval_s}\n\
             waits-for-grant {waits_for_grant}\nsecurity-epoch {security_epoch}\n"
        )
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    const TEXT: &str = "url https://updates.example/nodes\nchannel stable\nrecipe qemu-amd64\n\
                        interval-s 3600\nwaits-for-grant true\nsecurity-epoch 2\n";

    #[test]
    fn settings_read_back() {
        let settings = Settings::parse(TEXT).unwrap();
        assert_eq!(
            (settings.url, settings.interval_s, settings.security_epoch),
            ("https://updates.example/nodes", 3600, 2)
        );
        assert_eq!(settings.to_string(), TEXT);
    }

    #[test]
    fn a_missing_unknown_or_duplicate_line_is_refused() {
        let lines = || TEXT.split_inclusive('\n');
        for left in 0..6 {
            let some =
                lines().enumerate().filter(|(index, _)| *index != left).map(|(_, line)| line);
            assert_eq!(Settings::parse(&some.collect::<std::string::String>()), None);
        }
        for more in ["more 1\n", "channel stable\n", "\n"] {
            assert_eq!(Settings::parse(&[TEXT, more].concat()), None);
        }
        for (right, wrong) in [("3600", "-1"), ("true", "yes")] {
            assert_eq!(Settings::parse(&TEXT.replace(right, wrong)), None);
        }
    }
}
