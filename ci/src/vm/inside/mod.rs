//! The probe's report from inside a running node, compared with the project's promises.

mod facts;
mod kernel;
mod sockets;

use super::machine::Machine;
use super::node::NodeUnderTest;
use super::probe::{self, free_port};
use crate::check::{Outcome, unmet};
use crate::image::{certificate, image_of, lock};
use crate::site::Site;
use facts::{Facts, expect};
use osbuild::error::{Context, Error, Problem, Result};
use osbuild::plan::{BinaryName, Lock};
use osbuild::report::bytes;
use osbuild::ship::audit::inspect::{Inspection, inspect};
use osbuild_abi::console::SLOT_GOOD;
use osbuild_abi::paths::{BIN, CNI_PLUGINS, IMAGES, KUBELET_PROGRAMS};
use osbuild_abi::program_names::{self, PLACEHOLDER_MODE};
use osbuild_abi::writable::{Backing, WRITABLE};
use sockets::Replies;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Size of the node's disk: 1 TiB, nearly all of it a hole. DATA has to fill it.
const DISK_MIB: u64 = 1 << 20;

/// `CAP_NET_ADMIN` and `CAP_NET_RAW` (linux/capability.h).
const DHCP_CAPABILITIES: u64 = 1 << 12 | 1 << 13;

/// The name of a shim.
const SHIM: &str = "containerd-shim-runc-v2";

/// `podPidsLimit` of `components/kubelet/kubelet.yaml`.
const POD_PIDS: &str = "4096";

/// The evidence for the claims.
struct Seen {
    facts: Facts,
    sockets: Replies,
    inspection: Inspection,
    lock: Lock,
    /// The SHA-256 of the certificate that the firmware trusts.
    trusted: String,
}

