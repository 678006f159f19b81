//! Faults of a node document: a gateway that does not exist, name servers and time servers that do
//! not answer, and a field with which the kubelet does not start. All are in one document, so each
//! has to be found beside the others.

use super::desk::Desk;
use crate::vm::time_server::TimeServer;
use osbuild::error::Result;

/// The addresses of the document are for documentation (RFC 5737), and one of QEMU's network that
/// no machine has.
pub const DOCUMENT: &str = r#"time-servers = ["192.0.2.123"]

[resolver]
nameserver = ["192.0.2.53"]

[[routes]]
destination = "0.0.0.0/0"
gateway = "10.0.2.99"
link = "eth0"
metric = 100

[kubelet.config]
systemReserved = { memory = "1000Gi" }
"#;

const GATEWAY: &str = "the gateway 10.0.2.99 on eth0 does not answer";
const TIME: &str = "no time server confirms the clock: 192.0.2.123 (document)";

/// The commands that find each fault, and what they show.
const FINDS: [(&str, &[&str], &[&str]); 5] = [
    ("wrong gateway", &["status"], &[GATEWAY]),
    ("wrong gateway", &["get", "routestatuses"], &["10.0.2.99"]),
    ("no time", &["status"], &[TIME]),
    (
        "kubelet configuration broken",
        KUBELET,
        &["systemReserved.memory", "failed 3 times in a row"],
    ),
    ("wrong DNS", &["get", "resolverstatuses"], &["192.0.2.53", "document"]),
];

const KUBELET: &[&str] = &["get", "kubeletconfigstatuses", "-o", "yaml"];

/// The resources that mend the faults.
const RESOURCES: [(&str, &str); 3] = [
    (
        "gateway",
        "type: Route\nid: default\nspec: {link: eth0, destination: 0.0.0.0/0, gateway: 10.0.2.2, \
         metric: 100}\n",
    ),
    ("dns", "type: Resolver\nid: dns\nspec: {nameserver: [10.0.2.3]}\n"),
    ("kubelet", "type: KubeletConfig\nid: node\nspec: {systemReserved: {memory: 100Mi}}\n"),
];

pub fn are_found(desk: &mut Desk, boot: &str) -> Result<()> {
    for (fault, words, texts) in FINDS {
        desk.finds(&format!("{fault} {boot}"), words, texts)?;
    }
    let dns = ["reach", "dns", "example.org"];
    desk.finds(&format!("wrong DNS {boot}"), &dns, &["192.0.2.53", "FAILED"])
}

pub fn are_mended(desk: &mut Desk, time: &TimeServer) -> Result<()> {
    for (name, text) in RESOURCES {
        desk.apply(name, text)?;
    }
    let server = time.address();
    desk.apply("time", &format!("type: TimeServer\nid: time\nspec: {{server: '{server}'}}\n"))?;
    desk.misses("wrong gateway, DNS and time", &["status"], &["PROBLEM"])?;
    desk.misses("wrong DNS", &["read", "/etc/resolv.conf"], &["192.0.2.53"])?;
    desk.misses("kubelet configuration broken", KUBELET, &["in a row"])
}
