//! A pod as any workload is: with an address of its own, a port of the host, and host paths.

use super::kept::Kept;
use super::machine::HOST;
use super::node::{Node, answer, ask, free_port};
use crate::check::Verdict;
use crate::recipe;
use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};

/// The recipe of this check, and its pod.
const ORDINARY: &str = "ordinary";

/// The recipe that it inherits: the one of a node without a cluster, with CNI plugins.
const SINGLE: &str = "single-amd64";

/// What it says besides: a pod, where that may write, and a probe that sees the host's mounts.
const RECIPE: &str = "
[pods]
ordinary = { component = \"ordinary\" }
probe = { component = \"probe\" }

[writable]
\"/var/lib/example\" = { data = \"example\", mode = 0o755 }
\"/opt/example\" = { data = \"example-programs\", mode = 0o755, exec = true }
\"/srv/example\" = { memory-mib = 16, mode = 0o1777 }
";

/// What the pod writes at its first boot.
const TEXT: &str = "written before the reboot";

/// Where the probe says what the host's mounts are.
const PROBE_PORT: u16 = 7070;

/// The port of the node that is the pod's.
const HOST_PORT: u16 = 18080;

/// What a server outside says.
const GREETING: &str = "hello from outside";

/// `SECCOMP_MODE_FILTER` (linux/seccomp.h).
const SECCOMP_MODE_FILTER: u32 = 2;

/// Beginning of the addresses that the recipe's network configuration gives to pods.
const POD_NETWORK: &str = "10.88.";

/// No cluster, two boots of one disk: a static pod gets its address from `bridge`, is reached
/// through `portmap`, and reaches a server outside, which can only answer the node's address. At
/// the second boot the plugins and what they remember are there already. The pod mounts paths of
/// the host as a DaemonSet does, those that the recipe declares and that of kernel modules.
pub fn an_ordinary_pod_runs_without_a_cluster(site: &Site) -> Result<Verdict> {
    let project = site.root.join("out/ci").join(ORDINARY);
    site.copy_to(&project)?;
    recipe::inherit(site, &project, ORDINARY, SINGLE, RECIPE)?;
    let _kept = Kept::in_project(&project, ORDINARY);
    let (server, port) = (server()?, free_port()?);
    let probe = free_port()?;
    let (forward, forward_probe) = (format!("{port}:{HOST_PORT}"), format!("{probe}:{PROBE_PORT}"));
    let flags = ["--keep", "--forward", &forward, "--forward", &forward_probe];
    let pod = Pod { port };

    let _node = Node::boot_in(site, &project, "ordinary-first", ORDINARY, &flags)?;
    let address = pod.has_a_network(server)?;
    pod.writes_where_the_recipe_says()?;
    let facts = ask(probe)?;
    host_executes_where_the_recipe_says(&facts)?;
    is_filtered_by_default(&facts)?;
    drop(_node);
    let _node = Node::boot_in(site, &project, "ordinary-second", ORDINARY, &flags)?;
    pod.has_a_network(server)?;
    pod.finds_what_it_wrote_on_data()?;
    Ok(Verdict { passed: 19, said: format!("the pod has {address}"), ..Verdict::default() })
}

/// The pod, by a port of this machine that leads to its port of the node.
struct Pod {
    port: u16,
}

impl Pod {
    fn does(&self, words: &str) -> Result<String> {
        answer(self.port, |stream| stream.write_all(words.as_bytes()))
    }

    /// It answers by its port of the node, has an address of the bridge's network, and reaches the
    /// server outside. Gives the address.
    fn has_a_network(&self, server: u16) -> Result<String> {
        let addresses = self.does("address")?;
        let address = addresses.split(' ').next().unwrap_or_default();
        if !address.starts_with(POD_NETWORK) {
            return Err(Error::build(format!("the pod's address is none of {POD_NETWORK}0.0/16"))
                .cause(addresses));
        }
        let said = self.does(&format!("reach {HOST}:{server}"))?;
        match said.as_str() {
            GREETING => Ok(address.to_owned()),
            said => Err(Error::build("the pod does not reach a server outside").cause(said)),
        }
    }
}

/// What a word of the pod must come to, by the beginning of the answer.
type Step = (String, &'static str);

impl Pod {
    /// Does each of these steps.
    fn takes(&self, steps: &[Step]) -> Result<()> {
        for (words, expected) in steps {
            let said = self.does(words)?;
            if !said.starts_with(expected) {
                return Err(Error::build(format!(
                    "the pod was told to `{words}`, which should come to `{expected}`"
                ))
                .cause(said));
            }
        }
        Ok(())
    }

    fn writes_where_the_recipe_says(&self) -> Result<()> {
        self.takes(&[
            (format!("write /var/lib/example/kept {TEXT}"), "ok"),
            (format!("write /srv/example/gone {TEXT}"), "ok"),
            ("execute /opt/example/program".into(), "executed"),
            // The host's flag does not bind a container: runc mounts the path anew, with what the
            // pod asks for.
            ("execute /var/lib/example/program".into(), "executed"),
            ("list /lib/modules".into(), "empty"),
            (format!("write /lib/modules/x {TEXT}"), "error: Read-only file system"),
        ])
    }

    fn finds_what_it_wrote_on_data(&self) -> Result<()> {
        self.takes(&[
            ("read /var/lib/example/kept".into(), TEXT),
            ("list /opt/example".into(), "program"),
            ("execute /opt/example/program".into(), "executed"),
            ("list /srv/example".into(), "empty"),
        ])
    }
}

/// The declared paths are mounted on the host as the recipe says: none with devices or set-user-id
/// bits, one with programs.
fn host_executes_where_the_recipe_says(facts: &str) -> Result<()> {
    for (path, exec) in
        [("/var/lib/example", false), ("/opt/example", true), ("/srv/example", false)]
    {
        let mount = facts
            .lines()
            .find(|fact| fact.starts_with("mount ") && fact.split(' ').nth(2) == Some(path));
        let mount = mount
            .ok_or_else(|| Error::build(format!("nothing is mounted on {path}")).cause(facts))?;
        let has = |flag: &str| mount.split([' ', ',']).any(|word| word == flag);
        if !has("nosuid") || !has("nodev") || has("noexec") == exec {
            return Err(
                Error::build(format!("{path} is not mounted as the recipe says")).cause(mount)
            );
        }
    }
    Ok(())
}

/// The pod's manifest asks for no seccomp profile, and the kernel filters its system calls.
fn is_filtered_by_default(facts: &str) -> Result<()> {
    let filtered = format!("seccomp {ORDINARY} {SECCOMP_MODE_FILTER}");
    match facts.lines().any(|fact| fact == filtered) {
        true => Ok(()),
        false => Err(Error::build("the pod has no seccomp profile").cause(facts)),
    }
}

/// A server of this machine that says the same to everybody: its port.
fn server() -> Result<u16> {
    let cannot = || "cannot listen".to_owned();
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).or_build(cannot)?;
    let port = server.local_addr().or_build(cannot)?.port();
    std::thread::spawn(move || {
        // Whoever goes away early is told by the pod that it does not reach the server.
        server
            .incoming()
            .flatten()
            .for_each(|mut stream| drop(stream.write_all(GREETING.as_bytes())));
    });
    Ok(port)
}
