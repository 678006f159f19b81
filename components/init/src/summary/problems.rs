//! The problems of a node, in words that name the cause as far as `init` sees it.

use std::time::Duration;

use osbuild_ranks::Source;

use super::{Cluster, Link, Summary};
use crate::data::room;
use crate::meminfo::Memory;

/// How long a node may take to get an address, to learn the time, and to apply its settings.
const GRACE: Duration = Duration::from_secs(60);
/// The share of the memory in percent that has to be available.
const MIN_MEMORY: u64 = 10;
/// How often a daemon has to fail in a row: it may fail once while the node changes.
const FAILURES: u32 = 2;

/// The kind of a problem. A node has one of each at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// This daemon fails.
    Daemon(&'static str),
    /// The node has no address.
    Address,
    /// The node has no gateway, or one that does not answer.
    Gateway,
    /// The node has no name server.
    NameServer,
    /// No time server has confirmed the clock.
    Time,
    /// The cluster does not report the node as Ready.
    Cluster,
    /// Memory is used up.
    Memory,
    /// DATA lacks this: space or inodes.
    Data(&'static str),
    /// Settings are not in effect.
    Setting,
    /// The first slot was passed over.
    Slot,
}

impl Kind {
    /// The word for programs.
    pub fn id(self) -> String {
        let word = match self {
            Self::Daemon(name) => return format!("daemon-{name}"),
            Self::Data(resource) => return format!("data-{resource}"),
            Self::Address => "address",
            Self::Gateway => "gateway",
            Self::NameServer => "name-server",
            Self::Time => "time",
            Self::Cluster => "cluster",
            Self::Memory => "memory",
            Self::Setting => "setting",
            Self::Slot => "slot",
        };
        word.to_owned()
    }
}

/// A problem of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its kind.
    pub kind: Kind,
    /// The problem and its cause, in words.
    pub text: String,
}

impl Problem {
    /// The problem as the clients of `init` see it.
    pub fn for_clients(&self) -> osbuild_protocol::Problem {
        osbuild_protocol::Problem { id: self.kind.id(), text: self.text.clone() }
    }

    /// Whether another address or gateway could solve it.
    pub fn is_of_network(&self) -> bool {
        matches!(self.kind, Kind::Address | Kind::Gateway)
    }
}

/// All problems, the most urgent first.
pub fn of(summary: &Summary) -> Vec<Problem> {
    let is_late = summary.uptime >= GRACE;
    let mut found: Vec<(Kind, String)> = Vec::new();
    for (daemon, times) in summary.failing.iter().filter(|(_, times)| *times >= FAILURES) {
        found.push((
            Kind::Daemon(daemon),
            format!("the {daemon} has failed {times} times, one after another"),
        ));
    }
    let has_address = !summary.addresses.is_empty();
    if !has_address && (is_late || summary.ready.is_some()) {
        found.push((Kind::Address, format!("no address: {}", no_address(summary))));
    }
    if has_address {
        found.extend(gateway(summary).map(|text| (Kind::Gateway, text)));
        if summary.name_servers.names.is_empty() {
            found.push((Kind::NameServer, "no name server is set".to_owned()));
        }
    }
    let asks_time = !summary.time_servers.names.is_empty();
    if is_late && asks_time && summary.confirmed_by.is_empty() {
        let text = format!("no time server confirms the clock: {}", summary.time_servers.text());
        found.push((Kind::Time, text));
    }
    if let Cluster::NotReady(reason) = &summary.cluster {
        let text = format!("the cluster does not report the node as Ready: {reason}");
        found.push((Kind::Cluster, text));
    }
    found.extend(summary.memory.and_then(memory).map(|text| (Kind::Memory, text)));
    let room = summary.room.map(room::lacks).unwrap_or_default();
    found.extend(room.into_iter().map(|(kind, text)| (Kind::Data(kind), format!("DATA: {text}"))));
    if is_late {
        found.extend(unmet(&summary.unmet).map(|text| (Kind::Setting, text)));
    }
    if let (true, Some((name, sentence))) = (summary.passed_over, &summary.slot) {
        found.push((Kind::Slot, format!("the node fell back to {name}: {sentence}")));
    }
    found.into_iter().map(|(kind, text)| Problem { kind, text }).collect()
}

/// Why no link has an address.
fn no_address(summary: &Summary) -> String {
    let links = &summary.links;
    if !summary.kubelet_runs {
        return "the kubelet does not run, so no pod sets one".to_owned();
    }
    let reason = |link: &Link| {
        let name = &link.name;
        if !link.asks {
            let by = link.decided_by.map_or("", Source::name);
            format!("{name} has no static address, and its DHCP is off ({by})")
        } else if !link.is_on {
            format!("{name} is switched off")
        } else if !link.has_carrier {
            format!("{name} has no carrier, so its cable or its switch is at fault")
        } else {
            format!("no DHCP server has answered on {name}")
        }
    };
    match links.is_empty() {
        true => "the kernel has found no network device".to_owned(),
        false => links.iter().map(reason).collect::<Vec<_>>().join("; "),
    }
}

fn gateway(summary: &Summary) -> Option<String> {
    let Some(silent) = summary.gateways.iter().find(|one| one.answers == Some(false)) else {
        return summary
            .gateways
            .is_empty()
            .then(|| "no gateway: the node reaches its own networks only".to_owned());
    };
    let gateway = &silent.gateway;
    Some(format!("the gateway {} on {} does not answer", gateway.address, gateway.link))
}

