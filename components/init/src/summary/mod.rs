//! The summary of the node, for people at its screen or serial line, and for `osctl status`: its
//! network, time, cluster, slot and last errors, and what is wrong with them in words. It is pure;
//! [`observed`] reads the kernel.

pub mod cluster_report;
pub mod errors;
pub mod observed;
pub mod pace;
mod problems;

use std::net::IpAddr;
use std::time::Duration;

use osbuild_ranks::Source;

use crate::data::room::Left;
use crate::meminfo::Memory;
use crate::routes::Gateway;

pub use self::problems::{Kind, Problem};

/// The state of the node that the summary is about.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// How long the node has been running.
    pub uptime: Duration,
    /// When it was ready, since boot.
    pub ready: Option<Duration>,
    /// The kubelet's name of the node, or its host name.
    pub node_name: String,
    /// Whether the kubelet runs, and so the pods that set addresses and the clock.
    pub kubelet_runs: bool,
    /// The addresses, each `ADDRESS/PREFIX-LENGTH on LINK`.
    pub addresses: Vec<String>,
    /// The network devices.
    pub links: Vec<Link>,
    /// The gateways in use, at most one of each family.
    pub gateways: Vec<GatewayState>,
    /// The name servers.
    pub name_servers: Servers,
    /// The time servers.
    pub time_servers: Servers,
    /// The time of day, in UTC.
    pub time: String,
    /// How many time servers agreed on it: `2 of 3 servers`. Empty if none has in this boot.
    pub confirmed_by: String,
    /// The place of the node in its cluster.
    pub cluster: Cluster,
    /// The daemons that have failed, and how often in a row.
    pub failing: Vec<(&'static str, u32)>,
    /// The slot that runs, and the sentence of slotboot about it.
    pub slot: Option<(&'static str, String)>,
    /// Whether slotboot has passed over the slot that comes first in the boot order.
    pub passed_over: bool,
    /// The use of memory, if the kernel shows it.
    pub memory: Option<Memory>,
    /// The settings that are not in effect, each with the reason.
    pub unmet: Vec<(String, String)>,
    /// The free share of DATA, once it has been measured.
    pub room: Option<Left>,
}

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Whether it is switched on.
    pub is_on: bool,
    /// Whether it has a carrier.
    pub has_carrier: bool,
    /// Whether it asks for an address with DHCP.
    pub asks: bool,
    /// The source that has decided that, if it does not.
    pub decided_by: Option<Source>,
}

/// A gateway in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayState {
    /// The gateway.
    pub gateway: Gateway,
    /// Whether it answers. `None` if that is unknown.
    pub answers: Option<bool>,
}

/// Servers, and the source that has named them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Servers {
    /// Their names or addresses, with one space between.
    pub names: String,
    /// The source.
    pub source: Option<Source>,
}

/// The place of the node in its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cluster {
    /// It has none.
    #[default]
    None,
    /// It has one, which has not been asked yet.
    Unknown,
    /// The cluster does not report it as Ready: the reason.
    NotReady(String),
    /// The cluster reports it as Ready.
    Ready,
}

impl Summary {
    /// The problems of the node, the most urgent first.
    pub fn problems(&self) -> Vec<Problem> {
        problems::of(self)
    }

    /// The lines for the consoles: one for each fact, problem and error.
    pub fn lines(&self, problems: &[Problem], errors: &[String]) -> Vec<String> {
        let mut lines = vec![
            self.node(),
            format!("address {}", self.addresses()),
            format!("gateway {}", self.gateways()),
            format!("DNS {}", self.name_servers.text()),
            format!("time {}", self.clock()),
            format!("cluster {}", self.cluster.text()),
        ];
        lines.extend(self.slot.iter().map(|(name, sentence)| format!("slot {name}: {sentence}")));
        lines.extend(self.resources());
        lines.extend(problems.iter().map(|problem| format!("PROBLEM {}", problem.text)));
        lines.extend(errors.iter().map(|error| format!("error {error}")));
        lines
    }

    fn node(&self) -> String {
        let name = &self.node_name;
        match self.ready {
            Some(ready) => format!("node {name}, ready after {} s", ready.as_secs()),
            None => format!("node {name}, not ready after {} s", self.uptime.as_secs()),
        }
    }

    fn addresses(&self) -> String {
        if self.addresses.is_empty() { "none".to_owned() } else { self.addresses.join(", ") }
    }

