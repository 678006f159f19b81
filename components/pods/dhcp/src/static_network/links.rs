//! Makes, changes and removes links of the kernel through rtnetlink.

use std::io;

use osbuild_protocol::{
    Bond, BondMode, Bridge, HashPolicy, LacpRate, LinkName, MadeLink, VlanProtocol,
};
use osbuild_rtnetlink::{BY_SETTING, Request, nested};

use crate::link_kind::{
    BOND_HASH_POLICY, BOND_LACP_RATE, BOND_MIIMON, BOND_MODE, BOND_PRIMARY, BRIDGE_STP,
    BRIDGE_VLAN_FILTERING, BondNumbers, LinkKind, VLAN_ID, VLAN_PROTOCOL,
};
use crate::netlink::{EXECUTE, LINK, Link, Netlink};

/// The flags of a request that makes a link, which must not exist.
const CREATE: i32 = EXECUTE | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
/// The group of links that this program has made. The kernel sets it as it makes the link.
pub(crate) const GROUP: u32 = BY_SETTING as u32;

/// A link that becomes a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewPort {
    /// Its index.
    pub index: u32,
    /// Whether it is on.
    pub is_on: bool,
    /// Whether a setting switches it off.
    pub stays_off: bool,
    /// Whether it becomes one of a bond.
    pub is_of_bond: bool,
}

impl Netlink {
    /// Makes a link. A VLAN has the link with the index `parent`.
    pub fn create_link(
        &mut self,
        name: &LinkName,
        made: &MadeLink,
        parent: Option<u32>,
    ) -> io::Result<()> {
        let info = info_of(made, false);
        let request = Request::new(libc::RTM_NEWLINK, CREATE, &[0; LINK])
            .with(libc::IFLA_IFNAME, &[name.as_str().as_bytes(), b"\0"].concat())
            .with(libc::IFLA_GROUP, &GROUP.to_ne_bytes())
            .with(libc::IFLA_LINKINFO, &info);
        self.execute(match parent {
            Some(index) => request.with(libc::IFLA_LINK, &index.to_ne_bytes()),
            None => request,
        })
    }

    /// Gives the link with this index the options of a setting.
    pub fn set_link_options(&mut self, index: u32, made: &MadeLink) -> io::Result<()> {
        let info = info_of(made, true);
        let request = Request::new(libc::RTM_NEWLINK, EXECUTE, &fixed(index));
        self.execute(request.with(libc::IFLA_LINKINFO, &info))
    }

    /// Has the bond with this index prefer a port, or none with the index 0.
    pub fn set_primary(&mut self, index: u32, port: u32) -> io::Result<()> {
        let data = nested(&[(BOND_PRIMARY, &port.to_ne_bytes())]);
        let info = nested(&[(libc::IFLA_INFO_KIND, b"bond"), (libc::IFLA_INFO_DATA, &data)]);
        let request = Request::new(libc::RTM_NEWLINK, EXECUTE, &fixed(index));
        self.execute(request.with(libc::IFLA_LINKINFO, &info))
    }

    /// Makes a link a port of the link with the index `master`. One that is taken is off for a
    /// moment, and one that a bridge refuses, or that is busy, stays on.
    pub fn attach_port(&mut self, port: NewPort, master: u32) -> io::Result<()> {
        let index = port.index;
        match self.set_master(index, master) {
            // It keeps no IPv6 address and no route of its own.
            Ok(()) if port.is_on => self.switch_off(index)?,
            Ok(()) => {}
            // A bond takes a link only while it is off.
            Err(error) if port.is_on && port.is_of_bond && !is_busy(&error) => {
                self.switch_off(index)?;
                if let Err(error) = self.set_master(index, master) {
                    return self.switch_on(index).and(Err(error));
                }
            }
            Err(error) => return Err(error),
        }
        // A bond switches on what it takes.
        if port.stays_off { self.switch_off(index) } else { self.switch_on(index) }
    }

    /// Makes a link a port of none.
    pub fn release_port(&mut self, index: u32) -> io::Result<()> {
        self.set_master(index, 0)
    }

    fn set_master(&mut self, index: u32, master: u32) -> io::Result<()> {
        let request = Request::new(libc::RTM_NEWLINK, EXECUTE, &fixed(index));
        self.execute(request.with(libc::IFLA_MASTER, &master.to_ne_bytes()))
    }

    /// Removes the link with this index. One that went with its parent is gone as well.
    pub fn remove_link(&mut self, index: u32) -> io::Result<()> {
        match self.execute(Request::new(libc::RTM_DELLINK, EXECUTE, &fixed(index))) {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(()),
            outcome => outcome,
        }
    }
}

/// Whether the kernel has refused a port that carries other links, such as a macvlan.
fn is_busy(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBUSY)
}

