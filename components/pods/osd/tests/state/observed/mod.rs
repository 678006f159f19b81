//! The resources that `osd` observes on a machine with a network of its own. Needs root, iproute2
//! and util-linux (`unshare`, `setpriv`, `nsenter`).

#[cfg(feature = "node-kernel")]
mod node_kernel;

use crate::kept::get_of;
use crate::osd::{Client, NAMESPACE, Osd, all, channel, code, create, metadata, thing};
use osbuild_cosi::resource::{
    Event, EventType, ListRequest, Resource, WatchOptions, WatchRequest, WatchResponse,
};
use osbuild_protocol::{
    BpfProgram, BpfPrograms, ClientProcess, CniState, Contents, DriverSocket, Fingerprint,
    NodeStatus, Problem, ProcessState, ProcessStatus, Release, Reply, RuntimeClient,
    RuntimeClients, Security, SlotState, SlotStatus, Slots, SlotsStatus, StartReason,
    StorageDriver, StorageDrivers, UpdateReport, UpdaterState,
};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tonic::{Code, Streaming};

const LINKS: &str = "LinkStatuses.osbuild";
const ADDRESSES: &str = "AddressStatuses.osbuild";
const ROUTES: &str = "RouteStatuses.osbuild";

/// How long a change may take until clients see it.
const LIMIT: Duration = Duration::from_secs(1);

/// A program that observes a network of its own, without any capability, as in its pod.
struct Machine {
    osd: Osd,
    client: Client,
    pid: u32,
}

impl Machine {
    async fn start() -> Machine {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("unshare");
        command.args(["--net", "setpriv", "--bounding-set=-all", "--inh-caps=-all"]);
        command.args([env!("CARGO_BIN_EXE_osd"), "--observe", "--socket"]);
        let child = command.arg(folder.path().join("socket")).spawn().unwrap();
        let (pid, osd) = (child.id(), Osd::of(folder, child));
        let client = osd.client().await;
        Machine { osd, client, pid }
    }

    /// Runs `ip` in the network.
    fn ip(&self, arguments: &str) {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.pid)).arg("ip");
        let output = command.args(arguments.split(' ')).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ip {arguments}: {error}");
    }

    /// Sends a signal to the program.
    fn signal(&self, name: &str) {
        let mut command = Command::new("kill");
        let status = command.args(["-s", name, &self.pid.to_string()]).status().unwrap();
        assert!(status.success(), "kill -s {name}");
    }

    /// The events that the kernel has dropped.
    fn drops(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/net/netlink", self.pid)).unwrap();
        let rows = text.lines().skip(1).map(|line| line.split_whitespace().nth(8).unwrap());
        rows.map(|drops| drops.parse::<u64>().unwrap()).sum()
    }

    /// Adds the link `lan0` with a carrier.
    fn add_link(&self) {
        self.ip("link add lan0 type veth peer name lan1");
        self.ip("link set lan1 up");
        self.ip("link set lan0 up");
    }

    /// A watch of what follows.
    async fn watch(&mut self, type_name: &str) -> Streaming<WatchResponse> {
        let options = WatchOptions { bootstrap_contents: true, ..WatchOptions::default() };
        let request = WatchRequest { r#type: type_name.into(), ..all(options) };
        let mut stream = self.client.watch(request).await.unwrap().into_inner();
        loop {
            let events = stream.message().await.unwrap().unwrap().events().unwrap();
            if events.iter().any(is_bootstrapped) {
                return stream;
            }
        }
    }
}

/// The YAML of a spec, without the quotation marks that some words need.
fn yaml(resource: &Resource) -> String {
    resource.spec.clone().unwrap_or_default().yaml_spec.replace('"', "")
}

fn is_bootstrapped(event: &Event) -> bool {
    event.event_type() == EventType::Bootstrapped
}

/// Waits until the watch has shown an event of the resource whose YAML has all these parts.
async fn see(
    stream: &mut Streaming<WatchResponse>,
    event_type: EventType,
    id: &str,
    parts: &[&str],
) {
    let began = Instant::now();
    let mut seen = Vec::new();
    while let Ok(message) = timeout(LIMIT.saturating_sub(began.elapsed()), stream.message()).await {
        for event in message.unwrap().unwrap().events().unwrap() {
            let mut resource = event.resource.clone().unwrap();
            let yaml = yaml(&resource);
            let is_it = metadata(&mut resource).id == id && event.event_type() == event_type;
            if is_it && parts.iter().all(|part| yaml.contains(part)) {
                return;
            }
            let name = event.event_type().as_str_name();
            seen.push(format!("{name} {}: {yaml}", metadata(&mut resource).id));
        }
    }
    panic!("no {event_type:?} of {id} with {parts:?} within {LIMIT:?}, but {seen:#?}");
}

