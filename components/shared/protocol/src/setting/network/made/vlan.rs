//! VLANs.

use std::fmt;

use super::super::LinkName;
use super::super::options::{Options, number};
use crate::Refusal;

/// The identifiers that a VLAN can have (IEEE 802.1Q): the first one and the last one.
const IDS: (u16, u16) = (1, 4094);

/// A VLAN of a link: what the parent receives with this tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vlan {
    id: u16,
    parent: LinkName,
    protocol: VlanProtocol,
}

/// Which tags the packets of a VLAN have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VlanProtocol {
    /// Those of ordinary VLANs.
    #[default]
    Dot1Q,
    /// Those of service providers, around those of ordinary VLANs.
    Dot1Ad,
}

impl Vlan {
    /// The VLAN with this identifier. An empty `protocol` is that of ordinary VLANs.
    ///
    /// # Errors
    /// No VLAN has the identifier or the protocol, or no link the name of the parent.
    pub fn new(id: u32, parent: &str, protocol: &str) -> Result<Self, Refusal> {
        let (first, last) = IDS;
        let id = u16::try_from(id).ok().filter(|id| (first..=last).contains(id));
        let refuse = || Refusal::malformed(format!("the `id` of a VLAN is {first} to {last}"));
        let protocol = match protocol {
            "" => VlanProtocol::default(),
            word => VlanProtocol::parse(word)?,
        };
        Ok(Self { id: id.ok_or_else(refuse)?, parent: LinkName::parse(parent)?, protocol })
    }

    pub(super) fn of_options(options: &mut Options) -> Result<Self, Refusal> {
        let id = options.expect("id")?;
        let refuse = || Refusal::malformed(format!("`{id}` is not the `id` of a VLAN"));
        let id = number(id).ok_or_else(refuse)?;
        Self::new(id, options.expect("parent")?, options.take("protocol").unwrap_or_default())
    }

    pub(super) fn words(&self) -> String {
        let Self { id, parent, protocol } = self;
        let protocol = match protocol {
            VlanProtocol::Dot1Q => String::new(),
            VlanProtocol::Dot1Ad => format!(" protocol={protocol}"),
        };
        format!("id={id} parent={parent}{protocol}")
    }

    /// Its identifier.
    pub fn id(&self) -> u16 {
        self.id
    }

    /// The link that carries it.
    pub fn parent(&self) -> &LinkName {
        &self.parent
    }

    /// Its tags.
    pub fn protocol(&self) -> VlanProtocol {
        self.protocol
    }
}

impl VlanProtocol {
    fn parse(word: &str) -> Result<Self, Refusal> {
        let both = [Self::Dot1Q, Self::Dot1Ad];
        let found = both.into_iter().find(|one| one.word().eq_ignore_ascii_case(word));
        found.ok_or_else(|| Refusal::malformed("the `protocol` of a VLAN is `802.1Q` or `802.1ad`"))
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Dot1Q => "802.1Q",
            Self::Dot1Ad => "802.1ad",
        }
    }
}

impl fmt::Display for VlanProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vlan_has_an_identifier_that_switches_know() {
        for id in [1, 4094] {
            assert_eq!(Vlan::new(id, "eth0", "").unwrap().words(), format!("id={id} parent=eth0"));
        }
        for id in [0, 4095, 65537] {
            assert!(Vlan::new(id, "eth0", "").is_err(), "{id}");
        }
        assert_eq!(Vlan::new(5, "eth0", "802.1q").unwrap().protocol(), VlanProtocol::Dot1Q);
        assert_eq!(Vlan::new(5, "eth0", "802.1AD").unwrap().protocol(), VlanProtocol::Dot1Ad);
        assert!(Vlan::new(5, "eth0", "802.1x").is_err());
        assert!(Vlan::new(5, "lo", "").is_err());
    }
}
