//! An ordinary pod, with its own address, a port of the host, and host paths.

use super::kept_disk::KeptDisk;
use super::link_local;
use super::machine::{HOST, HOST6, Machine};
use super::probe::{self, free_port};
use super::relay;
use crate::check::Outcome;
use crate::recipe;
use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use osbuild_abi::paths::{ADMIN_SOCKET, NODE_DOCUMENT};
use osbuild_protocol::{OK, Request};
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The recipe of this check, and its pod.
const ORDINARY: &str = "ordinary";

/// The recipe that it inherits: a node without a cluster, with CNI plugins.
const SINGLE: &str = "single-amd64";

/// The recipe's own lines: the pod, the paths that it writes to, and a probe for the host's mounts.
const RECIPE: &str = "
[pods]
ordinary = { component = \"ordinary\" }
probe = { component = \"probe\" }

[writable]
\"/var/lib/example\" = { data = \"example\", mode = 0o755 }
\"/opt/example\" = { data = \"example-programs\", mode = 0o755, exec = true }
\"/srv/example\" = { memory-mib = 16, mode = 0o1777 }
";

/// The declared paths on the host, and whether programs there may be executed.
const MOUNTS: [(&str, bool); 3] =
    [("/var/lib/example", false), ("/opt/example", true), ("/srv/example", false)];

/// `SECCOMP_MODE_FILTER` (linux/seccomp.h).
const SECCOMP_MODE_FILTER: u32 = 2;

/// The text that the pod writes at its first boot.
const TEXT: &str = "written before the reboot";

/// The port of the node that leads to the pod.
const HOST_PORT: u16 = 18080;

/// The port of the pod.
const POD_PORT: u16 = 8080;

/// The port of the node that a NAT rule forwards to the pod.
const NAT_PORT: u16 = 18081;

/// How long the network may take to follow a node document.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The pause before the port is asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// The greeting of a server outside the node.
const GREETING: &str = "hello from outside";

/// The servers of a second network of the node. Both send the greeting.
const SERVERS: [(&str, &str); 2] = [(link_local::METADATA, GREETS), (link_local::BESIDE, GREETS)];
const GREETS: &str = "echo hello from outside";

/// Start of the addresses that the recipe's network configuration gives to pods.
const POD_NETWORK: &str = "10.88.";

/// No cluster, two boots of one disk: a static pod gets its address from `bridge`, is reached
/// through `portmap`, and reaches a server outside, which can only answer to the node's address. It
/// does not reach the metadata of a cloud. At the second boot the plugins and their state exist
/// already. The pod mounts host paths as a DaemonSet does: those that the recipe declares, and that
/// of kernel modules. A NAT rule of the node document forwards another port of the node to it.
pub fn an_ordinary_pod_runs_without_a_cluster(site: &Site) -> Result<Outcome> {
    let project = site.root.join("out/ci").join(ORDINARY);
    site.copy_to(&project)?;
    recipe::inherit(site, &project, ORDINARY, SINGLE, RECIPE)?;
    let disk = KeptDisk::in_project(&project, ORDINARY)?;
    let (server, facts) = (start_server()?, free_port()?);
    let document = Document { files: free_port()?, sockets: free_port()? };
    let forwarded = free_port()?;
    let mut pod = Pod { port: free_port()?, outcome: Outcome::default() };
    let boot = |log: &str, port: u16| {
        Machine::of_recipe_in(site, &project, ORDINARY, log)?
            .keep(disk.path())
            .forward(port, HOST_PORT)
            .forward(facts, probe::FACTS)
            .forward(document.files, probe::FILE)
            .forward(document.sockets, probe::SOCKET)
            .forward(forwarded, NAT_PORT)
            .arguments(link_local::network(&SERVERS))
            .boot()
    };

    let node = boot("ordinary-first", pod.port)?;
    let address = pod.has_a_network(server)?;
    pod.cannot_read_metadata()?;
    pod.writes_to_host_paths()?;
    let facts = probe::report(facts)?;
    pod.host_mounts_are_as_declared(&facts);
    pod.has_its_system_calls_filtered(&facts);
    pod.is_behind_a_nat_rule(&document, forwarded, &address)?;
    drop(node);
    let _node = boot("ordinary-second", pod.port)?;
    pod.has_a_network(server)?;
    pod.finds_what_it_wrote_on_data()?;
    Ok(Outcome { summary: format!("the pod has {address}"), ..pod.outcome })
}

/// The ports of this host by which the node gets a node document.
struct Document {
    files: u16,
    sockets: u16,
}

impl Document {
    /// Writes it, and has `init` read it.
    fn place(&self, text: &str) -> Result<()> {
        probe::request(self.files, |stream| write!(stream, "{NODE_DOCUMENT} {text}"))?;
        let answer = probe::ask_init(self.sockets, ADMIN_SOCKET, &Request::RestartKubelet)?;
        match answer.as_str() {
            OK => Ok(()),
            _ => Err(Error::build("`init` does not restart the kubelet").cause(answer)),
        }
    }
}

/// The pod, and the claims about it.
struct Pod {
    /// The port of this host that leads to the pod.
    port: u16,
    outcome: Outcome,
}

impl Pod {
    /// Sends a command to the pod, and adds the claim that its answer begins with `expected`.
    /// Returns the answer.
    fn step(&mut self, command: &str, expected: &str) -> Result<String> {
        let answer = probe::request(self.port, |stream| stream.write_all(command.as_bytes()))?;
        let claim = format!("`{command}` gives `{expected}`");
        let holds = answer.starts_with(expected);
        self.outcome.check(&claim, holds, || format!("the pod answers `{answer}`"));
        Ok(answer)
    }

    /// The pod has an address of the bridge's network, and reaches the server outside. Returns the
    /// address.
    fn has_a_network(&mut self, server: u16) -> Result<String> {
        let addresses = self.step("address", POD_NETWORK)?;
        self.step(&format!("reach {HOST}:{server}"), GREETING)?;
        self.step(&format!("reach [{HOST6}]:{server}"), GREETING)?;
        Ok(addresses.split(' ').next().unwrap_or_default().to_owned())
    }

    /// The pod reaches a network of the node, but not the address of a cloud's metadata, which may
    /// have secrets.
    fn cannot_read_metadata(&mut self) -> Result<()> {
        self.step(&format!("reach {}:80", link_local::BESIDE), GREETING)?;
        let expected = "error: connection timed out";
        self.step(&format!("reach {}:80", link_local::METADATA), expected)?;
        Ok(())
    }

    /// Connections to another port of the node reach the pod once a rule forwards them to its
    /// address, and no longer than that.
    fn is_behind_a_nat_rule(
        &mut self,
        document: &Document,
        forwarded: u16,
        address: &str,
    ) -> Result<()> {
        let ask = || probe::request(forwarded, |stream| stream.write_all(b"address"));
        let answers = || ask().is_ok_and(|answer| answer.starts_with(address));
        let is_silent = !answers();
        self.outcome.check("without a rule nobody answers at a port", is_silent, String::new);
        document.place(&format!(
            "[[nat]]\nname = \"pod\"\naction = \"destination\"\nprotocol = \"tcp\"\n\
             port = {NAT_PORT}\nto = \"{address}\"\nto-port = {POD_PORT}\n"
        ))?;
        let reaches = becomes(true, answers);
        self.outcome.check("a NAT rule forwards a port to the pod", reaches, || {
            format!("the port answers {:?}", ask())
        });
        document.place("# nothing")?;
        let is_silent = becomes(false, answers);
        self.outcome.check("it does as long as there is the rule", is_silent, String::new);
        Ok(())
    }

    fn writes_to_host_paths(&mut self) -> Result<()> {
        self.step(&format!("write /var/lib/example/kept {TEXT}"), "ok")?;
        self.step(&format!("write /srv/example/gone {TEXT}"), "ok")?;
        self.step("execute /opt/example/program", "executed")?;
        // The host's `noexec` does not bind a container: runc mounts the path anew with the flags
        // that the pod asks for.
        self.step("execute /var/lib/example/program", "executed")?;
        self.step("list /lib/modules", "empty")?;
        self.step(&format!("write /lib/modules/x {TEXT}"), "error: Read-only file system")?;
        Ok(())
    }

    fn finds_what_it_wrote_on_data(&mut self) -> Result<()> {
        self.step("read /var/lib/example/kept", TEXT)?;
        self.step("list /opt/example", "program")?;
        self.step("execute /opt/example/program", "executed")?;
        self.step("list /srv/example", "empty")?;
        Ok(())
    }

    /// The kernel filters the pod's system calls although its manifest asks for no seccomp profile.
    fn has_its_system_calls_filtered(&mut self, facts: &str) {
        let filtered = format!("seccomp {ORDINARY} {SECCOMP_MODE_FILTER}");
        let holds = facts.lines().any(|fact| fact == filtered);
        self.outcome.check("the pod has a seccomp profile", holds, || facts.to_owned());
    }

    /// The host mounts each declared path without devices and set-user-id bits, and with programs
    /// only where the recipe allows them.
    fn host_mounts_are_as_declared(&mut self, facts: &str) {
        for (path, exec) in MOUNTS {
            let mount = facts
                .lines()
                .find(|fact| fact.starts_with("mount ") && fact.split(' ').nth(2) == Some(path))
                .unwrap_or_default();
            let has = |flag: &str| mount.split([' ', ',']).any(|word| word == flag);
            let claim = format!("{path} is mounted as the recipe declares");
            let holds = has("nosuid") && has("nodev") && has("noexec") != exec;
            self.outcome.check(&claim, holds, || format!("the host's mount is `{mount}`"));
        }
    }
}

/// Waits until it is so.
fn becomes(expected: bool, is_so: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while is_so() != expected {
        if began.elapsed() > TIMEOUT {
            return false;
        }
        sleep(PAUSE);
    }
    true
}

/// Starts a server on this host that sends [`GREETING`] to every client of either protocol, and
/// returns its port.
fn start_server() -> Result<u16> {
    let cannot = || "cannot listen".to_owned();
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).or_build(cannot)?;
    let port = server.local_addr().or_build(cannot)?.port();
    relay::start(port)?;
    std::thread::spawn(move || {
        // The pod reports a connection that is cut short.
        server
            .incoming()
            .flatten()
            .for_each(|mut stream| drop(stream.write_all(GREETING.as_bytes())));
    });
    Ok(port)
}