/// A claim's name, and its check: the error is the reason why it does not hold.
type Claim = (&'static str, fn(&Seen) -> std::result::Result<(), String>);

const CLAIMS: &[Claim] = &[
    ("exactly seven files in /bin", seven_files),
    ("host daemons find programs under no names but the listed ones", listed_names),
    ("exactly three host daemons, and shims of the node's own pods", three_daemons),
    ("the kubelet, containerd and the shims have control groups of their own", own_groups),
    ("the root is read-only", read_only_root),
    ("the image's copy of the images of pods is unmounted", images_are_unmounted),
    ("no shell and no script in the root", no_shell),
    ("only `init` has blocked SIGTERM", only_init_blocks_sigterm),
    ("the DHCP pod has only NET_ADMIN and NET_RAW", dhcp_capabilities),
    ("no pod may have more than 4096 processes and threads", limited_processes),
    (
        "the machine's link accepts router advertisements, and links that are made later do not",
        router_advertisements,
    ),
    ("the programs have the locked versions", locked_versions),
    ("the command line is the one that was signed", signed_command_line),
    ("inspect agrees with the running node", inspect_agrees),
    ("the kernel has what network plugins and container engines require", |seen| {
        kernel::has_what_others_require(&seen.inspection)
    }),
    ("DATA has grown to its disk", data_has_grown),
    ("DATA is the only writable disk", only_writable_disk),
    ("a privileged pod has every capability", |seen| kernel::gives_all_rights(&seen.facts)),
    ("root cannot change the running kernel", |seen| kernel::is_locked_down(&seen.facts)),
    ("root cannot start another kernel or load a module", |seen| {
        kernel::starts_no_kernel_and_loads_no_module(&seen.facts)
    }),
    ("no file shows the kernel's memory", |seen| kernel::shows_no_memory(&seen.facts)),
    ("a kernel that finds itself broken restarts the machine after ten seconds", |seen| {
        kernel::restarts(&seen.facts)
    }),
    ("a good node does not restart because a task hangs", hung_tasks_are_tolerated),
    ("`status` reports the running slot, the reason, and the other slot", sockets::report_slots),
    (
        "`status` reports the certificate that the firmware trusts, lockdown and security epoch",
        sockets::report_security,
    ),
    ("`status` still has the sentences of version 0", sockets::reply_with_version_0),
    ("the socket `time` reports when the node last ran", sockets::report_last_run),
    ("no socket accepts another role's verbs", sockets::refuse_other_roles),
    (
        "mounts of DATA allow no devices and no setuid, and programs only where the table does",
        restricted_data,
    ),
];

/// Those of a node without AppArmor.
const FREE: &[Claim] = &[("no file is in the place of another program", |seen| {
    expect(seen.facts.all("placeholder").count(), 0)
})];

/// Those of a node with AppArmor, which `cargo ci full` boots without the tests beside it.
const CONFINED: &[Claim] = &[
    ("the node's own pods have one shim", one_shim),
    ("the file in the place of another program cannot be executed", placeholders),
    (
        "pods have the AppArmor profile of containerd, and host daemons and privileged pods none",
        |seen| kernel::confines_pods(&seen.facts),
    ),
];

/// Boots the node with the probe once, and checks every claim.
pub fn the_node_is_what_was_promised(site: &Site) -> Result<Outcome> {
    is_as_promised(site, probe::RECIPE, &[CLAIMS, FREE].concat())
}

/// The same with AppArmor.
pub fn a_node_with_apparmor_is_what_was_promised(site: &Site) -> Result<Outcome> {
    is_as_promised(site, probe::APPARMOR_RECIPE, &[CLAIMS, CONFINED].concat())
}

fn is_as_promised(site: &Site, recipe: &str, claims: &[Claim]) -> Result<Outcome> {
    let port = free_port()?;
    let machine = Machine::of_recipe(site, recipe, &format!("inside-{recipe}"))?;
    let machine = machine.disk_size(DISK_MIB).forward(port, probe::SOCKET);
    let (facts, sockets) = look(machine, |_| Replies::ask(port))?;
    let inspection = inspect(&image_of(&site.project(), recipe))?;
    let lock = lock(site, recipe)?;
    let trusted = fingerprint_of(site, &certificate(site))?;
    let seen = Seen { facts: Facts(facts), sockets, inspection, lock, trusted };
    let problems = |(name, claim): &Claim| claim(&seen).err().map(|why| unmet(name).cause(why));
    let problems: Vec<Problem> = claims.iter().filter_map(problems).collect();
    if !problems.is_empty() {
        std::fs::write(site.log("inside.facts"), &seen.facts.0)
            .or_build(|| "cannot keep the probe's report".to_owned())?;
    }
    let summary = format!("{} claims, {}", claims.len(), seen.memory()?);
    let passed = claims.len() - problems.len();
    Ok(Outcome { passed, problems, summary, ..Outcome::default() })
}

/// The SHA-256 of a certificate, as OpenSSL computes it, in lower case.
fn fingerprint_of(site: &Site, certificate: &Path) -> Result<String> {
    let mut openssl = Command::new("openssl");
    openssl.args(["x509", "-noout", "-fingerprint", "-sha256", "-in"]).arg(certificate);
    let output = site.finish("fingerprint", &mut openssl)?.output;
    let digits = output.trim().rsplit('=').next().unwrap_or_default();
    Ok(digits.replace(':', "").to_lowercase())
}

/// The cost of a node.
pub struct Cost {
    /// The time from power-on to READY.
    pub ready: Duration,
    /// The memory in use when its slot is good, in bytes.
    pub memory: u64,
    /// The name and the resident memory of each process of the host, in bytes.
    pub resident: Vec<(String, u64)>,
}

/// Boots a machine whose image has the probe, and measures it.
pub fn cost(machine: Machine) -> Result<Cost> {
    let (facts, ready) = look(machine, |node| Ok(node.progress().ready))?;
    let facts = Facts(facts);
    let number = |word: &str| word.parse().or_build(|| format!("`{word}` is no number of bytes"));
    let resident = facts.all("host").map(|fact| match fact[..] {
        [name, _, bytes, ..] => Ok((name.to_owned(), number(bytes)?)),
        _ => Err(Error::build(format!("the probe reports a process as {fact:?}"))),
    });
    Ok(Cost {
        ready: ready.ok_or_else(|| Error::build("the node has not reported when it was READY"))?,
        memory: memory(&facts)?,
        resident: resident.collect::<Result<_>>()?,
    })
}

/// The memory in use, in bytes.
fn memory(facts: &Facts) -> Result<u64> {
    let number = |index| facts.number("memory", index).map_err(Error::build);
    Ok(number(0)?.saturating_sub(number(1)?))
}

/// Boots the machine, and returns the probe's report and what `ask` returns.
fn look<T>(machine: Machine, ask: impl FnOnce(&NodeUnderTest) -> Result<T>) -> Result<(String, T)> {
    let port = free_port()?;
    let mut node = machine.forward(port, probe::FACTS).boot()?;
    // Until then the gate is an additional process.
    node.wait_until_printed(SLOT_GOOD)?;
    Ok((probe::report(port)?, ask(&node)?))
}

impl Seen {
    /// The version that a program prints.
    fn version(&self, program: &str) -> String {
        self.facts
            .all("version")
            .find(|fact| fact[0] == program)
            .map(|fact| fact[1..].join(" "))
            .unwrap_or_default()
    }

    fn memory(&self) -> Result<String> {
        Ok(format!("{} of memory in use", bytes(memory(&self.facts)?)))
    }
}

/// The kernel's command line has 1; `init` clears it when the slot is good.
fn hung_tasks_are_tolerated(seen: &Seen) -> std::result::Result<(), String> {
    expect(kernel::number(&seen.facts, "hung_task_panic")?, 0)
}

fn seven_files(seen: &Seen) -> std::result::Result<(), String> {
    let mut wanted = BinaryName::ALL.map(BinaryName::file_name).to_vec();
    wanted.sort_unstable();
    expect(seen.facts.all("bin").map(|fact| fact[0]).collect(), wanted)
}

/// containerd finds the CNI plugins of the cluster besides; the kubelet finds nothing on DATA.
fn listed_names(seen: &Seen) -> std::result::Result<(), String> {
    let paths: BTreeSet<_> = seen
        .facts
        .all("search-path")
        .filter(|fact| ["containerd", "kubelet"].contains(&fact[0]))
        .map(|fact| fact[1..].join(" "))
        .collect();
    let expected = [CNI_PLUGINS, KUBELET_PROGRAMS].map(|folder| format!("{BIN}:{folder}"));
    expect(paths, BTreeSet::from(expected))?;
    let listed = program_names::KUBELET.iter().map(|listed| vec![listed.name, listed.program]);
    expect(seen.facts.all("kubelet-name").collect(), listed.collect::<Vec<_>>())
}

/// A regular file of the mode that the table has.
fn placeholders(seen: &Seen) -> std::result::Result<(), String> {
    let mode = format!("{:o}", 0o100_000 | PLACEHOLDER_MODE);
    let listed = program_names::PLACEHOLDERS.iter().map(|one| vec![one.path, &mode]);
    expect(seen.facts.all("placeholder").collect(), listed.collect::<Vec<_>>())
}

fn three_daemons(seen: &Seen) -> std::result::Result<(), String> {
    let names = seen.facts.all("host").map(|fact| fact[0]);
    let mut daemons: Vec<&str> = names.filter(|name| *name != SHIM).collect();
    daemons.sort_unstable();
    // A short-lived child of `init` may be asking the other two for their health.
    daemons.dedup_by(|one, other| one == other && *one == "init");
    expect(daemons, vec!["containerd", "init", "kubelet"])?;
    let (shims, pods) = (shims(seen), seen.inspection.root.pods.len());
    if (1..=pods).contains(&shims) { Ok(()) } else { Err(format!("{shims} shims of {pods} pods")) }
}

/// A pod that starts while the machine has no time for the shim that runs gets another one: this
/// holds on a machine with a processor of its own.
fn one_shim(seen: &Seen) -> std::result::Result<(), String> {
    expect(shims(seen), 1)
}

fn shims(seen: &Seen) -> usize {
    seen.facts.all("host").filter(|fact| fact[0] == SHIM).count()
}

/// `init` and its children stay in the root's group.
fn own_groups(seen: &Seen) -> std::result::Result<(), String> {
    let group = |name: &str| match name {
        "containerd" => "/system/containerd",
        "kubelet" => "/system/kubelet",
        SHIM => "/system/shims",
        _ => "",
    };
    let members: Vec<_> = seen.facts.all("member").collect();
    let wrong = members.iter().filter(|fact| fact[0] != group(fact[1]));
    expect(wrong.map(|fact| fact.join(" ")).collect(), Vec::<String>::new())?;
    expect(members.len(), seen.facts.all("host").count())
}

fn read_only_root(seen: &Seen) -> std::result::Result<(), String> {
    let root: Vec<_> = seen.facts.all("mount").filter(|fact| fact[1] == "/").collect();
    // The last mount on a path is the visible one.
    let flags = root.last().ok_or("nothing is mounted on /")?[3];
    expect(flags.split(',').next(), Some("ro"))
}

/// The layer with the images is no longer mounted, so it takes no memory.
/// containerd has them then, and the memory of the layer is free.
fn images_are_unmounted(seen: &Seen) -> std::result::Result<(), String> {
    expect(seen.facts.all("mount").filter(|fact| fact[1] == IMAGES).count(), 0)
}

fn no_shell(seen: &Seen) -> std::result::Result<(), String> {
    expect(seen.facts.all("shell").map(|fact| fact.join(" ")).collect(), Vec::<String>::new())
}

fn only_init_blocks_sigterm(seen: &Seen) -> std::result::Result<(), String> {
    const TERM: u64 = 1 << 14;
    let blocks = |set: &str| u64::from_str_radix(set, 16).is_ok_and(|set| set & TERM != 0);
    let blocking: BTreeSet<_> = seen
        .facts
        .all("blocked")
        .filter(|fact| blocks(fact[1]))
        .map(|fact| fact[0].to_owned())
        .collect();
    // `init` reads signals from a descriptor. `pause` waits for them in a call that unblocks them.
    expect(blocking, BTreeSet::from(["init".to_owned()]))
}

fn dhcp_capabilities(seen: &Seen) -> std::result::Result<(), String> {
    let pods = seen.facts.all("pod").filter(|fact| fact[0].ends_with("dhcp"));
    // The permitted set, and the bounding set.
    let sets: Vec<_> =
        pods.map(|fact| [fact[2], fact[3]].map(|set| u64::from_str_radix(set, 16).ok())).collect();
    expect(sets, vec![[Some(DHCP_CAPABILITIES); 2]])
}

fn limited_processes(seen: &Seen) -> std::result::Result<(), String> {
    let limits: BTreeSet<_> = seen.facts.all("pids-max").map(|fact| fact[1]).collect();
    expect(limits, BTreeSet::from([POD_PIDS]))
}

/// The sysctl `accept_ra` of each link: 2 accepts router advertisements although the node forwards.
/// `all` is not a link.
fn router_advertisements(seen: &Seen) -> std::result::Result<(), String> {
    let accepting: Vec<_> =
        seen.facts.all("hears").filter(|fact| fact[0] != "all" && fact[1] != "0").collect();
    expect(accepting, vec![vec!["eth0", "2"]])?;
    expect(seen.facts.all("hears").any(|fact| fact[0] == "default"), true)
}

fn locked_versions(seen: &Seen) -> std::result::Result<(), String> {
    let source = seen.lock.kernel_source.as_ref().ok_or("the lock has no kernel")?;
    let linux = source.version.split('-').next().unwrap_or_default();
    let mut wanted = vec![("linux", linux.to_owned())];
    wanted.extend(
        seen.lock
            .go
            .iter()
            .map(|go| (go.component.as_str(), go.version.trim_start_matches('v').to_owned())),
    );
    expect(wanted.len(), 4)?;
    for (program, version) in wanted {
        let found = seen.version(program);
        let words = found.split([' ', '+', '-']).map(|word| word.trim_start_matches('v'));
        if !words.into_iter().any(|word| word == version) {
            return Err(format!("`{program}` prints `{found}`, the lock has {version}"));
        }
    }
    Ok(())
}

fn signed_command_line(seen: &Seen) -> std::result::Result<(), String> {
    let signed = seen.inspection.uki.as_ref().map(|uki| uki.command_line.clone());
    expect(seen.facts.all("command-line").next().map(|words| words.join(" ")), signed)
}

fn inspect_agrees(seen: &Seen) -> std::result::Result<(), String> {
    let root = &seen.inspection.root;
    let mut names: Vec<&str> = root.binaries.iter().map(|binary| binary.name.as_str()).collect();
    names.sort_unstable();
    expect(names, seen.facts.all("bin").map(|fact| fact[0]).collect())?;
    expect(root.kernel.clone(), seen.version("linux"))?;
    let upstream = root.binaries.iter().filter(|binary| !seen.version(&binary.name).is_empty());
    let wrong: Vec<_> =
        upstream.filter(|binary| !seen.version(&binary.name).contains(&binary.version)).collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("the node runs other versions than {wrong:?}"))
    }
}