#[tokio::test]
async fn each_change_of_the_network_is_seen_within_a_second() {
    use EventType::{Created, Destroyed, Updated};
    let mut machine = Machine::start().await;
    let links = &mut machine.watch(LINKS).await;
    let addresses = &mut machine.watch(ADDRESSES).await;
    let routes = &mut machine.watch(ROUTES).await;

    machine.ip("link add lan0 address 02:00:00:00:00:07 type veth peer name lan1");
    let made = ["kind: veth", "hardwareAddress: 02:00:00:00:00:07", "mtu: 1500", "up: false"];
    see(links, Created, "lan0", &made).await;
    machine.ip("link set lan1 up");
    machine.ip("link set lan0 up");
    see(links, Updated, "lan0", &["up: true", "carrier: true"]).await;
    machine.ip("address add 192.0.2.7/24 dev lan0");
    let parts = ["address: 192.0.2.7/24", "family: ipv4", "scope: global", "- permanent"];
    see(addresses, Created, "lan0/192.0.2.7/24", &parts).await;
    let parts = ["protocol: kernel", "source: 192.0.2.7", "gateway: \n"];
    see(routes, Created, "lan0/192.0.2.0/24/0", &parts).await;
    machine.ip("route add default via 192.0.2.1 dev lan0 metric 1026 proto dhcp");
    let parts = ["gateway: 192.0.2.1", "metric: 1026", "protocol: dhcp", "type: unicast"];
    see(routes, Created, "lan0/0.0.0.0/0/192.0.2.1/1026", &parts).await;
    machine.ip("link set lan0 mtu 1400");
    see(links, Updated, "lan0", &["mtu: 1400"]).await;
    machine.ip("route delete default");
    see(routes, Destroyed, "lan0/0.0.0.0/0/192.0.2.1/1026", &[]).await;
    machine.ip("address delete 192.0.2.7/24 dev lan0");
    see(addresses, Destroyed, "lan0/192.0.2.7/24", &[]).await;
    machine.ip("link delete lan0");
    see(links, Destroyed, "lan0", &[]).await;
}

/// The kernel reports an address and a link that goes down, not the routes that go with it.
#[tokio::test]
async fn a_route_that_goes_with_its_link_is_gone_too() {
    let mut machine = Machine::start().await;
    machine.add_link();
    machine.ip("address add 192.0.2.7/24 dev lan0");
    machine.ip("route add 198.51.100.0/24 via 192.0.2.1");
    machine.ip("-6 address add 2001:db8::7/64 dev lan0 nodad");
    let id = "lan0/198.51.100.0/24/192.0.2.1/0";
    wait_for(&mut machine.client, ROUTES, id).await;
    let routes = &mut machine.watch(ROUTES).await;
    machine.ip("link set lan0 down");
    see(routes, EventType::Destroyed, id, &[]).await;
}

