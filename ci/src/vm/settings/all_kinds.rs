//! One try changes settings of all kinds, and leaves none when it is reverted.

use super::node::{Node, TIMEOUT, yaml};
use crate::check::Outcome;
use osbuild::error::Result;
use serde_json::json;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long the try may last, in seconds.
const TRY: u32 = 900;
/// The identifier of all resources.
const ID: &str = "tried";
/// The pause before statuses are read again.
const PAUSE: Duration = Duration::from_secs(1);

/// A resource, and its status.
struct Case {
    /// The singular of its type; the plural of the type of its status.
    types: (&'static str, &'static str),
    spec: &'static str,
    /// The identifier of its status.
    status: &'static str,
    /// A text in the status of one that is in effect.
    shown: &'static str,
}

const fn case(
    types: (&'static str, &'static str),
    spec: &'static str,
    status: &'static str,
    shown: &'static str,
) -> Case {
    Case { types, spec, status, shown }
}

const CASES: [Case; 22] = [
    case(("Hostname", "HostnameStatuses"), "hostname: tried-7", "node", "tried-7"),
    case(("TimeServer", "TimeServerStatuses"), "server: time.tried", "node", "time.tried"),
    case(("Motd", "MotdStatuses"), "text: tried", "node", "tried"),
    case(
        ("KernelParameter", "KernelParameterStatuses"),
        "{key: vm.vfs_cache_pressure, value: '77'}",
        ID,
        "current: \"77\"",
    ),
    case(("KernelModule", "KernelModuleStatuses"), "name: dm-crypt", ID, "builtIn: true"),
    case(("Link", "LinkSettingStatuses"), "{link: tried, bridge: {}}", ID, SET),
    case(("Address", "AddressSettingStatuses"), "{link: tried, address: 192.0.2.77/24}", ID, SET),
    case(
        ("Route", "RouteSettingStatuses"),
        "{destination: 198.51.100.0/24, gateway: 10.0.2.2, link: eth0}",
        ID,
        SET,
    ),
    case(
        ("RoutingRule", "RoutingRuleStatuses"),
        "{priority: 2100, from: 203.0.113.77/32, table: 77}",
        ID,
        SET,
    ),
    case(
        ("FirewallRule", "FirewallRuleStatuses"),
        "{name: tried, action: drop, protocol: tcp, ports: [7777]}",
        ID,
        SET,
    ),
    case(
        ("Nat", "NatStatuses"),
        "{name: tried, action: masquerade, link: eth0, sources: [10.77.0.0/24]}",
        ID,
        SET,
    ),
    case(
        ("Mount", "MountStatuses"),
        "{type: tmpfs, source: tried, target: /run/mnt/tried, options: [size=1m]}",
        ID,
        "mounted: true",
    ),
    case(("Volume", "VolumeStatuses"), "{name: tried, folder: true}", ID, "phase: mounted"),
    case(("Swap", "SwapStatuses"), "size: 16Mi", "node", "setBy: api"),
    case(
        ("RegistryMirror", "RegistryMirrorStatuses"),
        "{registry: tried.example, mirrors: [{url: 'https://mirror.example'}]}",
        ID,
        SET,
    ),
    case(
        ("RegistryCredential", "RegistryCredentialStatuses"),
        "{registry: tried.example, username: node, password: pl4nted-s3cret}",
        ID,
        SET,
    ),
    case(
        ("SeccompProfile", "SeccompProfileStatuses"),
        "{name: tried, defaultAction: SCMP_ACT_ALLOW}",
        ID,
        SET,
    ),
    case(
        ("NodeLabel", "NodeLabelStatuses"),
        "{key: example.org/tried, value: a}",
        ID,
        "setBy: api",
    ),
    case(
        ("NodeTaint", "NodeTaintStatuses"),
        "{key: tried, value: a, effect: NoSchedule}",
        ID,
        "setBy: api",
    ),
    case(
        ("StaticPod", "StaticPodStatuses"),
        "{name: tried, hostNetwork: true, terminationGracePeriodSeconds: 2, containers: [{name: \
         ends, image: localhost/probe:1, imagePullPolicy: Never, args: [ends]}]}",
        ID,
        "running: true",
    ),
    case(("KubeletConfig", "KubeletConfigStatuses"), "maxPods: 77", "maxPods", "current: \"77\""),
    case(
        ("Proxy", "ProxyStatuses"),
        "{https: 'http://proxy.tried:3128', noProxy: [.example]}",
        "node",
        "proxy.tried",
    ),
];

/// The end of the status of a setting that is in effect.
const SET: &str = "set: true";

/// All are in effect, and after the end of the try all statuses are what they were.
pub fn leave_nothing(node: &Node, outcome: &mut Outcome) -> Result<()> {
    let before = statuses(node)?;
    node.configure("BeginTry", &json!({ "timeoutSeconds": TRY }))?;
    let documents = CASES.map(|case| {
        let (Case { types: (kind, _), spec, .. }, id) = (case, ID);
        format!("type: {kind}\nid: {id}\nspec: {}\n", flow(spec))
    });
    node.configure("Apply", &json!({ "documents": documents.join("---\n") }))?;
    for Case { types: (kind, status_type), status, shown, .. } in &CASES {
        let found = node.resource_with(status_type, status, |yaml| yaml.contains(shown))?;
        let holds = yaml(&found).contains(shown);
        outcome.check(&format!("a {kind} is tried"), holds, || found.to_string());
    }
    node.configure("RevertTry", &json!({}))?;
    let began = Instant::now();
    loop {
        let after = statuses(node)?;
        if after == before || began.elapsed() > TIMEOUT {
            let claim = "nothing is left of a try of all kinds";
            outcome.check(claim, after == before, || different(&before, &after));
            return Ok(());
        }
        sleep(PAUSE);
    }
}

/// A mapping as one value.
fn flow(spec: &str) -> String {
    if spec.starts_with('{') { spec.to_owned() } else { format!("{{{spec}}}") }
}

/// The specs of the statuses of all types, each with its type.
fn statuses(node: &Node) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for Case { types: (_, status_type), .. } in &CASES {
        let found = node.resources(status_type)?;
        let mut specs: Vec<String> =
            found.iter().map(|one| format!("{status_type}: {}", yaml(one))).collect();
        specs.sort();
        all.extend(specs);
    }
    Ok(all)
}

fn different(before: &[String], after: &[String]) -> String {
    let only = |these: &[String], those: &[String]| -> Vec<String> {
        these.iter().filter(|one| !those.contains(one)).cloned().collect()
    };
    format!("before: {:?}, after: {:?}", only(before, after), only(after, before))
}