fn data_has_grown(seen: &Seen) -> std::result::Result<(), String> {
    let disk = DISK_MIB << 20;
    let disks: Vec<_> = seen.facts.all("disk").filter(|fact| fact[1] == disk.to_string()).collect();
    expect(disks.len(), 1)?;
    let others: u64 = seen
        .inspection
        .disk
        .iter()
        .flat_map(|disk| &disk.partitions)
        .filter(|partition| partition.purpose != "data")
        .map(|partition| partition.size)
        .sum();
    let data = seen.facts.number("data", 0)?;
    // ext4 takes an inode of 256 bytes for each 16 KiB, which is a 64th, and little else.
    let min = (disk - others) / 100 * 98;
    if data >= min {
        Ok(())
    } else {
        Err(format!("DATA has {}, less than {}", bytes(data), bytes(min)))
    }
}

fn only_writable_disk(seen: &Seen) -> std::result::Result<(), String> {
    let on_disk = |fact: &Vec<&str>| fact[0].starts_with("/dev/");
    let mut writable: Vec<&str> = seen
        .facts
        .all("mount")
        .filter(on_disk)
        .filter(|fact| fact[3].starts_with("rw"))
        .map(|fact| fact[0])
        .collect();
    writable.sort_unstable();
    writable.dedup();
    let data: Vec<&str> = seen
        .facts
        .all("mount")
        .filter(|fact| fact[1] == osbuild_abi::paths::DATA)
        .map(|fact| fact[0])
        .collect();
    expect(data.len(), 1)?;
    expect(writable, data)
}

fn restricted_data(seen: &Seen) -> std::result::Result<(), String> {
    let mounts: Vec<_> =
        seen.facts.all("mount").filter(|fact| fact[0].starts_with("/dev/")).collect();
    let row = |path: &str| WRITABLE.iter().find(|row| row.path == path);
    let wrong = mounts.iter().filter(|fact| {
        let has = |flag: &str| fact[3].split(',').any(|word| word == flag);
        let may_execute = row(fact[1]).is_some_and(|row| row.exec);
        !has("nodev") || !has("nosuid") || !(may_execute || has("noexec"))
    });
    expect(wrong.map(|fact| fact.join(" ")).collect(), Vec::<String>::new())?;
    let on_data = WRITABLE.iter().filter(|row| !matches!(row.backing, Backing::Memory(_)));
    let missing = on_data.filter(|row| mounts.iter().all(|fact| fact[1] != row.path));
    expect(missing.map(|row| row.path).collect(), Vec::<&str>::new())
}
