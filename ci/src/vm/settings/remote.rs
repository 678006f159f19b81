//! `osctl` changes the settings of a node over the network.

use super::credentials::{BASIC, SECRET};
use super::node::{Node, TIMEOUT, yaml};
use super::wireguard;
use crate::check::Outcome;
use crate::site::{Ran, Site};
use crate::vm::node::NodeUnderTest;
use osbuild::error::{Context, Error, Result};
use osbuild_abi::paths::RESOLV_CONF;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The keys that the image names, which its first build makes, and those of the node document.
const DEV: &str = "dev";
const OTHER: &str = "site";

/// The identifier of the resource that is changed.
const ID: &str = "remote";

/// Messages of `init` on the console: about a reset, and about the node API once it is served.
const RESET: &str = "init: reset: ";
pub const SERVES: &str = "serves the node API as";

/// The pause before the state is read again.
const PAUSE: Duration = Duration::from_millis(200);

/// How long a try lasts whose end the check does not wait for.
const LONG: &str = "10m";

/// `osctl`, with a configuration of its own, and the port of this host that leads to the node.
pub struct Osctl<'a> {
    pub site: &'a Site<'a>,
    pub program: PathBuf,
    pub project: PathBuf,
    pub port: u16,
}

impl Osctl<'_> {
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.env("XDG_CONFIG_HOME", self.project.join("out/osctl")).env_remove("OSCTL_NODE");
        command.args(words);
        command
    }

    /// Runs it, and returns its exit code and output.
    pub fn run(&self, words: &[&str]) -> Result<Ran> {
        self.site.run("settings-osctl", &mut self.command(words))
    }

    pub fn finish(&self, words: &[&str]) -> Result<String> {
        self.site.finish("settings-osctl", &mut self.command(words)).map(|ran| ran.output)
    }

    /// Makes keys that the image does not name, and returns the certificate of their CA.
    pub fn other_clients(&self) -> Result<String> {
        let mut osbuild = self.site.osbuild()?;
        osbuild.args(["--project", &self.project.display().to_string(), "keys", "new", OTHER]);
        self.site.finish("settings-keys", &mut osbuild)?;
        let path = self.project.join("keys").join(OTHER).join("api.crt");
        fs::read_to_string(&path).or_build(|| format!("cannot read `{}`", path.display()))
    }

    /// The file with a document that sets this name server.
    fn document(&self, server: &str) -> Result<String> {
        self.write(server, &format!("type: Resolver\nid: {ID}\nspec:\n  nameserver: {server}\n"))
    }

    /// The file with this document.
    pub fn write(&self, name: &str, text: &str) -> Result<String> {
        let path = self.project.join("out").join(format!("{name}.yaml"));
        fs::write(&path, text).or_build(|| format!("cannot write `{}`", path.display()))?;
        Ok(path.display().to_string())
    }
}

/// A person adds the node, whose console shows the same fingerprint, and changes it: for good, and
/// as a try that is confirmed or reverted.
pub fn changes_the_node(
    node: &Node,
    osctl: &Osctl,
    running: &mut NodeUnderTest,
    outcome: &mut Outcome,
) -> Result<()> {
    is_known_by_its_fingerprint(osctl, running, outcome)?;
    let shown = osctl.finish(&["get", "hostnamestatuses", "-o", "json"])?;
    let status = node.resource("HostnameStatuses", "node")?;
    let name = yaml(&status).lines().next().unwrap_or_default();
    let name = name.trim_start_matches("hostname: ");
    outcome.check("osctl shows the host name", shown.contains(name), || shown.clone());
    osctl.finish(&["apply", "-f", &osctl.document("192.0.2.1")?])?;
    has(node, "192.0.2.1", "a change over the network has its effect", outcome)?;
    osctl.finish(&["apply", "-f", &osctl.document("192.0.2.2")?, "--try", LONG])?;
    has(node, "192.0.2.2", "a try over the network has its effect", outcome)?;
    osctl.finish(&["revert"])?;
    has(node, "192.0.2.1", "a reverted one is taken back", outcome)?;
    osctl.finish(&["apply", "-f", &osctl.document("192.0.2.3")?, "--try", LONG])?;
    osctl.finish(&["confirm"])?;
    let state = osctl.finish(&["try"])?;
    outcome.check("a confirmed try is none", state == "none\n", || state.clone());
    let late = osctl.run(&["confirm"])?;
    outcome.check("there is nothing to confirm then", late.code == Some(2), || late.output);
    has(node, "192.0.2.3", "a confirmed change stays", outcome)
}