/// The kernel drops events when a burst of them does not fit into the socket.
#[tokio::test]
async fn a_burst_of_changes_ends_with_what_there_is() {
    let mut machine = Machine::start().await;
    let batch: String = (0..2999).map(|n| format!("{}\n", burst_line(n))).collect();
    let file = machine.osd.socket().with_file_name("batch");
    fs::write(&file, batch).unwrap();
    machine.add_link();
    machine.signal("STOP");
    machine.ip(&format!("-batch {}", file.display()));
    machine.signal("CONT");
    assert!(machine.drops() > 0, "all events have fit");
    let began = Instant::now();
    // The last of them stays.
    while get_of(&mut machine.client, ADDRESSES, "lan0/10.0.11.182/32").await.is_err() {
        assert!(began.elapsed() < 5 * LIMIT);
        tokio::time::sleep(LIMIT / 100).await;
    }
    let request =
        ListRequest { namespace: NAMESPACE.into(), r#type: ADDRESSES.into(), options: None };
    let mut stream = machine.client.list(request).await.unwrap().into_inner();
    let mut ids = Vec::new();
    while let Some(found) = stream.message().await.unwrap() {
        ids.push(metadata(&mut found.resource.unwrap()).id.clone());
    }
    let ipv4 = ids.iter().filter(|id| id.starts_with("lan0/10.")).count();
    assert_eq!(ipv4, 1, "{ids:?}");
}

/// Adds an address and removes it again, except the last one.
fn burst_line(number: u32) -> String {
    let line = |verb: &str, n: u32| {
        let address = std::net::Ipv4Addr::from(0x0a00_0000 + n);
        format!("address {verb} {address}/32 dev lan0")
    };
    match number {
        even if even % 2 == 0 => line("add", even),
        odd => line("delete", odd - 1),
    }
}

#[tokio::test]
async fn a_client_reads_the_kernel_and_writes_no_status() {
    let osd = Osd::start_with(&["--observe", "--accept-any-type"]);
    let client = &mut osd.client().await;
    let kernel = wait_for(client, "KernelInfos.osbuild", "node").await;
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(kernel.contains(&format!("release: {}", release.trim_end())), "{kernel}");
    let mut sent = thing("lan0");
    metadata(&mut sent).r#type = LINKS.into();
    assert_eq!(code(create(client, sent).await), Code::PermissionDenied);
    assert_eq!(code(get_of(client, "SlotStatuses.osbuild", "A").await), Code::NotFound);
}

#[tokio::test]
async fn the_packages_of_a_list_are_seen_or_why_they_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("packages");
    let argument = list.display().to_string();
    let arguments = ["--observe", "--packages", &argument];
    let osd = Osd::start_with(&arguments);
    let status =
        wait_for(&mut osd.client().await, "ObservationStatuses.osbuild", "SbomItems").await;
    assert!(status.contains("packages: No such file or directory"), "{status}");
    fs::write(&list, "pkg:cargo/libc@0.2.191 init,osd\n").unwrap();
    let osd = Osd::start_with(&arguments);
    let item = wait_for(&mut osd.client().await, "SbomItems.osbuild", "cargo/libc@0.2.191").await;
    assert_eq!(
        item,
        "type: cargo\nname: libc\nversion: 0.2.191\ncomponents:\n- init\n- osd\n\
         url: pkg:cargo/libc@0.2.191\n"
    );
}

/// The resources from the report of an `init` that the test serves.
#[tokio::test]
async fn what_init_reports_is_seen_until_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin");
    let _init = serve_status(&socket);
    let argument = socket.display().to_string();
    let osd = Osd::start_with(&["--observe", "--admin", &argument]);
    channel(&osd.socket()).await;
    let client = &mut osd.client().await;
    for (type_name, id, parts) in [
        ("SlotStatuses", "SLOT-A", ["running: true", "version: 1.2.3", "state: good"]),
        ("SlotStatuses", "SLOT-B", ["running: false", "contents: empty", "version: \n"]),
        ("ProcessStatuses", "kubelet", ["state: running", "pid: 42", "sinceMilliseconds: 1500"]),
        ("ProcessStatuses", "containerd", ["state: failed", "pid: 0", "failures: 3"]),
        ("OsImages", "node", ["version: 1.2.3", "sha256: 0123abcd", "sourceEpoch:"]),
        ("UpdateStatuses", "node", ["version: 1.2.3", "phase: waiting", "offeredVersion: 1.2.4"]),
        ("SecurityStates", "node", ["secureBoot: on", "slot: SLOT-A", "lockdown: integrity"]),
        (
            "SecurityStates",
            "node",
            [
                "securityEpoch: 2",
                "firmwareCertificates:\n- sha256:0a0a",
                "apiCertificate: sha256:0b0b",
            ],
        ),
        ("Diagnostics", "gateway", ["problem: the gateway 192.0.2.1 does not answer", "", ""]),
        (
            "CniStatuses",
            "node",
            ["plugins:\n- ptp\n- portmap", "changed: 2026-09-21T", "error: gone"],
        ),
        (
            "StorageDrivers",
            "a.csi",
            ["registrationListens: true", "endpointListens: false", "listens at /p/a.csi/csi.sock"],
        ),
        (
            "BpfPrograms",
            "412",
            ["type: xdp\n", "tag: 000000000000abcd\n", "targets:\n- xdp eth0\n"],
        ),
        (
            "RuntimeClients",
            "812",
            ["program: /bin/kubelet\n", "connections: 2\n", "cgroup: /system/kubelet\n"],
        ),
        ("RuntimeClients", "901-ended", ["pid: 901\n", "connections: 1\n", "ended: true\n"]),
        ("NodeAddresses", "node", ["addresses:", "- 192.0.2.7/24 on eth0", ""]),
    ] {
        let yaml = wait_for(client, &format!("{type_name}.osbuild"), id).await;
        assert!(parts.iter().all(|part| yaml.contains(part)), "{yaml}");
    }
    fs::remove_file(&socket).unwrap();
    let began = Instant::now();
    while get_of(client, "SlotStatuses.osbuild", "SLOT-A").await.is_ok() {
        assert!(began.elapsed() < 20 * LIMIT, "an old status is taken for true");
        tokio::time::sleep(LIMIT / 10).await;
    }
    let yaml = wait_for(client, "ObservationStatuses.osbuild", "SlotStatuses").await;
    assert!(yaml.contains("error: init: "), "{yaml}");
}

