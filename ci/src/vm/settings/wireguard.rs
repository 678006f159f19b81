//! Resources make two links of WireGuard, each of which is the other's peer: over the loopback, as
//! the check has one node.

use super::node::{Node, yaml};
use crate::check::Outcome;
use osbuild::error::{Error, Result};

/// The types of the resources, of their statuses, and of what the node has.
const LINKS: &str = "Links";
const SETTING_STATUSES: &str = "LinkSettingStatuses";
const STATUSES: &str = "LinkStatuses";

/// Keys of `wg genkey` and `wg genpsk`: that of the first link, as the node makes one for the
/// second.
pub const PRIVATE: &str = "+C5uPI+LwtD0ASrcA8O3unwdwbH4oh00+FQs+0Pho28=";
const PRESHARED: &str = "fLmJ9BhXlT775w7OqmDU8dZ59elGcl03roySZp5gvs4=";
/// The private one's public key, of `wg pubkey`.
const PUBLIC: &str = "zRuQcVmYT+vZkRoOpvYf3mNUFJB91KzglSi6pph9cx8=";
/// The names and the ports of the links.
const NAMES: [&str; 2] = ["wg0", "wg1"];
const PORTS: [u16; 2] = [51820, 51821];

/// The spec of a link whose peer has this public key. The first one looks for the other, which
/// waits for it.
fn spec(at: usize, peer: &str) -> String {
    let (name, port, other) = (NAMES[at], PORTS[at], 1 - at);
    let (key, place) = match at {
        0 => (
            format!("privateKey: {PRIVATE}, "),
            format!(", endpoint: '127.0.0.1:{}', persistentKeepalive: 1", PORTS[other]),
        ),
        _ => (String::new(), String::new()),
    };
    let peer = format!(
        "{{publicKey: {peer}, presharedKey: {PRESHARED}, allowedIps: 10.7.0.{}/32{place}}}",
        other + 1
    );
    format!("{{link: {name}, wireguard: {{{key}listenPort: {port}, peers: [{peer}]}}}}")
}

/// The public keys of both, as the status of the second one has its own.
fn public_keys(node: &Node) -> Result<[String; 2]> {
    let name = NAMES[1];
    let own = |yaml: &str| {
        let line = yaml.lines().find_map(|line| line.trim().strip_prefix("publicKey: "));
        line.map(|key| key.replace('"', ""))
    };
    let status = node.resource_with(SETTING_STATUSES, name, |yaml| own(yaml).is_some())?;
    let own = own(yaml(&status));
    let own = own.ok_or_else(|| Error::build(format!("`{name}` has no public key: {status}")))?;
    Ok([PUBLIC.to_owned(), own])
}

/// The node makes them and the key of one, they agree on keys, and their statuses have the public
/// keys and the time. Nobody reads the others back.
pub fn reach_each_other(node: &Node, outcome: &mut Outcome) -> Result<()> {
    node.create(LINKS, NAMES[1], &spec(1, PUBLIC))?;
    let [_, own] = public_keys(node)?;
    node.create(LINKS, NAMES[0], &spec(0, &own))?;
    agree(node, "two links of WireGuard agree on keys", outcome)?;
    for name in NAMES {
        let is_it = |yaml: &str| {
            ["kind: wireguard", "mtu: 1420", "up: true"].iter().all(|part| yaml.contains(part))
        };
        let status = node.resource_with(STATUSES, name, is_it)?;
        let claim = format!("the node has the link of WireGuard `{name}`");
        outcome.check(&claim, is_it(yaml(&status)), || status.to_string());
        let shown = node.resource(LINKS, name)?.to_string();
        let has_key = [PRIVATE, PRESHARED].iter().any(|key| shown.contains(key));
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
    let keys = public_keys(node)?;
    for (at, name) in NAMES.into_iter().enumerate() {
        let parts = [
            format!("publicKey: {}", keys[at]),
            format!("listenPort: {}", PORTS[at]),
            format!("publicKey: {}", keys[1 - at]),
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
