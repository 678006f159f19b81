//! Links that the node makes.

mod bond;
mod bridge;
mod conflicts;
mod name;
mod ports;
mod vlan;
mod wireguard;

pub use bond::{Bond, BondMode, BondOptions, HashPolicy, LacpRate};
pub use bridge::Bridge;
pub use conflicts::link_conflicts;
pub(super) use name::check as check_name;
pub use ports::Ports;
pub use vlan::{Vlan, VlanProtocol};
pub use wireguard::{
    AllowedNetwork, KEY, PeerOptions, PeerState, PublicKey, SecretKey, WireGuard, WireGuardOptions,
    WireGuardPeer, WireGuardState,
};

use super::LinkName;
use super::options::Options;
use crate::Refusal;

/// The kernel's name for links of WireGuard.
const WIREGUARD: &str = "wireguard";

/// A link that the node makes, without its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MadeLink {
    /// A VLAN of another link.
    Vlan(Vlan),
    /// A bridge.
    Bridge(Bridge),
    /// A bond.
    Bond(Bond),
    /// A link of WireGuard.
    WireGuard(WireGuard),
}

impl MadeLink {
    /// Reads the words that [`Self::words`] writes.
    pub(super) fn parse(words: &str) -> Result<Self, Refusal> {
        let (kind, options) = words.split_once(' ').unwrap_or((words, ""));
        let mut options = Options::parse("a link", options)?;
        let made = match kind {
            "vlan" => Self::Vlan(Vlan::of_options(&mut options)?),
            "bridge" => Self::Bridge(Bridge::of_options(&mut options)?),
            "bond" => Self::Bond(Bond::of_options(&mut options)?),
            WIREGUARD => Self::WireGuard(WireGuard::of_options(&mut options)?),
            _ => {
                let kinds = "a link is made as `vlan`, `bridge`, `bond` or `wireguard`";
                return Err(Refusal::malformed(kinds));
            }
        };
        options.end().map(|()| made)
    }

    /// The VLAN with this identifier; an empty `protocol` is that of ordinary VLANs.
    ///
    /// # Errors
    /// As [`Vlan::new`].
    pub fn vlan(id: u32, parent: &str, protocol: &str) -> Result<Self, Refusal> {
        Vlan::new(id, parent, protocol).map(Self::Vlan)
    }

    /// The bridge of these ports.
    ///
    /// # Errors
    /// As [`Ports::parse`].
    pub fn bridge(ports: &[String], stp: bool, vlan_filtering: bool) -> Result<Self, Refusal> {
        let ports = Ports::parse(ports.iter().map(String::as_str))?;
        Ok(Self::Bridge(Bridge { ports, stp, vlan_filtering }))
    }

    /// The bond of these ports.
    ///
    /// # Errors
    /// As [`Ports::parse`] and [`Bond::new`].
    pub fn bond(ports: &[String], options: BondOptions) -> Result<Self, Refusal> {
        let ports = Ports::parse(ports.iter().map(String::as_str))?;
        Bond::new(ports, options).map(Self::Bond)
    }

    /// The one description of several for which there is a value.
    ///
    /// # Errors
    /// There are two.
    pub fn only<const N: usize>(
        link: &str,
        descriptions: [Option<Self>; N],
    ) -> Result<Option<Self>, Refusal> {
        let mut found = descriptions.into_iter().flatten();
        match (found.next(), found.next()) {
            (Some(one), Some(other)) => {
                let (one, other) = (one.kind(), other.kind());
                let reason = format!("`{link}` cannot be both a {one} and a {other}");
                Err(Refusal::malformed(reason))
            }
            (only, _) => Ok(only),
        }
    }

    /// The kernel's name for such a link.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Vlan(_) => "vlan",
            Self::Bridge(_) => "bridge",
            Self::Bond(_) => "bond",
            Self::WireGuard(_) => WIREGUARD,
        }
    }

    /// The kind and the options as words with one space between, with all secrets.
    pub(super) fn words(&self) -> String {
        let options = match self {
            Self::Vlan(vlan) => vlan.words(),
            Self::Bridge(bridge) => bridge.words(),
            Self::Bond(bond) => bond.words(),
            Self::WireGuard(link) => link.words(),
        };
        format!("{} {options}", self.kind()).trim_end().to_owned()
    }

    /// The same without secrets.
    pub(super) fn redacted(&self) -> String {
        match self {
            Self::WireGuard(link) => format!("{} {}", self.kind(), link.redacted()),
            _ => self.words(),
        }
    }

    /// Its ports.
    pub fn ports(&self) -> impl Iterator<Item = &LinkName> {
        let ports = match self {
            Self::Vlan(_) | Self::WireGuard(_) => None,
            Self::Bridge(bridge) => Some(&bridge.ports),
            Self::Bond(bond) => Some(bond.ports()),
        };
        ports.into_iter().flat_map(Ports::iter)
    }

    /// The links that carry it: its parent, or its ports.
    pub fn lower_links(&self) -> impl Iterator<Item = &LinkName> {
        let parent = match self {
            Self::Vlan(vlan) => Some(vlan.parent()),
            Self::Bridge(_) | Self::Bond(_) | Self::WireGuard(_) => None,
        };
        parent.into_iter().chain(self.ports())
    }
}

#[cfg(test)]
mod tests {
    use crate::Setting;

    #[test]
    fn every_link_that_is_made_is_one_line() {
        for line in [
            "link eth0.5 made vlan id=5 parent=eth0",
            "link outer made vlan id=4094 parent=eth0 protocol=802.1ad",
            "link br0 made bridge",
            "link bond0 made bond mode=802.3ad ports=eth1,eth2 lacp-rate=fast \
             xmit-hash-policy=layer3+4",
            "link br0 made bridge ports=eth1,eth2 stp=on vlan-filtering=on",
        ] {
            assert_eq!(Setting::parse(line).unwrap().to_string(), line);
        }
    }

    #[test]
    fn a_link_that_cannot_be_made_is_refused() {
        for line in [
            "link eth0.5 made",
            "link eth0.5 made vlan",
            "link eth0.5 made vlan id=5",
            "link eth0.5 made vlan id=05 parent=eth0",
            "link eth0.5 made vlan id=4095 parent=eth0",
            "link eth0.5 made vlan id=5 id=6 parent=eth0",
            "link eth0.5 made vlan id=5 parent=eth0 mode=1",
            "link eth0.5 made vlan id=5 parent=",
            "link cni0 made vlan id=5 parent=eth0",
            "link tap0 made tun",
            "link br0 made bridge ports=eth1,eth1",
            "link br0 made bridge ports=eth1 stp=off",
            "link br0 made bridge id=5",
            "link bond0 made bond",
            "link bond0 made bond mode=active-backup lacp-rate=fast",
        ] {
            assert!(Setting::parse(line).is_err(), "{line}");
        }
    }
}