/// The YAML of a resource, as soon as there is one.
async fn wait_for(client: &mut Client, type_name: &str, id: &str) -> String {
    for _ in 0..500 {
        if let Ok(found) = get_of(client, type_name, id).await {
            return yaml(&found);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("there is no {id} of {type_name}");
}

/// Answers each request with a status, until the socket's file is gone.
fn serve_status(socket: &Path) -> thread::JoinHandle<()> {
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            stream.write_all(Reply::Node(Box::new(status())).encode().as_bytes()).unwrap();
        }
    })
}

fn security() -> Security {
    Security {
        secure_boot: "on".into(),
        lockdown: "integrity".into(),
        epoch: Some(2),
        certificates: vec![Fingerprint::of(&[0x0a; 32])],
        api: Some(Fingerprint::of(&[0x0b; 32])),
    }
}

fn status() -> NodeStatus {
    let release = Release { version: "1.2.3".into(), sha256: "0123abcd".into() };
    let slot = |name: &str, contents, state| SlotStatus { name: name.into(), contents, state };
    let process = |name: &str, state| ProcessStatus { name: name.into(), state };
    let since = Duration::from_millis(1500);
    NodeStatus {
        uptime: Duration::from_secs(60),
        host_name: "node".into(),
        node_name: "node".into(),
        ready: None,
        security: security(),
        watchdog: "none".into(),
        slots: Slots::Known(SlotsStatus {
            why: "of highest priority".into(),
            started: StartReason::Good,
            passed: None,
            running: slot("SLOT-A", Contents::Release(release), SlotState::Good),
            other: Some(slot("SLOT-B", Contents::Empty, SlotState::NotBootable)),
            is_outage: false,
        }),
        updater: UpdaterState::Reported {
            report: UpdateReport::parse("a window [phase=waiting offered=1.2.4]").unwrap(),
            at: 1_790_000_000,
            is_running: true,
        },
        addresses: vec!["192.0.2.7/24 on eth0".into()],
        processes: vec![
            process("kubelet", ProcessState::Running { pid: 42, since }),
            process("containerd", ProcessState::Failed { times: 3 }),
        ],
        problems: vec![Problem {
            id: "gateway".into(),
            text: "the gateway 192.0.2.1 does not answer".into(),
        }],
        cni: Some(CniState {
            file: "10-pods.conflist".into(),
            plugins: vec!["ptp".into(), "portmap".into()],
            changed: 1_790_000_000,
            error: "gone".into(),
            ..CniState::default()
        }),
        storage_drivers: Some(StorageDrivers {
            left_out: 0,
            drivers: vec![StorageDriver {
                name: "a.csi".into(),
                registration: Some(DriverSocket {
                    path: "/r/a.csi-reg.sock".into(),
                    listens: true,
                }),
                endpoint: Some(DriverSocket { path: "/p/a.csi/csi.sock".into(), listens: false }),
            }],
        }),
        bpf_programs: Some(BpfPrograms {
            left_out: 0,
            programs: vec![BpfProgram {
                id: 412,
                program_type: "xdp".into(),
                tag: 0xabcd,
                target_count: 1,
                targets: vec!["xdp eth0".into()],
                ..BpfProgram::default()
            }],
        }),
        runtime_clients: Some(runtime_clients()),
    }
}

/// The kubelet, and a process that has ended.
fn runtime_clients() -> RuntimeClients {
    let kubelet = ClientProcess {
        program: "/bin/kubelet".into(),
        cgroup: "/system/kubelet".into(),
        ..ClientProcess::default()
    };
    let clients = vec![
        RuntimeClient { pid: 812, connections: 2, process: Some(kubelet) },
        RuntimeClient { pid: 901, connections: 1, process: None },
    ];
    RuntimeClients { left_out: 0, clients }
}