/// The first setting that is not in effect, and how many others are not.
fn unmet(settings: &[(String, String)]) -> Option<String> {
    let ((name, error), others) = settings.split_first()?;
    let others = match others.len() {
        0 => String::new(),
        1 => ", and another setting is not either".to_owned(),
        count => format!(", and {count} other settings are not either"),
    };
    Some(format!("`{name}` is not in effect{others}: {error}"))
}

fn memory(Memory { total, available, files }: Memory) -> Option<String> {
    let is_low = available * 100 < total * MIN_MEMORY;
    is_low.then(|| {
        format!(
            "{available} of {total} MiB of memory are available; files in memory (tmpfs) have \
             {files} MiB"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{healthy, link};
    use super::super::{GatewayState, Servers};
    use super::*;

    fn texts(summary: &Summary) -> Vec<String> {
        summary.problems().into_iter().map(|problem| problem.text).collect()
    }

    /// The only problem of a node that was healthy before this change.
    fn only(change: impl FnOnce(&mut Summary)) -> String {
        let mut summary = healthy();
        change(&mut summary);
        let mut texts = texts(&summary);
        assert_eq!(texts.len(), 1, "{texts:?}");
        texts.remove(0)
    }

    #[test]
    fn a_healthy_node_has_no_problem() {
        assert_eq!(texts(&healthy()), [""; 0]);
    }

    #[test]
    fn a_missing_address_has_its_cause() {
        let without = |change: fn(&mut Link)| {
            only(|summary| {
                summary.addresses.clear();
                let mut eth0 = link("eth0");
                change(&mut eth0);
                summary.links = vec![eth0];
            })
        };
        assert_eq!(without(|_| ()), "no address: no DHCP server has answered on eth0");
        assert_eq!(without(|link| link.is_on = false), "no address: eth0 is switched off");
        assert_eq!(
            without(|link| link.has_carrier = false),
            "no address: eth0 has no carrier, so its cable or its switch is at fault"
        );
        let off = |link: &mut Link| {
            (link.asks, link.decided_by) = (false, Some(Source::Document));
        };
        assert_eq!(
            without(off),
            "no address: eth0 has no static address, and its DHCP is off (document)"
        );
        let text = only(|summary| {
            summary.addresses.clear();
            summary.kubelet_runs = false;
        });
        assert_eq!(text, "no address: the kubelet does not run, so no pod sets one");
        let text = only(|summary| {
            summary.addresses.clear();
            summary.links.clear();
        });
        assert_eq!(text, "no address: the kernel has found no network device");
    }

    #[test]
    fn a_node_that_boots_may_still_wait_for_address_and_time() {
        let mut summary = healthy();
        (summary.ready, summary.uptime) = (None, Duration::from_secs(10));
        summary.addresses.clear();
        summary.confirmed_by.clear();
        assert_eq!(texts(&summary), [""; 0]);
    }

    #[test]
    fn a_gateway_is_missing_or_silent() {
        let silent = |one: &mut GatewayState| one.answers = Some(false);
        assert_eq!(
            only(|summary| summary.gateways.iter_mut().for_each(silent)),
            "the gateway 10.0.2.2 on eth0 does not answer"
        );
        assert_eq!(
            only(|summary| summary.gateways.clear()),
            "no gateway: the node reaches its own networks only"
        );
        let mut summary = healthy();
        summary.gateways.iter_mut().for_each(|one| one.answers = None);
        assert_eq!(texts(&summary), [""; 0], "nobody has asked it yet");
    }

    #[test]
    fn servers_of_time_and_names_are_missing() {
        assert_eq!(
            only(|summary| summary.confirmed_by.clear()),
            "no time server confirms the clock: 10.0.2.4 (image)"
        );
        let mut summary = healthy();
        summary.confirmed_by.clear();
        summary.time_servers = Servers::default();
        assert_eq!(texts(&summary), [""; 0], "the recipe may want none");
        assert_eq!(
            only(|summary| summary.name_servers = Servers::default()),
            "no name server is set"
        );
    }

    #[test]
    fn memory_and_room_run_out() {
        let memory = Memory { total: 1967, available: 90, files: 1500 };
        assert_eq!(
            only(|summary| summary.memory = Some(memory)),
            "90 of 1967 MiB of memory are available; files in memory (tmpfs) have 1500 MiB"
        );
        assert!(only(|summary| summary.room = Some([0, 90])).starts_with("DATA: no space left"));
    }

    #[test]
    fn settings_are_not_in_effect() {
        let one = ("volume data".to_owned(), "DATA has 12 MiB left".to_owned());
        assert_eq!(
            only(|summary| summary.unmet = vec![one.clone()]),
            "`volume data` is not in effect: DATA has 12 MiB left"
        );
        assert_eq!(
            only(|summary| summary.unmet = vec![one.clone(); 3]),
            "`volume data` is not in effect, and 2 other settings are not either: DATA has 12 MiB \
             left"
        );
        let summary = Summary { uptime: Duration::from_secs(10), unmet: vec![one], ..healthy() };
        assert_eq!(texts(&summary), [""; 0], "the node may still be about to apply it");
    }

    #[test]
    fn daemons_cluster_and_slot_are_problems() {
        assert_eq!(
            only(|summary| summary.failing = vec![("kubelet", 4), ("containerd", 1)]),
            "the kubelet has failed 4 times, one after another"
        );
        assert_eq!(
            only(|summary| summary.cluster = Cluster::NotReady("no route".to_owned())),
            "the cluster does not report the node as Ready: no route"
        );
        let sentence = "good; passed over SLOT-B: its header is damaged";
        let text = only(|summary| {
            (summary.passed_over, summary.slot) = (true, Some(("SLOT-A", sentence.to_owned())));
        });
        assert_eq!(text, format!("the node fell back to SLOT-A: {sentence}"));
    }
}
