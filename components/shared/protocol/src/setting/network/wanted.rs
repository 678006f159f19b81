//! The reply of `init` to the pod that configures links: the settings that the pod must apply.

use super::{LinkName, Mtu, NetworkSetting, SecretKey};
use crate::Setting;

/// The settings of the network that shall be in effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkSettings {
    /// The number of these settings, which grows with each change within a boot.
    pub revision: u64,
    /// The settings.
    pub settings: Vec<NetworkSetting>,
    /// The MTU that links had before a setting changed it, as the pod has reported it.
    pub former_mtus: Vec<(LinkName, Mtu)>,
    /// The private keys that the node has made, for links of WireGuard without one.
    pub own_keys: Vec<(LinkName, SecretKey)>,
}

impl NetworkSettings {
    /// The lines of a reply, each with its end.
    pub(crate) fn encode(&self) -> String {
        let settings = self.settings.iter().map(|setting| {
            let setting = Setting::Network(setting.clone());
            format!("setting {}\n", setting.line())
        });
        let former = self.former_mtus.iter();
        let former = former.map(|(link, mtu)| format!("former-mtu {mtu} on {link}\n"));
        let keys = self.own_keys.iter();
        let keys = keys.map(|(link, key)| format!("own-key {} of {link}\n", *key.reveal_base64()));
        let lines: String = settings.chain(former).chain(keys).collect();
        format!("revision {}\n{lines}", self.revision)
    }

    /// Reads the lines of a reply. Settings that this release does not know are left out.
    pub(crate) fn decode(lines: &[String]) -> Result<Self, String> {
        let mut wanted = Self::default();
        let mut revision = None;
        for line in lines {
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            match key {
                "revision" => revision = value.parse().ok(),
                "setting" => {
                    if let Ok(Setting::Network(setting)) = Setting::parse(value) {
                        wanted.settings.push(setting);
                    }
                }
                "former-mtu" => wanted.former_mtus.extend(former_mtu(value)),
                "own-key" => wanted.own_keys.extend(own_key(value)),
                _ => {}
            }
        }
        wanted.revision = revision.ok_or("there is no line `revision`")?;
        Ok(wanted)
    }
}

fn former_mtu(value: &str) -> Option<(LinkName, Mtu)> {
    let (mtu, link) = value.split_once(" on ")?;
    Some((LinkName::parse(link).ok()?, Mtu::parse(mtu).ok()?))
}

fn own_key(value: &str) -> Option<(LinkName, SecretKey)> {
    let (key, link) = value.split_once(" of ")?;
    Some((LinkName::parse(link).ok()?, SecretKey::parse("own key", key).ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::KEY;
    use super::*;

    #[test]
    fn a_reply_is_read_as_it_was_written() {
        let setting = |line: &str| match Setting::parse(line) {
            Ok(Setting::Network(setting)) => setting,
            other => panic!("{other:?}"),
        };
        let wanted = NetworkSettings {
            revision: 7,
            settings: vec![
                setting("address eth0 192.0.2.7 24"),
                setting("route 0.0.0.0/0 512 via 192.0.2.1 on eth0"),
            ],
            former_mtus: vec![(LinkName::parse("eth0").unwrap(), Mtu::new(1500).unwrap())],
            own_keys: vec![(LinkName::parse("wg0").unwrap(), SecretKey::new([7; KEY]))],
        };
        let lines: Vec<String> = wanted.encode().lines().map(str::to_owned).collect();
        assert_eq!(NetworkSettings::decode(&lines), Ok(wanted.clone()));
        let newer = ["setting bond eth0", "colour red"].map(str::to_owned);
        let lines: Vec<String> = newer.into_iter().chain(lines).collect();
        assert_eq!(NetworkSettings::decode(&lines), Ok(wanted));
        assert!(NetworkSettings::decode(&[]).is_err());
    }
}
