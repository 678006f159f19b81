//! Bridges.

use super::super::options::Options;
use super::Ports;
use crate::Refusal;

/// A bridge: the machines behind its ports are in one network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridge {
    /// Its ports.
    pub ports: Ports,
    /// Whether it finds loops with the Spanning Tree Protocol (IEEE 802.1D), and opens them.
    pub stp: bool,
    /// Whether a packet only leaves through ports of its VLAN.
    pub vlan_filtering: bool,
}

impl Bridge {
    pub(super) fn of_options(options: &mut Options) -> Result<Self, Refusal> {
        Ok(Self {
            ports: Ports::of_option(options.take("ports"))?,
            stp: options.take_switch("stp")?,
            vlan_filtering: options.take_switch("vlan-filtering")?,
        })
    }

    pub(super) fn words(&self) -> String {
        let Self { ports, stp, vlan_filtering } = self;
        let ports = if ports.is_empty() { String::new() } else { format!(" ports={ports}") };
        let stp = if *stp { " stp=on" } else { "" };
        let vlan_filtering = if *vlan_filtering { " vlan-filtering=on" } else { "" };
        format!("{ports}{stp}{vlan_filtering}").trim_start().to_owned()
    }
}
