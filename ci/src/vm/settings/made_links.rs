//! Resources make a VLAN, a bond and a bridge. The kernel of the machine that runs the checks has
//! perhaps none of them, so the node's own does.

use super::node::{Node, yaml};
use crate::check::Outcome;
use osbuild::error::Result;

/// The types of the resources, of their statuses, and of what the node has.
const LINKS: &str = "Links";
const SETTING_STATUSES: &str = "LinkSettingStatuses";
const STATUSES: &str = "LinkStatuses";

/// A link to make: its name, its spec, and parts of what the node has then.
type Made = (&'static str, &'static str, &'static [&'static str]);

/// The links. The first one needs the machine's device, and the last one the bond.
const MADE: [Made; 4] = [
    (
        "storage",
        "{link: storage, vlan: {id: 5, parent: eth0}, mtu: 1400, dhcp: false}",
        &["kind: vlan", "parent: eth0", "vlanId: 5", "mtu: 1400", "up: true"],
    ),
    (
        "bond0",
        "{link: bond0, bond: {mode: 802.3ad, lacpRate: fast}}",
        &["kind: bond", "bondMode: 802.3ad", "master: br0", "up: true"],
    ),
    ("br0", "{link: br0, bridge: {ports: [bond0]}}", &["kind: bridge", "up: true"]),
    ("off0", "{link: off0, bridge: {}, state: down}", &["kind: bridge", "up: false"]),
];

/// The node makes them, as their resources say, and a second link with one of their ports is
/// refused.
pub fn are_made(node: &Node, outcome: &mut Outcome) -> Result<()> {
    for (name, spec, _) in MADE {
        node.create(LINKS, name, spec)?;
    }
    are_there(node, "a resource makes", outcome)?;
    for (name, ..) in MADE {
        let is_set = |yaml: &str| yaml.contains("set: true");
        let status = node.resource_with(SETTING_STATUSES, name, is_set)?;
        let claim = format!("a status says that `{name}` is made");
        outcome.check(&claim, is_set(yaml(&status)), || status.to_string());
    }
    let refused = node.create(LINKS, "br1", "{link: br1, bridge: {ports: [bond0]}}");
    let reason = refused.err().map(|error| format!("{error:?}")).unwrap_or_default();
    let holds = reason.contains("`bond0` cannot be a port of both `br0` and `br1`");
    outcome.check("a port of two links is refused", holds, || reason);
    Ok(())
}

/// They are made again at the next boot, and go with their resources.
pub fn outlast_a_power_cut_and_go(node: &Node, outcome: &mut Outcome) -> Result<()> {
    are_there(node, "after a power cut there is again", outcome)?;
    for (name, ..) in MADE {
        node.destroy(LINKS, name)?;
    }
    for (name, ..) in MADE {
        let claim = format!("`{name}` goes with its resource");
        let is_gone = node.is_gone(STATUSES, name)?;
        outcome.check(&claim, is_gone, || "it is still there".to_owned());
    }
    Ok(())
}

fn are_there(node: &Node, claim: &str, outcome: &mut Outcome) -> Result<()> {
    for (name, _, parts) in MADE {
        let is_it = |yaml: &str| {
            // Words that YAML could take for something else have quotation marks.
            let yaml = yaml.replace('"', "");
            parts.iter().all(|part| yaml.contains(part))
        };
        let status = node.resource_with(STATUSES, name, is_it)?;
        let claim = format!("{claim} `{name}`");
        outcome.check(&claim, is_it(yaml(&status)), || status.to_string());
    }
    Ok(())
}