/// The fixed part of a message about the link with this index.
fn fixed(index: u32) -> Vec<u8> {
    [[0; 4], index.to_ne_bytes(), [0; 4], [0; 4]].concat()
}

/// The kind of a link and its options. A link of WireGuard gets its own by another family of
/// netlink.
fn info_of(made: &MadeLink, is_there: bool) -> Vec<u8> {
    let (kind, data) = (made.kind().as_bytes(), data_of(made, is_there));
    let all = [(libc::IFLA_INFO_KIND, kind), (libc::IFLA_INFO_DATA, &data)];
    nested(if data.is_empty() { &all[..1] } else { &all })
}

/// The options of a link, as the kernel takes them: of a new link, those that differ from the
/// kernel's own. A kernel without VLAN filtering takes not even its absence, and a bond no option
/// that its mode does not have.
fn data_of(made: &MadeLink, is_there: bool) -> Vec<u8> {
    match made {
        MadeLink::Vlan(vlan) => nested(&[
            (VLAN_ID, &vlan.id().to_ne_bytes()),
            (VLAN_PROTOCOL, &ethertype(vlan.protocol()).to_be_bytes()),
        ]),
        MadeLink::Bridge(Bridge { stp, vlan_filtering, .. }) => {
            let (stp, filtering) = (u32::from(*stp).to_ne_bytes(), [u8::from(*vlan_filtering)]);
            let both = [(BRIDGE_STP, &stp[..]), (BRIDGE_VLAN_FILTERING, &filtering)];
            nested(if is_there || *vlan_filtering { &both } else { &both[..1] })
        }
        MadeLink::Bond(bond) => {
            let BondNumbers { mode, miimon, hash_policy, lacp_rate } = numbers(bond);
            let miimon = miimon.to_ne_bytes();
            let others = [(BOND_HASH_POLICY, &[hash_policy]), (BOND_LACP_RATE, &[lacp_rate])];
            let others = others.into_iter().filter(|(_, value)| **value != [0]);
            let others = others.map(|(option, value)| (option, &value[..]));
            let first = [(BOND_MODE, &[mode][..]), (BOND_MIIMON, &miimon)];
            nested(&first.into_iter().chain(others).collect::<Vec<_>>())
        }
        MadeLink::WireGuard(_) => Vec::new(),
    }
}

/// How a link differs from what a setting makes, apart from its parent and its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// It does not.
    None,
    /// In options that the kernel can change.
    Options,
    /// In what only another link can be.
    Kind,
}

/// Compares a link with what a setting makes.
pub fn difference(link: &Link, made: &MadeLink) -> Difference {
    match (made, &link.kind) {
        (MadeLink::Vlan(vlan), kind) => {
            let wanted = LinkKind::Vlan(vlan.id(), ethertype(vlan.protocol()));
            if *kind == wanted { Difference::None } else { Difference::Kind }
        }
        (MadeLink::Bridge(Bridge { stp, vlan_filtering, .. }), kind @ LinkKind::Bridge { .. }) => {
            let wanted = LinkKind::Bridge { stp: *stp, vlan_filtering: *vlan_filtering };
            if *kind == wanted { Difference::None } else { Difference::Options }
        }
        (MadeLink::Bond(bond), LinkKind::Bond(found, _)) if *found == numbers(bond) => {
            Difference::None
        }
        (MadeLink::WireGuard(_), LinkKind::WireGuard) => Difference::None,
        (MadeLink::Bridge(_) | MadeLink::Bond(_) | MadeLink::WireGuard(_), _) => Difference::Kind,
    }
}

/// The kernel's numbers for the options of a bond (`BOND_MODE_…`, `BOND_XMIT_POLICY_…`).
fn numbers(bond: &Bond) -> BondNumbers {
    BondNumbers {
        mode: match bond.mode() {
            BondMode::BalanceRr => 0,
            BondMode::ActiveBackup => 1,
            BondMode::BalanceXor => 2,
            BondMode::Broadcast => 3,
            BondMode::Lacp => 4,
            BondMode::BalanceTlb => 5,
            BondMode::BalanceAlb => 6,
        },
        miimon: bond.miimon(),
        hash_policy: match bond.xmit_hash_policy() {
            HashPolicy::Layer2 => 0,
            HashPolicy::Layer34 => 1,
            HashPolicy::Layer23 => 2,
            HashPolicy::Encap23 => 3,
            HashPolicy::Encap34 => 4,
            HashPolicy::VlanSrcMac => 5,
        },
        lacp_rate: match bond.lacp_rate() {
            LacpRate::Slow => 0,
            LacpRate::Fast => 1,
        },
    }
}

/// The number of a protocol (`ETH_P_8021Q`, `ETH_P_8021AD`).
fn ethertype(protocol: VlanProtocol) -> u16 {
    match protocol {
        VlanProtocol::Dot1Q => 0x8100,
        VlanProtocol::Dot1Ad => 0x88a8,
    }
}
