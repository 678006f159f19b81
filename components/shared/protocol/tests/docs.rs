//! The tables of `builder/docs/protocol.md` are those of the code.

use osbuild_protocol::{PassReason, RefusalCode, Request, Socket};

const PAGE: &str = include_str!("../../../../builder/docs/protocol.md");

/// A row of the table of requests: sockets, form, an example, and the data of the reply.
type Row = (&'static [Socket], &'static str, &'static str, &'static str);

const NET: &[Socket] = &[Socket::Net];
const TIME: &[Socket] = &[Socket::Time];
const ADMIN: &[Socket] = &[Socket::Admin];
const UPDATE: &[Socket] = &[Socket::Update];
const HOST: &[Socket] = &[Socket::Host];
const BOOTSTRAP: &[Socket] = &[Socket::Bootstrap];
const RESTARTS: &[Socket] = &[Socket::Admin, Socket::Bootstrap];
const BOTH: &[Socket] = &[Socket::Admin, Socket::Update];

const ROWS: [Row; 38] = [
    (NET, "hostname NAME", "hostname node-1", "none"),
    (NET, "resolv ADDRESS… [search DOMAIN…]", "resolv 10.0.2.3 search example.org", "none"),
    (NET, "ntp ADDRESS…", "ntp 10.0.2.4", "none"),
    (NET, "address ADDRESS/LENGTH… on LINK", "address 10.0.2.15/24 on eth0", "none"),
    (NET, "router-advertisements on LINK", "router-advertisements on eth0", "none"),
    (TIME, "last", "last", "`seen`, `kept`"),
    (TIME, "set MICROSECONDS by AGREEING of ANSWERED", "set 7 by 2 of 3", "none"),
    (TIME, "refused MICROSECONDS by AGREEING of ANSWERED", "refused 7 by 2 of 3", "none"),
    (ADMIN, "status", "status", "the lines of the node and of the slots"),
    (RESTARTS, "restart kubelet", "restart kubelet", "none"),
    (BOTH, "reboot", "reboot", "none"),
    (ADMIN, "power-off", "power-off", "none"),
    (UPDATE, "status", "status", "the lines of the slots"),
    (UPDATE, "slot", "slot", "`length`, and a descriptor"),
    (UPDATE, "try", "try", "none"),
    (UPDATE, "boot-program", "boot-program", "none"),
    (HOST, "apply SETTING VALUE", "apply host-name node-1", "none"),
    (HOST, "withdraw SETTING", "withdraw kernel-parameter vm.swappiness", "none"),
    (HOST, "try SECONDS", "try 60", "none"),
    (HOST, "confirm", "confirm", "none"),
    (HOST, "revert", "revert", "none"),
    (
        HOST,
        "observe",
        "observe",
        "`try`, `start`, `wanted`, `error`, `current`, `pod`, `wireguard`, `cluster`",
    ),
    (HOST, "serves FINGERPRINT", SERVES, "none"),
    (ADMIN, "rollback", "rollback", "none"),
    (UPDATE, "await-check", "await-check", "none"),
    (ADMIN, "check", "check", "none"),
    (ADMIN, "reset", "reset", "none"),
    (BOOTSTRAP, "report TEXT", "report no source has a document", "none"),
    (
        NET,
        "await-network REVISION",
        "await-network 7",
        "`revision`, `setting`, `former-mtu`, `own-key`",
    ),
    (NET, "network-set SETTING VALUE", "network-set address eth0 192.0.2.7 24", "none"),
    (NET, "network-failed SETTING REASON", "network-failed link eth0 mtu too large", "none"),
    (NET, "former-mtu MTU on LINK", "former-mtu 1500 on eth0", "none"),
    (ADMIN, "debug ID RIGHTS SECONDS IMAGE", DEBUG, "none"),
    (ADMIN, "end-debug", "end-debug", "none"),
    (BOOTSTRAP, "volume [after DEVICE]", "volume after vdb", "`volume`, and a descriptor"),
    (NET, "wireguard STATE", STATE, "none"),
    (UPDATE, "progress TEXT [FIELDS]", "progress 1.0.1 runs already [phase=idle]", "none"),
    (ADMIN, "restart containerd", "restart containerd", "none"),
];

/// A request with the state of a link of WireGuard.
const STATE: &str =
    "wireguard wg0 public-key=I2VYQH8unqEV3+Q4DFptm46PcT4LJqU+7euvnbk9pl4= listen-port=51820";

