//! Addresses, routes and links as resources, with an `init` whose pod sets all but routes.

use crate::kept::get_of;
use crate::osd::{Client, NAMESPACE, Osd, code, create, metadata, thing};
use osbuild_cosi::resource::TeardownAndDestroyRequest;
use osbuild_cosi::v1::ApplyRequest;
use osbuild_cosi::v1::configuration_client::ConfigurationClient;
use osbuild_protocol::{
    HostSettings, MadeLink, NetworkSetting, Observed, PeerState, PodState, PublicKey, Reply,
    Request, Setting, Socket, WireGuardPeer, WireGuardState,
};
use osbuild_ranks::Source;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tonic::{Code, Status};

const ALL: &str = "{type: Address, id: a, spec: {link: eth0, address: 192.0.2.7/24}}\n---\n\
                   {type: Route, id: r, spec: {link: eth0, destination: 0.0.0.0/0, \
                   gateway: 192.0.2.1}}\n---\n\
                   {type: Link, id: l, spec: {link: eth0, mtu: 1400, dhcp: false, \
                   state: up}}\n---\n\
                   {type: Link, id: v, spec: {link: eth0.5, vlan: {id: 5, parent: eth0}}}\n";
const LINES: [&str; 6] = [
    "address eth0 192.0.2.7 24",
    "link eth0 dhcp off",
    "link eth0 mtu 1400",
    "link eth0 state up",
    "link eth0.5 made vlan id=5 parent=eth0",
    "route 0.0.0.0/0 512 via 192.0.2.1 on eth0",
];
const UNREACHABLE: &str = "Network is unreachable";

/// How often to look again, and the pause in between.
pub const ATTEMPTS: u32 = 1000;
pub const PAUSE: Duration = Duration::from_millis(20);

pub type Held = Arc<Mutex<Vec<Setting>>>;

/// Serves at the socket until the process ends. Returns what it holds.
pub fn start_init(socket: &Path) -> Held {
    let listener = UnixListener::bind(socket).unwrap();
    let held = Held::default();
    let served = held.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let held = served.clone();
            thread::spawn(move || serve(stream.unwrap(), &held));
        }
    });
    held
}

fn serve(mut stream: UnixStream, held: &Mutex<Vec<Setting>>) {
    for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
        let mut held = held.lock().unwrap();
        let mut reply = Reply::Done;
        match Request::decode(Socket::Host, &line).unwrap() {
            Request::Apply(setting) => {
                held.retain(|other| other.name() != setting.name());
                held.push(setting);
            }
            Request::Withdraw(name) => held.retain(|other| other.name() != name),
            Request::Observe => {
                let settings = held.iter().map(observed).collect();
                let pods = held.iter().filter_map(state).collect();
                let wireguard = held.iter().filter_map(tunnel).collect();
                let all = HostSettings { settings, pods, wireguard, ..HostSettings::default() };
                reply = Reply::Settings(all);
            }
            _ => {}
        }
        // The client may have ended.
        let _ = stream.write_all(reply.encode().as_bytes());
    }
}

fn observed(setting: &Setting) -> Observed {
    let name = setting.name();
    let is_route = name.to_string().starts_with("route ");
    let [current, error] = match is_route {
        true => [String::new(), UNREACHABLE.to_owned()],
        false => [setting.shown(), String::new()],
    };
    Observed { name, wanted: Some(setting.clone()), source: Some(Source::Api), current, error }
}

/// The state of a tunnel: each peer has agreed on keys.
fn tunnel(setting: &Setting) -> Option<WireGuardState> {
    let Setting::Network(NetworkSetting::Made(link, MadeLink::WireGuard(tunnel))) = setting else {
        return None;
    };
    let peer = |peer: &WireGuardPeer| PeerState {
        public_key: peer.public_key(),
        endpoint: peer.endpoint(),
        last_handshake: Some(1_790_000_000),
    };
    Some(WireGuardState {
        link: link.clone(),
        public_key: PublicKey::new([7; 32]),
        listen_port: tunnel.listen_port().unwrap_or_default(),
        peers: tunnel.peers().iter().map(peer).collect(),
    })
}