/// A person adds the node, whose console shows the same fingerprint.
pub fn is_known_by_its_fingerprint(
    osctl: &Osctl,
    running: &mut NodeUnderTest,
    outcome: &mut Outcome,
) -> Result<()> {
    let (address, certificate) = (format!("127.0.0.1:{}", osctl.port), admin(&osctl.project, DEV));
    let add = ["node", "add", "vm", &address, "--certificate", &certificate];
    let unknown = osctl.run(&add)?;
    let found = unknown.output.split_whitespace().find(|word| word.starts_with("sha256:"));
    let fingerprint = found.ok_or_else(|| unknown.failure("osctl shows no fingerprint"))?;
    outcome.check("an unknown node is not trusted", unknown.code == Some(2), || {
        unknown.output.clone()
    });
    running.wait_until_printed(&format!("serves the node API as {fingerprint}"))?;
    osctl.finish(&[&add[..], &["--fingerprint", fingerprint]].concat()).map(drop)
}

/// The node shows its logs and processes.
fn shows_what_runs(osctl: &Osctl, outcome: &mut Outcome) -> Result<()> {
    let mut shows = |claim: &str, words: &[&str], texts: &[&str]| -> Result<()> {
        let shown = osctl.finish(words)?;
        let has_all = texts.iter().all(|text| shown.contains(text));
        outcome.check(claim, has_all, || shown);
        Ok(())
    };
    shows("osctl lists the logs", &["logs"], &["init\n", "kubelet\n", "/dhcp\n", "/osd\n"])?;
    shows("it shows the log of a daemon", &["logs", "init"], &["phase kubelet", "READY"])?;
    shows("and of its last boot", &["logs", "init", "--previous"], &["phase kubelet"])?;
    shows("it shows the log of a container", &["logs", "osd", "-t"], &["connection: admin"])?;
    shows("it shows the kernel's messages", &["dmesg"], &["Linux version", "Command line"])?;
    shows("it shows processes with their pods", &["ps"], &["/bin/init", "kube-system/osd-"])?;
    let used = ["memory ", "DATA ", "wait for memory ", "lo ", "kubelet ", "kube-system/osd-"];
    shows("it shows what they use", &["top", "--rows", "500"], &used)?;
    let listed = ["/etc/os-release ", "/proc/1/mounts ", "/usr/share/osbuild/pods/osd.yaml "];
    shows("it lists the files that can be read", &["read"], &listed)?;
    let kubelet = ["read", "/run/osbuild/kubelet/config/standalone.json"];
    shows("it shows the configuration of the kubelet", &kubelet, &["KubeletConfiguration"])?;
    let mounts = ["read", "/proc/1/mounts"];
    shows("and the mounts of the node, not of a pod", &mounts, &[" /data ", " /var/lib/kubelet "])?;
    let refused = osctl.run(&["read", "/etc/kubernetes/kubelet.conf"])?;
    let is_refused = refused.code == Some(2) && refused.output.contains("does not show");
    outcome.check("but no kubeconfig", is_refused, || refused.output);
    shows_bpf_programs(osctl, outcome)
}

/// `runc` has given each container a device filter, which `init` finds once it has looked.
fn shows_bpf_programs(osctl: &Osctl, outcome: &mut Outcome) -> Result<()> {
    let began = Instant::now();
    loop {
        let shown = osctl.finish(&["get", "bpfprograms"])?;
        let is_filter = |line: &str| {
            ["cgroup_device", "cgroup /kubepods/"].iter().all(|text| line.contains(text))
        };
        let holds = shown.lines().any(is_filter);
        if holds || began.elapsed() > TIMEOUT {
            outcome.check("and the BPF program of a container", holds, || shown.clone());
            return Ok(());
        }
        sleep(PAUSE);
    }
}

/// Credentials of a registry, and a link of WireGuard.
fn secrets() -> String {
    format!(
        "type: RegistryCredential\nid: planted\n\
         spec: {{registry: planted.example, username: node, password: {SECRET}}}\n\
         ---\ntype: Link\nid: wg9\n\
         spec: {{link: wg9, wireguard: {{privateKey: {}}}}}\n",
        wireguard::PRIVATE
    )
}