/// A request for a debug container.
const DEBUG: &str = "debug 000102030405060708090a0b0c0d0e0f node 3600 docker.io/library/busybox";

/// A request with a fingerprint.
const SERVES: &str =
    concat!("serves sha256:", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");

/// The row of a request. A new request does not compile before it has one.
fn row(request: &Request) -> usize {
    match request {
        Request::HostName(_) => 0,
        Request::Resolver { .. } => 1,
        Request::TimeServers(_) => 2,
        Request::Addresses { .. } => 3,
        Request::RouterAdvertisements(_) => 4,
        Request::LastSeen => 5,
        Request::ClockSet(_) => 6,
        Request::ClockRefused(_) => 7,
        Request::Status => 8,
        Request::RestartKubelet => 9,
        Request::Reboot => 10,
        Request::PowerOff => 11,
        Request::SlotsStatus => 12,
        Request::OpenSlot => 13,
        Request::TrySlot => 14,
        Request::ReplaceBootProgram => 15,
        Request::Apply(_) => 16,
        Request::Withdraw(_) => 17,
        Request::BeginTry(_) => 18,
        Request::ConfirmTry => 19,
        Request::RevertTry => 20,
        Request::Observe => 21,
        Request::Serves(_) => 22,
        Request::RollBack => 23,
        Request::AwaitCheck => 24,
        Request::CheckNow => 25,
        Request::Reset => 26,
        Request::Bootstrap(_) => 27,
        Request::AwaitNetwork(_) => 28,
        Request::NetworkSet(_) => 29,
        Request::NetworkFailed { .. } => 30,
        Request::FormerMtu { .. } => 31,
        Request::Debug(_) => 32,
        Request::EndDebug => 33,
        Request::OpenVolume { .. } => 34,
        Request::WireGuard(_) => 35,
        Request::Progress(_) => 36,
        Request::RestartContainerd => 37,
    }
}

fn name(socket: &Socket) -> String {
    format!("`{socket:?}`").to_lowercase()
}

#[track_caller]
fn has_table(head: &str, rows: impl Iterator<Item = String>) {
    let table: String = rows.collect();
    let table = format!("{head}\n{table}\n");
    assert!(PAGE.contains(&table), "the page needs this table:\n{table}");
}

#[test]
fn the_page_has_every_socket() {
    let rows =
        Socket::ALL.iter().map(|socket| format!("| {} | `{}` |\n", name(socket), socket.path()));
    has_table("| socket | path |\n|---|---|", rows);
}

#[test]
fn the_page_has_every_request() {
    let rows = ROWS.iter().map(|(sockets, form, _, data)| {
        let sockets: Vec<String> = sockets.iter().map(name).collect();
        format!("| {} | `{form}` | {data} |\n", sockets.join(", "))
    });
    has_table("| socket | request | data of the reply |\n|---|---|---|", rows);
}

#[test]
fn every_request_is_accepted_on_its_sockets_alone() {
    for (index, (sockets, _, example, _)) in ROWS.iter().enumerate() {
        for socket in Socket::ALL {
            match Request::decode(socket, example) {
                Ok(request) if sockets.contains(&socket) => {
                    assert_eq!(row(&request), index, "{example}");
                    assert_eq!(&request.to_string(), example);
                }
                Ok(_) => assert_eq!(*example, "status", "{socket:?}"),
                Err(refusal) => {
                    assert!(!sockets.contains(&socket), "{example}");
                    assert_eq!(refusal.code, RefusalCode::UnknownVerb, "{example}");
                }
            }
        }
    }
}

#[test]
fn the_page_has_every_code() {
    let starts = |head: &str, codes: Vec<(u16, String)>| {
        let start = PAGE.find(head).unwrap_or_else(|| panic!("the page has no table `{head}`"));
        let rows: Vec<&str> =
            PAGE[start..].lines().skip(2).take_while(|line| line.starts_with('|')).collect();
        assert_eq!(rows.len(), codes.len(), "{head}");
        for (row, (code, name)) in rows.iter().zip(codes) {
            assert!(row.starts_with(&format!("| {code} | `{name}` | ")), "{row}: {code} {name}");
        }
    };
    let refusals = RefusalCode::ALL.map(|code| (code.code(), format!("{code:?}")));
    starts("| `code` | in the code | meaning |", refusals.into());
    let reasons = PassReason::ALL.map(|reason| (reason.code(), format!("{reason:?}")));
    starts("| `passed` | in the code | meaning |", reasons.into());
}