/// The state of a static pod: it runs.
fn state(setting: &Setting) -> Option<PodState> {
    let Setting::StaticPod(pod) = setting else { return None };
    Some(PodState::new(pod.name().clone(), true, 2, "", ""))
}

pub fn lines(held: &Held) -> Vec<String> {
    let mut lines: Vec<String> = held.lock().unwrap().iter().map(Setting::to_string).collect();
    lines.sort();
    lines
}

pub async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..ATTEMPTS {
        if holds() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
    panic!("timed out: {what}");
}

/// The YAML of a status as soon as it `holds`, or at last as it is.
pub async fn status_when(
    client: &mut Client,
    type_name: &str,
    id: &str,
    holds: impl Fn(&str) -> bool,
) -> String {
    let mut yaml = String::new();
    for _ in 0..ATTEMPTS {
        let found = get_of(client, type_name, id).await;
        yaml = found.map(|found| found.spec.unwrap().yaml_spec).unwrap_or_default();
        if holds(&yaml) {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    yaml
}

/// Tears a resource down, and destroys it.
pub async fn destroy(client: &mut Client, type_name: &str, id: &str) {
    let (namespace, r#type, id) = (NAMESPACE.into(), type_name.into(), id.into());
    let default = TeardownAndDestroyRequest::default();
    let request = TeardownAndDestroyRequest { namespace, r#type, id, ..default };
    client.teardown_and_destroy(request).await.unwrap();
}

pub async fn apply(osd: &Osd, documents: &str) -> Result<(), Status> {
    let client = &mut ConfigurationClient::new(osd.channel().await);
    let request = ApplyRequest { documents: documents.to_owned(), dry_run: false };
    client.apply(request).await.map(drop)
}

#[tokio::test]
async fn addresses_routes_and_links_reach_init_and_have_statuses() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    apply(&osd, ALL).await.unwrap();
    until("init holds them", || lines(&held) == LINES).await;

    let client = &mut osd.client().await;
    for (type_name, id, expected) in [
        (
            "AddressSettingStatuses.osbuild",
            "a",
            "link: eth0\naddress: 192.0.2.7/24\nset: true\nversion: \"1\"\n\
             setBy: api\n"
                .to_owned(),
        ),
        (
            "RouteSettingStatuses.osbuild",
            "r",
            format!(
                "destination: 0.0.0.0/0\ngateway: \"192.0.2.1\"\nlink: eth0\nmetric: 512\n\
                 set: false\nerror: {UNREACHABLE}\nversion: \"1\"\nsetBy: api\n"
            ),
        ),
        (
            "LinkSettingStatuses.osbuild",
            "l",
            "link: eth0\nmtu: 1400\ndhcp: false\nset: true\nversion: \"1\"\nstate: up\n\
             setBy: api\n"
                .to_owned(),
        ),
        (
            "LinkSettingStatuses.osbuild",
            "v",
            "link: eth0.5\nset: true\nversion: \"1\"\nvlan:\n  id: 5\n  parent: eth0\n\
             setBy: api\n"
                .to_owned(),
        ),
    ] {
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            let found = get_of(client, type_name, id).await;
            last = found.map(|found| found.spec.unwrap().yaml_spec).unwrap_or_default();
            if last == expected {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        assert_eq!(last, expected);
    }

    destroy(client, "Links.osbuild", "l").await;
    until("init holds the others", || lines(&held) == [LINES[0], LINES[4], LINES[5]]).await;
}

#[tokio::test]
async fn what_no_link_or_route_can_have_is_refused() {
    let osd = Osd::start_with(&[]);
    for document in [
        "{type: Address, id: a, spec: {link: lo, address: 192.0.2.7/24}}",
        "{type: Address, id: a, spec: {link: eth0, address: 127.0.0.1/8}}",
        "{type: Address, id: a, spec: {link: eth0, address: 192.0.2.7}}",
        "{type: Route, id: a, spec: {link: eth0, destination: default}}",
        "{type: Route, id: a, spec: {link: eth0, destination: '::/0', gateway: 192.0.2.1}}",
        "{type: Link, id: a, spec: {link: eth0}}",
        "{type: Link, id: a, spec: {link: eth0, mtu: 100}}",
        "{type: Link, id: a, spec: {link: eth0, state: off}}",
        "{type: Link, id: a, spec: {link: eth0, mtu: 1400}}\n---\n\
         {type: Link, id: b, spec: {link: eth0, dhcp: false}}",
        "{type: Link, id: a, spec: {link: a, bridge: {}, vlan: {id: 5, parent: eth0}}}",
        "{type: Link, id: a, spec: {link: a, bridge: {ports: [eth0, eth0]}}}",
        "{type: Link, id: a, spec: {link: a, bond: {ports: [eth0]}}}",
        "{type: Link, id: a, spec: {link: a, bond: {mode: active-backup, lacpRate: fast}}}",
        "{type: Link, id: a, spec: {link: a, vlan: {id: 0, parent: eth0}}}",
        "{type: Link, id: a, spec: {link: veth0, vlan: {id: 5, parent: eth0}}}",
        "{type: Link, id: a, spec: {link: a, vlan: {id: 5, parent: eth0, mode: 1}}}",
    ] {
        assert_eq!(code(apply(&osd, document).await), Code::InvalidArgument, "{document}");
    }
}

#[tokio::test]
async fn links_that_exclude_each_other_are_refused_at_once() {
    let osd = Osd::start_with(&[]);
    let vlan = |link: &str, parent: &str| {
        format!(
            "{{type: Link, id: {link}, spec: {{link: {link}, vlan: {{id: 5, parent: {parent}}}}}}}"
        )
    };
    let both = format!("{}\n---\n{}", vlan("a", "b"), vlan("b", "a"));
    let refused = apply(&osd, &both).await.unwrap_err();
    assert_eq!(refused.message(), "`a` and `b` cannot carry each other");
    apply(&osd, &vlan("a", "b")).await.unwrap();
    let refused = apply(&osd, &vlan("b", "a")).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert_eq!(refused.message(), "`a` and `b` cannot carry each other");
    let refused = apply(&osd, &vlan("c", "b")).await.unwrap_err();
    assert_eq!(refused.message(), "`a` and `c` are both VLAN 5 of `b`");
    let bridge = |link: &str| {
        format!("{{type: Link, id: {link}, spec: {{link: {link}, bridge: {{ports: eth1}}}}}}")
    };
    apply(&osd, &bridge("br0")).await.unwrap();
    let refused = apply(&osd, &bridge("br1")).await.unwrap_err();
    assert_eq!(refused.message(), "`eth1` cannot be a port of both `br0` and `br1`");
    let bond = "{type: Link, id: a1, spec: {link: a1, bond: {mode: 802.3ad, ports: [eth0, eth1]}}}";
    let refused = apply(&osd, bond).await.unwrap_err();
    assert_eq!(refused.message(), "`eth1` cannot be a port of both `a1` and `br0`");
    // The same with a call of `State`.
    let mut sent = thing("c");
    metadata(&mut sent).r#type = "Links.osbuild".into();
    metadata(&mut sent).namespace = "system".into();
    sent.spec.get_or_insert_default().yaml_spec = "{link: c, vlan: {id: 5, parent: b}}".into();
    let refused = create(&mut osd.client().await, sent).await.unwrap_err();
    assert_eq!(refused.message(), "`a` and `c` are both VLAN 5 of `b`");
}