    fn gateways(&self) -> String {
        let text = |state: &GatewayState| {
            let Gateway { address, link, .. } = &state.gateway;
            let silent = if state.answers == Some(false) { ", which does not answer" } else { "" };
            format!("{address} on {link}{silent}")
        };
        match self.gateways.is_empty() {
            true => "none".to_owned(),
            false => self.gateways.iter().map(text).collect::<Vec<_>>().join("; "),
        }
    }

    fn clock(&self) -> String {
        let time = &self.time;
        match self.confirmed_by.as_str() {
            "" => format!("{time}, unconfirmed; servers: {}", self.time_servers.text()),
            by => format!("{time}, set by {by}"),
        }
    }

    fn resources(&self) -> Option<String> {
        let memory = self.memory.map(|Memory { total, available, .. }| {
            format!("memory {available} of {total} MiB available")
        });
        let room = self.room.map(|[space, inodes]| {
            format!("DATA {space} % of the space and {inodes} % of the inodes free")
        });
        let texts: Vec<String> = memory.into_iter().chain(room).collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }
}

impl Servers {
    fn text(&self) -> String {
        match (self.names.as_str(), self.source) {
            ("", _) => "none".to_owned(),
            (names, Some(source)) => format!("{names} ({})", source.name()),
            (names, None) => names.to_owned(),
        }
    }
}

impl Cluster {
    fn text(&self) -> &str {
        match self {
            Self::None => "none",
            Self::Unknown => "not asked yet",
            Self::NotReady(_) => "not Ready",
            Self::Ready => "Ready",
        }
    }
}

impl GatewayState {
    /// Its IPv4 address, if it has one. IPv6 gateways announce themselves.
    pub fn ipv4(&self) -> Option<std::net::Ipv4Addr> {
        match self.gateway.address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A node without a problem.
    pub fn healthy() -> Summary {
        let address = "10.0.2.2".parse().unwrap();
        let gateway = Gateway { metric: 1024, address, link: "eth0".to_owned() };
        Summary {
            uptime: Duration::from_secs(100),
            ready: Some(Duration::from_millis(12_513)),
            node_name: "edge".to_owned(),
            kubelet_runs: true,
            addresses: vec!["10.0.2.15/24 on eth0".to_owned()],
            links: vec![link("eth0")],
            gateways: vec![GatewayState { gateway, answers: Some(true) }],
            name_servers: Servers { names: "10.0.2.3".to_owned(), source: Some(Source::Dhcp) },
            time_servers: Servers { names: "10.0.2.4".to_owned(), source: Some(Source::Image) },
            time: "2026-11-27T17:30:00Z".to_owned(),
            confirmed_by: "3 of 3 servers".to_owned(),
            slot: Some(("SLOT-A", "good".to_owned())),
            memory: Some(Memory { total: 1967, available: 1500, files: 10 }),
            room: Some([40, 90]),
            ..Summary::default()
        }
    }

    pub fn link(name: &str) -> Link {
        let name = name.to_owned();
        Link { name, is_on: true, has_carrier: true, asks: true, decided_by: None }
    }

    #[test]
    fn a_healthy_node_is_a_line_for_each_fact() {
        let summary = healthy();
        assert_eq!(
            summary.lines(&summary.problems(), &[]),
            [
                "node edge, ready after 12 s",
                "address 10.0.2.15/24 on eth0",
                "gateway 10.0.2.2 on eth0",
                "DNS 10.0.2.3 (dhcp)",
                "time 2026-11-27T17:30:00Z, set by 3 of 3 servers",
                "cluster none",
                "slot SLOT-A: good",
                "memory 1500 of 1967 MiB available, DATA 40 % of the space and 90 % of the inodes \
                 free",
            ]
        );
    }

    #[test]
    fn a_sick_node_shows_its_problems_and_last_errors() {
        let mut summary = healthy();
        summary.ready = None;
        summary.addresses.clear();
        summary.gateways.clear();
        summary.confirmed_by.clear();
        summary.cluster = Cluster::NotReady("it is away".to_owned());
        let lines = summary.lines(&summary.problems(), &["kubelet: no such file".to_owned()]);
        for line in [
            "node edge, not ready after 100 s",
            "address none",
            "gateway none",
            "time 2026-11-27T17:30:00Z, unconfirmed; servers: 10.0.2.4 (image)",
            "cluster not Ready",
            "PROBLEM no address: no DHCP server has answered on eth0",
            "PROBLEM the cluster does not report the node as Ready: it is away",
            "error kubelet: no such file",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line}: {lines:#?}");
        }
    }
}