/// An archive has the state of the node, and none of its secrets.
fn collects_what_it_shows(osctl: &Osctl, outcome: &mut Outcome) -> Result<()> {
    let path = osctl.project.join("out/support.tar.gz");
    // That of an earlier run may be there.
    let _ = fs::remove_file(&path);
    let path = path.display().to_string();
    osctl.finish(&["apply", "--no-try", "-f", &osctl.write("secrets", &secrets())?])?;
    osctl.finish(&["support", &path])?;
    let mut tar = Command::new("tar");
    let names = osctl.site.finish("settings-tar", tar.args(["-tzf", &path]))?.output;
    let parts = [
        "/status.txt",
        "/kernel.log",
        "/logs/kubelet.log",
        "/logs/init.previous.log",
        "/resources/Resolvers.osbuild.yaml",
        "/files/proc/1/mounts",
    ];
    let has = |part: &&str| names.lines().any(|name| name.ends_with(part));
    outcome.check("osctl collects what the node shows", parts.iter().all(has), || names.clone());
    let mut tar = Command::new("tar");
    let text = osctl.site.finish("settings-support", tar.args(["-xzOf", &path]))?.output;
    let is_hidden = text.contains("planted.example") && text.contains("(hidden)");
    outcome.check("among it resources with secrets", is_hidden, || path.clone());
    let planted = [SECRET, BASIC, wireguard::PRIVATE, "PRIVATE KEY"];
    let found = planted.into_iter().find(|secret| text.contains(secret));
    outcome.check("but no secret", found.is_none(), || format!("`{path}` has {found:?}"));
    osctl.finish(&["delete", "registrycredential", "planted"])?;
    osctl.finish(&["delete", "link", "wg9", "--no-try"]).map(drop)
}

/// The node tries what it reaches, itself and the gateway of QEMU's network among it.
fn tries_what_it_reaches(osctl: &Osctl, outcome: &mut Outcome) -> Result<()> {
    let ran = osctl.run(&["reach", "tcp", "127.0.0.1:50000"])?;
    outcome.check("osctl shows that a port is reached", ran.code == Some(0), || ran.output);
    let ran = osctl.run(&["reach", "tcp", "127.0.0.1:1"])?;
    let is_shown = ran.code == Some(1) && ran.output.contains("nothing listens at port 1");
    outcome.check("and that nothing listens at another", is_shown, || ran.output);
    let ran = osctl.run(&["reach", "ping", "10.0.2.2", "-c", "1"])?;
    let has_come = ran.code == Some(0) && ran.output.contains("has answered 1 of 1");
    outcome.check("echo requests need no capability", has_come, || ran.output);
    Ok(())
}

/// A capture of the connection that it is made over, which has packets by itself.
fn captures_packets(osctl: &Osctl, outcome: &mut Outcome) -> Result<()> {
    let path = osctl.project.join("out/packets.pcap").display().to_string();
    let filter = ["tcp", "port", "50000"];
    let file = ["--own-connection", "--count", "3", "-o", &path];
    osctl.finish(&[&["capture", "any"], &filter[..], &file[..]].concat())?;
    let mut tcpdump = Command::new("tcpdump");
    let shown = osctl.site.finish("settings-tcpdump", tcpdump.args(["-nn", "-r", &path]))?.output;
    let is_shown = shown.lines().filter(|line| line.contains(".50000")).count() == 3;
    outcome.check("tcpdump reads packets of the node", is_shown, || shown);
    let ran = osctl.run(&["capture", "any", "tcp", "prot", "80"])?;
    let is_refused = ran.code == Some(2) && ran.output.contains("wrong at character 5");
    outcome.check("a wrong filter is refused where it is wrong", is_refused, || ran.output);
    Ok(())
}

/// The node shows its state, starts its kubelet again, and ends.
pub fn ends_the_node(
    osctl: &Osctl,
    running: &mut NodeUnderTest,
    outcome: &mut Outcome,
) -> Result<()> {
    let shown = osctl.finish(&["status"])?;
    let has_all = ["node ", "SLOT-A: version ", "kubelet ", "containerd "]
        .iter()
        .all(|text| shown.contains(text));
    outcome.check("osctl shows the state of the node", has_all, || shown.clone());
    shows_what_runs(osctl, outcome)?;
    tries_what_it_reaches(osctl, outcome)?;
    captures_packets(osctl, outcome)?;
    collects_what_it_shows(osctl, outcome)?;
    for name in ["containerd", "kubelet"] {
        let before = process(osctl, name)?;
        osctl.finish(&["restart", name])?;
        let began = Instant::now();
        while process(osctl, name)? == before && began.elapsed() < TIMEOUT {
            sleep(PAUSE);
        }
        let after = process(osctl, name)?;
        let is_another = after != before && after["state"] == "running";
        outcome
            .check(&format!("osctl restarts {name}"), is_another, || format!("{before}, {after}"));
    }
    is_reset(osctl, running, outcome)?;
    osctl.finish(&["power-off"])?;
    running.end()?;
    outcome.check("osctl powers the node off", true, String::new);
    Ok(())
}

