//! Resources make two links of WireGuard, each of which is the other's peer: over the loopback, as
//! the check has one node.

use super::node::{Node, yaml};
use crate::check::Outcome;
use osbuild::error::Result;

/// The types of the resources, of their statuses, and of what the node has.
const LINKS: &str = "Links";
const SETTING_STATUSES: &str = "LinkSettingStatuses";
const STATUSES: &str = "LinkStatuses";

/// Keys of `wg genkey` and `wg genpsk`.
pub const PRIVATE: [&str; 2] = [
    "+C5uPI+LwtD0ASrcA8O3unwdwbH4oh00+FQs+0Pho28=",
    "4FMdFgpMCwN4vr4QvvJMzqAlzSzkaLOwu52k1l3djl4=",
];
const PRESHARED: &str = "fLmJ9BhXlT775w7OqmDU8dZ59elGcl03roySZp5gvs4=";
/// The private ones' public keys, of `wg pubkey`.
const PUBLIC: [&str; 2] = [
    "zRuQcVmYT+vZkRoOpvYf3mNUFJB91KzglSi6pph9cx8=",
    "lhDEwrWVBtIhCuAXH12bvf7hxyC7MyJEwCQ+K0n/shY=",
];
/// The names and the ports of the links.
const NAMES: [&str; 2] = ["wg0", "wg1"];
const PORTS: [u16; 2] = [51820, 51821];

/// The spec of a link. The first one looks for the other, which waits for it.
fn spec(at: usize) -> String {
    let (name, private, port) = (NAMES[at], PRIVATE[at], PORTS[at]);
    let other = 1 - at;
    let place = match at {
        0 => format!(", endpoint: '127.0.0.1:{}', persistentKeepalive: 1", PORTS[other]),
        _ => String::new(),
    };
    let peer = format!(
        "{{publicKey: {}, presharedKey: {PRESHARED}, allowedIps: 10.7.0.{}/32{place}}}",
        PUBLIC[other],
        other + 1
    );
    let keys = format!("privateKey: {private}, listenPort: {port}, peers: [{peer}]");
    format!("{{link: {name}, wireguard: {{{keys}}}}}")
}

/// The node makes them, they agree on keys, and their statuses have the public keys and the time.
/// Nobody reads the others back.
pub fn reach_each_other(node: &Node, outcome: &mut Outcome) -> Result<()> {
    for (at, name) in NAMES.into_iter().enumerate() {
        node.create(LINKS, name, &spec(at))?;
    }
    agree(node, "two links of WireGuard agree on keys", outcome)?;
    for name in NAMES {
        let is_it = |yaml: &str| {
            ["kind: wireguard", "mtu: 1420", "up: true"].iter().all(|part| yaml.contains(part))
        };
        let status = node.resource_with(STATUSES, name, is_it)?;
        let claim = format!("the node has the link of WireGuard `{name}`");
        outcome.check(&claim, is_it(yaml(&status)), || status.to_string());
        let shown = node.resource(LINKS, name)?.to_string();
        let has_key = PRIVATE.into_iter().chain([PRESHARED]).any(|key| shown.contains(key));
        let claim = format!("the resource of `{name}` shows no key but the public one");
        outcome.check(&claim, !has_key && shown.contains("(hidden)"), || shown);
    }
    Ok(())
}

/// They agree again at the next boot, and go with their resources.
pub fn outlast_a_power_cut_and_go(node: &Node, outcome: &mut Outcome) -> Result<()> {
    agree(node, "after a power cut the links of WireGuard agree again", outcome)?;
    for name in NAMES {
        node.destroy(LINKS, name)?;
    }
    for name in NAMES {
        let is_gone = node.is_gone(STATUSES, name)?;
        let claim = format!("the link of WireGuard `{name}` goes with its resource");
        outcome.check(&claim, is_gone, || "it is still there".to_owned());
    }
    Ok(())
}

fn agree(node: &Node, claim: &str, outcome: &mut Outcome) -> Result<()> {
    for (at, name) in NAMES.into_iter().enumerate() {
        let parts = [
            format!("publicKey: {}", PUBLIC[at]),
            format!("listenPort: {}", PORTS[at]),
            format!("publicKey: {}", PUBLIC[1 - at]),
            "lastHandshake:".to_owned(),
            "set: true".to_owned(),
        ];
        let is_it = |yaml: &str| {
            // Words that YAML could take for something else have quotation marks.
            let yaml = yaml.replace('"', "");
            parts.iter().all(|part| yaml.contains(part))
        };
        let status = node.resource_with(SETTING_STATUSES, name, is_it)?;
        outcome.check(claim, is_it(yaml(&status)), || status.to_string());
    }
    Ok(())
}
