//! Resources set the host name, the name servers and the time servers of the node, over what the
//! network gives it.

use super::document;
use super::node::{Node, yaml};
use super::{BY_EVENT, took_effect, was_repaired};
use crate::check::Outcome;
use osbuild::error::Result;
use osbuild_abi::paths::{HOSTS, NTP_SERVERS, RESOLV_CONF};
use std::time::Duration;

/// The file of the kernel's host name.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";
/// The resolver that QEMU's network gives.
const NETWORK: &str = "nameserver 10.0.2.3";
/// The number of times that another program overwrites a file in a row.
const STORM: usize = 20;
/// Bytes of a file that `init` does not read.
const HUGE: usize = 300 << 10;

/// A setting: the type and the spec of its resource, its file, and the text of the file with it.
struct Case {
    type_name: &'static str,
    statuses: &'static str,
    spec: &'static str,
    file: &'static str,
    text: &'static str,
    /// The text that another program writes to the file.
    foreign: &'static str,
}

const CASES: [Case; 3] = [
    Case {
        type_name: "Hostnames",
        statuses: "HostnameStatuses",
        spec: "hostname: Edge-7.example.org",
        file: HOST_NAME,
        text: "edge-7.example.org",
        foreign: "stolen",
    },
    Case {
        type_name: "Resolvers",
        statuses: "ResolverStatuses",
        spec: "{nameserver: [192.0.2.53, 'fec0::35'], search: [example.org, local]}",
        file: RESOLV_CONF,
        text: "nameserver 192.0.2.53\nnameserver fec0::35\nsearch example.org local",
        foreign: "nameserver 198.51.100.66",
    },
    Case {
        type_name: "TimeServers",
        statuses: "TimeServerStatuses",
        spec: "server: 'time.example:123'",
        file: NTP_SERVERS,
        text: "time.example:123",
        foreign: "198.51.100.66",
    },
];

/// The texts of the files before the first resource: what the image and the network give.
pub struct Before([String; CASES.len()]);

pub fn observe(node: &Node, outcome: &mut Outcome) -> Result<Before> {
    let status = node.resource_with("ResolverStatuses", "node", |yaml| yaml.contains("dhcp"))?;
    let holds = yaml(&status).contains("\"10.0.2.3\"") && yaml(&status).contains("Source: dhcp");
    outcome.check("a status names the source of what is set", holds, || status.to_string());
    let mut before = CASES.map(|_| String::new());
    for (case, before) in CASES.iter().zip(&mut before) {
        *before = node.read(case.file)?;
    }
    Ok(Before(before))
}

/// A search list alone leaves the name servers of the network in effect, as in the example of
/// COSI's engine of 2021. Then each setting has a resource.
pub fn are_set(node: &Node, outcome: &mut Outcome) -> Result<()> {
    node.create("Resolvers", "local", "search: local")?;
    let within = node.becomes(RESOLV_CONF, &format!("{NETWORK}\nsearch local"))?;
    let claim = "a search list leaves the name servers of the network";
    outcome.check(claim, within.is_some(), || "it does not".into());
    let second = node.create("Resolvers", "second", "search: other");
    outcome.check("a second resolver is refused", second.is_err(), || "it is not".into());
    for Case { type_name, statuses, spec, file, text, .. } in CASES {
        match type_name {
            "Resolvers" => node.update(type_name, "local", "1", spec)?,
            _ => node.create(type_name, "mine", spec)?,
        }
        let within = node.becomes(file, text)?;
        took_effect(&format!("a resource sets {type_name}"), within, outcome);
        let status = node.resource_with(statuses, "node", |yaml| yaml.contains("ource: api"))?;
        let holds = yaml(&status).contains("ource: api") && !yaml(&status).contains("error");
        let claim = format!("the status of {type_name} says so");
        outcome.check(&claim, holds, || status.to_string());
    }
    let hosts = node.read(HOSTS)?;
    let holds = hosts.contains(&format!("127.0.1.1 {}", CASES[0].text));
    outcome.check("the node knows its own name without a name server", holds, || hosts);
    Ok(())
}

/// Returns how long each of them took.
pub fn are_put_back(node: &Node, outcome: &mut Outcome) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    for Case { type_name, file, text, foreign, .. } in CASES {
        node.write(file, foreign)?;
        let claim = format!("{type_name} of another program are replaced");
        times.push(was_repaired(&claim, node.becomes(file, text)?, BY_EVENT, outcome));
    }
    (0..STORM).try_for_each(|_| node.write(RESOLV_CONF, CASES[1].foreign))?;
    let within = node.becomes(RESOLV_CONF, CASES[1].text)?;
    let claim = "a program that overwrites a file again and again does not win";
    outcome.check(claim, within.is_some(), || "it does".into());
    node.write(RESOLV_CONF, &"x".repeat(HUGE))?;
    let within = node.becomes(RESOLV_CONF, CASES[1].text)?;
    outcome.check("a huge file is replaced", within.is_some(), || "it is not".into());
    Ok(times)
}

pub fn are_still_set(node: &Node, claim: &str, outcome: &mut Outcome) -> Result<()> {
    for Case { type_name, file, text, .. } in CASES {
        let found = node.read(file)?;
        outcome.check(&format!("{type_name} {claim}"), found == text, || found);
    }
    Ok(())
}

/// `osd` has made the resources of what `init` holds, so each has the name `node`. The node
/// document has a time server.
pub fn are_given_back(node: &Node, before: &Before, outcome: &mut Outcome) -> Result<()> {
    let [name, resolver, _] = before.0.each_ref().map(String::as_str);
    let expected = [name, resolver, document::TIME_SERVER];
    for (Case { type_name, file, .. }, text) in CASES.iter().zip(expected) {
        node.destroy(type_name, "node")?;
        let within = node.becomes(file, text)?;
        let found = node.read(file)?;
        let claim = format!("without its resource the node has its own {type_name}");
        outcome.check(&claim, within.is_some(), || found);
    }
    let source = "source: document";
    let status = node.resource_with("TimeServerStatuses", "node", |yaml| yaml.contains(source))?;
    let holds = yaml(&status).contains(source);
    outcome.check("a status names the document", holds, || status.to_string());
    Ok(())
}
