//! The name of the node in its cluster. An API server lets a node act only under the name in its
//! certificate (NodeRestriction), so the name is chosen once, before the kubelet registers, and
//! kept on DATA as long as the credentials are there. A host name that DHCP gives later changes the
//! host name alone.

use std::path::Path;
use std::time::Duration;

use osbuild_abi::paths::{BOOTSTRAP_KUBECONFIG, KUBECONFIG};
use osbuild_failure::Explain;

use crate::node::Node;
use crate::uptime::uptime;
use crate::{data, hostname, kubelet, kubelet_config, name_file};

/// The file on DATA.
const FILE: &str = "node-name";
/// How long after the kubelet was started a pod may take to tell a host name, before the node joins
/// under the name that it has: `dhcp` runs under that kubelet, so it cannot be asked before.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The same after a pod has told an address: `dhcp` tells the host name right behind it, and
/// another link may take longer.
const TIMEOUT_WITH_ADDRESS: Duration = Duration::from_secs(5);

/// What is known when the kubelet is about to start.
#[derive(Debug, Default)]
struct Known {
    /// Whether there is a kubeconfig, or a bootstrap kubeconfig.
    has_credentials: bool,
    /// The name in the client certificate that the kubelet is going to use, if it has one.
    certified: Option<String>,
    /// The name under which the kubelet was started with these credentials before.
    kept: Option<String>,
    /// The host name that a pod has told, in this boot or an earlier one.
    told: Option<String>,
    /// Whether the wait for that is over.
    has_waited: bool,
}

/// How the kubelet is to be started.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    /// Without a cluster.
    Standalone,
    /// Without a cluster until a pod has told a host name, or the wait is over.
    Wait,
    /// As this node of the cluster.
    Join(String),
}

/// Chooses: `own` is the host name, with which the node joins when nothing better is known.
fn choose(known: Known, own: &str) -> Choice {
    match known {
        Known { has_credentials: false, .. } => Choice::Standalone,
        Known { certified: Some(name), .. } => Choice::Join(name),
        Known { kept: Some(name), .. } => Choice::Join(name),
        Known { told: Some(name), .. } => Choice::Join(name),
        Known { has_waited: true, .. } => Choice::Join(own.to_owned()),
        Known { .. } => Choice::Wait,
    }
}

/// Sets the name for the kubelet that is started next, and whether it waits for one.
pub fn set(node: &mut Node) {
    let now = uptime();
    let has_waited = node.name_due.take().is_some_and(|due| due <= now);
    let known = Known {
        has_credentials: has_credentials(),
        certified: kubelet_config::certified_name(),
        kept: kept(),
        told: hostname::told(),
        has_waited,
    };
    let kept = known.kept.clone();
    node.node_name = match choose(known, &node.host_name) {
        Choice::Standalone => {
            forget(node);
            node.host_name.clone()
        }
        Choice::Wait => {
            wait(node, now);
            node.host_name.clone()
        }
        Choice::Join(name) => {
            if kept.as_ref() != Some(&name) {
                keep(node, &name);
            }
            name
        }
    };
}

/// Whether a kubelet that is started under this name joins the cluster: there are credentials, and
/// this is the name that is kept for them.
pub fn joins(node_name: &str) -> bool {
    has_credentials() && kept().as_deref() == Some(node_name)
}

/// Ends the wait for a host name, as a pod has told it.
pub fn told(node: &mut Node) {
    if node.name_due.is_some() {
        kubelet::start_anew(node);
    } else if node.node_name != node.host_name && joins(&node.node_name) {
        let word = format_args!(
            "the host name is `{}`; in its cluster the node stays `{}`",
            node.host_name, node.node_name
        );
        node.console.say(kubelet::NAME, word);
    }
}

/// Shortens the wait for a host name, as a pod has told an address.
pub fn has_address(node: &mut Node) {
    node.name_due = node.name_due.map(|due| due.min(uptime() + TIMEOUT_WITH_ADDRESS));
}

/// Ends the wait for a host name when its time is over.
pub fn watch(node: &mut Node) {
    if node.end.is_none() && node.name_due.is_some_and(|due| due <= uptime()) {
        kubelet::start_anew(node);
    }
}

fn wait(node: &mut Node, now: Duration) {
    let timeout = if node.addresses.is_empty() { TIMEOUT } else { TIMEOUT_WITH_ADDRESS };
    node.name_due = Some(now + timeout);
    let seconds = timeout.as_secs();
    node.console.say(
        kubelet::NAME,
        format_args!(
            "waits up to {seconds} s for the network to name the node before it joins its cluster"
        ),
    );
}

fn keep(node: &mut Node, name: &str) {
    node.console.say(kubelet::NAME, format_args!("joins its cluster as node `{name}`"));
    let _cover = node.watchdog.cover();
    if let Err(failure) = name_file::keep(FILE, name) {
        node.console.say(kubelet::NAME, failure);
    }
}

fn forget(node: &mut Node) {
    let removed = data::folder()
        .and_then(|data| data.remove(FILE).explain(format_args!("remove {FILE} on DATA")));
    if let Err(failure) = removed {
        node.console.say(kubelet::NAME, failure);
    }
}

/// Whether there is something with which the kubelet can join a cluster.
pub fn has_credentials() -> bool {
    [KUBECONFIG, BOOTSTRAP_KUBECONFIG].iter().any(|path| Path::new(path).exists())
}

fn kept() -> Option<String> {
    name_file::kept(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    fn with_credentials() -> Known {
        Known { has_credentials: true, ..Known::default() }
    }

    #[test]
    fn without_credentials_the_node_joins_nothing_whatever_it_was_called() {
        let known = Known {
            has_credentials: false,
            certified: some("a"),
            kept: some("b"),
            told: some("c"),
            has_waited: true,
        };
        assert_eq!(choose(known, "node-1"), Choice::Standalone);
    }

    #[test]
    fn a_name_from_dhcp_after_the_first_registration_does_not_rename_the_node() {
        let known =
            Known { kept: some("node-d79c5e6d"), told: some("edge-7"), ..with_credentials() };
        assert_eq!(choose(known, "edge-7"), Choice::Join("node-d79c5e6d".to_owned()));
    }

    #[test]
    fn the_name_in_the_client_certificate_counts_before_any_other() {
        let known = Known {
            certified: some("edge-7"),
            kept: some("node-1"),
            told: some("other"),
            ..with_credentials()
        };
        assert_eq!(choose(known, "other"), Choice::Join("edge-7".to_owned()));
    }

    #[test]
    fn the_first_join_takes_the_name_that_the_network_gave() {
        assert_eq!(
            choose(Known { told: some("edge-7"), ..with_credentials() }, "edge-7"),
            Choice::Join("edge-7".to_owned())
        );
    }

    #[test]
    fn the_first_join_waits_for_a_name_and_not_for_ever() {
        assert_eq!(choose(with_credentials(), "node-1"), Choice::Wait);
        assert_eq!(
            choose(Known { has_waited: true, ..with_credentials() }, "node-1"),
            Choice::Join("node-1".to_owned())
        );
    }
}