/// A node that is reset has another fingerprint, and no setting that it had.
fn is_reset(osctl: &Osctl, running: &mut NodeUnderTest, outcome: &mut Outcome) -> Result<()> {
    osctl.finish(&["apply", "-f", &osctl.document("192.0.2.9")?])?;
    let unsure = osctl.run(&["reset"])?;
    let is_refused = unsure.code == Some(2) && unsure.output.contains("hint: `--yes`");
    outcome.check("osctl resets no node unasked", is_refused, || unsure.output);
    osctl.finish(&["reset", "--yes"])?;
    running.wait_for_line(RESET, &["emptied DATA"])?;
    running.wait_for(SERVES)?;
    let other = osctl.run(&["status"])?;
    outcome.check("a reset node is another one", other.code == Some(4), || other.output);
    osctl.finish(&["node", "remove", "vm"])?;
    is_known_by_its_fingerprint(osctl, running, outcome)?;
    let left = osctl.finish(&["get", "resolvers", "-o", "name"])?;
    outcome.check("it has no setting that it had", left.is_empty(), || left.clone());
    Ok(())
}

/// The state of a daemon's process.
fn process(osctl: &Osctl, name: &str) -> Result<Value> {
    let shown = osctl.finish(&["status", "-o", "json"])?;
    let status: Value = serde_json::from_str(&shown)
        .map_err(|_| Error::build("osctl has printed no JSON").cause(&*shown))?;
    let mut processes = status["processes"].as_array().into_iter().flatten();
    Ok(processes.find(|process| process["name"] == name).cloned().unwrap_or_default())
}

/// After a power cut the node is the same, and its settings are.
pub fn finds_the_node_again(node: &Node, osctl: &Osctl, outcome: &mut Outcome) -> Result<()> {
    let shown = osctl.finish(&["get", "resolver", ID, "-o", "json"])?;
    let holds = shown.contains("192.0.2.3");
    outcome.check("the node has its fingerprint and settings again", holds, || shown.clone());
    has(node, "192.0.2.3", "and its resolver", outcome)?;
    let history = osctl.finish(&["history", "-o", "json"])?;
    let number = generation_with(&history, "192.0.2.1")
        .ok_or_else(|| Error::build("no generation has the first change").cause(&*history))?;
    osctl.finish(&["revert", &number])?;
    has(node, "192.0.2.1", "an earlier generation comes back", outcome)?;
    osctl.finish(&["delete", "resolver", ID]).map(drop)
}

/// The number of the generation with a change to this name server.
fn generation_with(history: &str, server: &str) -> Option<String> {
    let history: Value = serde_json::from_str(history).ok()?;
    let is_it = |one: &&Value| {
        let changes = one["changes"].as_array().into_iter().flatten();
        let mut after = changes.filter_map(|change| change["after"].as_str());
        after.any(|yaml| yaml.contains(server))
    };
    history.as_array()?.iter().find(is_it).map(|one| one["generation"].to_string())
}

fn has(node: &Node, server: &str, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let within = node.becomes(RESOLV_CONF, &format!("nameserver {server}"))?;
    let found = node.read(RESOLV_CONF)?;
    outcome.check(claim, within.is_some(), || found);
    Ok(())
}

/// The clients of the node document may connect, and those of the image may not.
pub fn obeys_the_documents_clients(osctl: &Osctl, outcome: &mut Outcome) -> Result<()> {
    let address = format!("127.0.0.1:{}", osctl.port);
    let add = |keys| {
        let certificate = admin(&osctl.project, keys);
        osctl.run(&["node", "add", keys, &address, "--certificate", &certificate])
    };
    let ran = add(OTHER)?;
    let is_met = ran.output.contains("the node is not known yet");
    outcome.check("a client of the node document may connect", is_met, || ran.output);
    let ran = add(DEV)?;
    let is_refused = ran.output.contains("UnknownCA");
    outcome.check("one of the image may not any more", is_refused, || ran.output);
    Ok(())
}

/// The certificate of an admin with these keys.
fn admin(project: &Path, keys: &str) -> String {
    project.join("keys").join(keys).join("admin.pem").display().to_string()
}
