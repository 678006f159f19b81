//! A test world for one client: two network namespaces connected by a cable (a veth pair), a fake
//! `init`, and the real program with only the pod's capabilities. Needs root, iproute2 and
//! util-linux (`setpriv`).

#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod init;
pub mod server;

use std::fs::{self, File};
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The default time limit, enough for a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(20);
/// The link on the client's side, and the one on the server's.
pub const LINK: &str = "eth0";
pub const SERVER_LINK: &str = "eth1";
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);

pub struct World {
    pub client_side: String,
    pub server_side: String,
    third_side: Option<String>,
    folder: PathBuf,
    init: init::FakeInit,
    children: Vec<Child>,
}

/// Runs a command, which must succeed, and returns its output.
pub fn run(command: &str) -> String {
    let mut words = command.split_ascii_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run `{command}`: {error}"));
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Repeats `attempt` until it returns a value; panics after [`TIMEOUT`].
#[track_caller]
pub fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(start.elapsed() < TIMEOUT, "timed out: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

impl World {
    /// A world with its cable connected, and the server's address on the server's side.
    pub fn new() -> Self {
        let world = Self::without_cable();
        world.plug();
        world
    }

    /// A world whose two sides are not connected.
    pub fn without_cable() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("dhcp-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(&name);
        fs::create_dir(&folder).unwrap();
        let world = Self {
            client_side: format!("{name}-c"),
            server_side: format!("{name}-s"),
            third_side: None,
            folder,
            init: init::FakeInit::default(),
            children: vec![],
        };
        for side in [&world.client_side, &world.server_side] {
            run(&format!("ip netns add {side}"));
            run(&format!("ip -n {side} link set lo up"));
        }
        world
    }

    /// Connects the cable, and sets the server's end up.
    pub fn plug(&self) {
        let (client, server) = (&self.client_side, &self.server_side);
        run(&format!(
            "ip -n {server} link add {SERVER_LINK} type veth peer name {LINK} netns {client}"
        ));
        run(&format!("ip -n {server} address add {SERVER}/24 dev {SERVER_LINK}"));
        run(&format!("ip -n {server} link set {SERVER_LINK} up"));
    }

    /// The output of `ip` about a link on the client's side, as JSON; empty if there is no link.
    pub fn details(&self, link: &str) -> String {
        let side = &self.client_side;
        let shown =
            Command::new("ip").args(["-n", side, "-d", "-j", "link", "show", "dev", link]).output();
        let shown = shown.unwrap();
        if shown.status.success() {
            String::from_utf8(shown.stdout).unwrap()
        } else {
            String::new()
        }
    }

    /// Adds a third side with a cable from `link` of the client's side to `other` there. Returns
    /// its name.
    pub fn add_side(&mut self, link: &str, other: &str) -> String {
        let (client, third) = (&self.client_side, format!("{}-3", self.client_side));
        run(&format!("ip netns add {third}"));
        run(&format!("ip -n {third} link add {other} type veth peer name {link} netns {client}"));
        self.third_side = Some(third.clone());
        third
    }

    /// Adds a third side that is on the cable beside the server, with the link `host0`. Returns its
    /// name.
    pub fn add_neighbor(&mut self) -> String {
        let (server, third) = (&self.server_side, format!("{}-3", self.client_side));
        run(&format!("ip netns add {third}"));
        run(&format!("ip -n {server} link add link {SERVER_LINK} host0 type macvlan mode bridge"));
        run(&format!("ip -n {server} link set host0 netns {third}"));
        run(&format!("ip -n {third} link set host0 up"));
        self.third_side = Some(third.clone());
        third
    }

    /// Whether a packet from the client's side arrives at this address of the server's.
    pub fn reaches(&self, address: &str) -> bool {
        self.reaches_from(&self.client_side, address)
    }

    /// Whether a packet from any side arrives at this address of the server's.
    pub fn reaches_from(&self, side: &str, address: &str) -> bool {
        let timeout = Some(Duration::from_millis(500));
        let bind = |address: &str| UdpSocket::bind((address, 0));
        let Ok(receiver) = server::in_side(&self.server_side, || bind(address)) else {
            return false;
        };
        receiver.set_read_timeout(timeout).unwrap();
        let to = receiver.local_addr().unwrap();
        let sent = server::in_side(side, || bind("0.0.0.0")?.send_to(b"x", to));
        sent.is_ok() && receiver.recv(&mut [0]).is_ok()
    }

    /// Configures the client's side as `init` configures a node: it forwards packets, and does not
    /// accept router advertisements by default.
    pub fn make_router(&self) {
        for setting in [
            "conf/default/accept_ra 0",
            &format!("conf/{LINK}/accept_ra 0"),
            "conf/all/forwarding 1",
        ] {
            let (file, value) = setting.split_once(' ').unwrap();
            server::in_side(&self.client_side, || {
                fs::write(format!("/proc/sys/net/ipv6/{file}"), value).unwrap()
            });
        }
    }

    /// Gives later links of the client's side what `init` gives those of a node, for this setting.
    pub fn set_as_init(&self, setting: &str) {
        let lines = include_str!("../../../../init/sysctl.conf").lines();
        let lines = lines.filter_map(|line| line.split_once(" = "));
        for (key, value) in lines.filter(|(key, _)| key.ends_with(setting)) {
            let file = format!("/proc/sys/{}", key.replace('.', "/"));
            server::in_side(&self.client_side, || fs::write(&file, value).unwrap());
        }
    }

    /// Starts a fake `init`.
    pub fn start_init(&self) {
        self.init.start(&self.folder.join("socket"), &self.client_side);
    }

    /// Has the fake `init` want these settings of the network.
    pub fn want(&self, lines: &[&str]) {
        self.init.want(lines);
    }

    /// The requests that `init` has received so far, but for those that await settings.
    pub fn requests(&self) -> Vec<String> {
        self.init.requests()
    }

    /// Starts the client for [`LINK`], and returns its process id.
    pub fn start_client(&mut self) -> u32 {
        self.start_client_with(&["--link", LINK])
    }

    /// Starts the client with the capabilities of the pod.
    pub fn start_client_with(&mut self, arguments: &[&str]) -> u32 {
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            &self.client_side,
            "setpriv",
            "--no-new-privs",
            "--inh-caps=-all",
        ]);
        command
            .args(["--bounding-set=-all,+net_admin,+net_raw", env!("CARGO_BIN_EXE_dhcp")])
            .args(arguments);
        command.arg("--socket").arg(self.folder.join("socket"));
        self.start(&mut command)
    }

    /// Starts any command on the server's side.
    pub fn start_server(&mut self, program: &str, arguments: &[&str]) -> u32 {
        let mut command = Command::new("ip");
        self.start(command.args(["netns", "exec", &self.server_side, program]).args(arguments))
    }

    fn start(&mut self, command: &mut Command) -> u32 {
        let log = File::options().append(true).create(true).open(self.folder.join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().expect("iproute2 is not installed");
        self.children.push(child);
        self.children.last().unwrap().id()
    }

    /// Sends a signal to a process of this world, and returns its exit code.
    pub fn end(&mut self, pid: u32, signal: &str) -> Option<i32> {
        let at = self.children.iter().position(|child| child.id() == pid).unwrap();
        run(&format!("kill {signal} {pid}"));
        let mut child = self.children.remove(at);
        until("a process ends", || child.try_wait().unwrap()).code()
    }

    /// The output of `ip -oneline` for the client's side.
    pub fn ip(&self, what: &str) -> String {
        run(&format!("ip -n {} -oneline {what}", self.client_side))
    }

    /// The IPv4 addresses on the client's link, with prefix length.
    pub fn addresses(&self) -> Vec<String> {
        let shown = self.ip(&format!("-4 address show dev {LINK}"));
        let addresses = shown.lines().filter_map(|line| line.split_ascii_whitespace().nth(3));
        addresses.map(str::to_owned).collect()
    }

    /// Waits for the client's link to have this one address.
    #[track_caller]
    pub fn until_address(&self, address: &str) {
        until(&format!("the address {address}"), || (self.addresses() == [address]).then_some(()));
    }

    /// The last request with this start that `init` has received.
    pub fn last_request(&self, start: &str) -> Option<String> {
        self.requests().into_iter().rfind(|line| line.starts_with(start))
    }

    /// The address of the client's link that follows from its MAC address, in this 64-bit prefix.
    pub fn address_in(&self, prefix: Ipv6Addr) -> Ipv6Addr {
        let shown = self.ip(&format!("link show dev {LINK}"));
        let (_, mac) = shown.split_once("link/ether ").unwrap();
        let mac: Vec<u8> =
            mac[..17].split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        let mut octets = prefix.octets();
        octets[8..].copy_from_slice(&[
            mac[0] ^ 2,
            mac[1],
            mac[2],
            0xff,
            0xfe,
            mac[3],
            mac[4],
            mac[5],
        ]);
        octets.into()
    }

    /// Waits for the client's link to have no address.
    #[track_caller]
    pub fn until_no_address(&self) {
        until("no address", || self.addresses().is_empty().then_some(()));
    }

    /// The output of all processes of this world so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// A path in this world's folder, which is deleted with it.
    pub fn path(&self, name: &str) -> String {
        self.folder.join(name).into_os_string().into_string().unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.log());
        }
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        for side in [&self.client_side, &self.server_side].into_iter().chain(&self.third_side) {
            let _ = Command::new("ip").args(["netns", "delete", side]).status();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}
