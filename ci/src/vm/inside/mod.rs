//! What a probe pod sees inside the running node, held against what was promised.

mod doors;
mod facts;
mod kernel;

use super::node::{Node, ask, free_port};
use crate::check::Verdict;
use crate::site::Site;
use doors::Doors;
use facts::{Facts, expect};
use osbuild::error::{Context, Error, Problem, Result};
use osbuild::plan::{BinaryName, Lock};
use osbuild::report::bytes;
use osbuild::ship::audit::inspect::{Inspection, inspect};
use osbuild_abi::console::SLOT_GOOD;
use osbuild_abi::writable::{Backing, WRITABLE};
use std::collections::BTreeSet;

/// The recipe with the probe.
pub const PROBE: &str = "probe";

/// Where the probe answers.
const PORT: u16 = 7070;

/// Size of the node's disk, 1 TiB, nearly all of it a hole: DATA has to grow as far as it is
/// promised to.
const DISK_MIB: u64 = 1 << 20;

/// `CAP_NET_ADMIN` and `CAP_NET_RAW` (linux/capability.h).
const DHCP_CAPABILITIES: u64 = 1 << 12 | 1 << 13;

/// `podPidsLimit` of `components/kubelet/kubelet.yaml`.
const POD_PIDS: &str = "4096";

/// What is known of the node.
struct Seen {
    facts: Facts,
    doors: Doors,
    inspection: Inspection,
    lock: Lock,
}

/// What is claimed, by name; the error says what is not so.
type Claim = (&'static str, fn(&Seen) -> std::result::Result<(), String>);

const CLAIMS: &[Claim] = &[
    ("exactly seven files in /bin", seven_files),
    ("exactly three host daemons, and a shim a pod", three_daemons),
    ("the root is read-only", read_only_root),
    ("no shell and no script in the root", no_shell),
    ("nobody but `init` has blocked SIGTERM", nobody_is_deaf),
    ("the DHCP pod has NET_ADMIN and NET_RAW alone", dhcp_capabilities),
    ("no pod may have more than 4096 processes and threads", limited_processes),
    (
        "the machine's link hears router advertisements, and no link does that somebody makes later",
        hearing_links,
    ),
    ("what runs is what is locked", locked_versions),
    ("the command line is the one that was signed", signed_command_line),
    ("inspect agrees with the running node", inspect_agrees),
    ("DATA has grown to its disk", data_has_grown),
    ("DATA is the only writable disk", only_writable_disk),
    ("a privileged pod may do all that root can", |seen| kernel::gives_all_rights(&seen.facts)),
    ("not even root changes the running kernel", |seen| kernel::is_locked_down(&seen.facts)),
    ("not even root starts another kernel or loads a module", |seen| {
        kernel::starts_no_kernel_and_loads_no_module(&seen.facts)
    }),
    ("the kernel's memory is no file", |seen| kernel::shows_no_memory(&seen.facts)),
    ("a kernel that finds itself broken restarts the machine after ten seconds", |seen| {
        kernel::restarts(&seen.facts)
    }),
    ("a good node does not restart because a task hangs", hung_tasks_are_borne),
    ("`status` tells which slot runs, why, and what the other one is", doors::say_how_the_node_is),
    ("`status` still has the sentences of version 0", doors::still_speak_version_0),
    (
        "whoever keeps the clock right learns when the node last ran",
        doors::say_when_the_node_last_ran,
    ),
    ("no socket does what is for another role", doors::refuse_what_is_not_theirs),
    (
        "no device and no rights come from DATA, and programs only where the table says so",
        restricted_data,
    ),
];

/// Boots the node with the probe once, and tries every claim on what it sees.
pub fn the_node_is_what_was_promised(site: &Site) -> Result<Verdict> {
    let (port, disk_size) = (free_port()?, DISK_MIB.to_string());
    let flags = ["--disk-size", &disk_size, "--forward", &format!("{port}:{}", doors::PORT)];
    let (facts, doors) = look(site, "inside", &flags, || Doors::ask(port))?;
    let path = Lock::path(PROBE);
    let text = std::fs::read_to_string(site.project().join(&path))
        .or_build(|| format!("cannot read `{path}`"))?;
    let inspection = inspect(&site.project().join("out").join(PROBE).join("image.raw"))?;
    let seen = Seen { facts: Facts(facts), doors, inspection, lock: Lock::parse(&path, &text)? };
    let problems = |(name, claim): &Claim| {
        claim(&seen).err().map(|why| Problem::new(format!("not so: {name}")).cause(why))
    };
    let problems: Vec<Problem> = CLAIMS.iter().filter_map(problems).collect();
    if !problems.is_empty() {
        std::fs::write(site.log("inside.facts"), &seen.facts.0)
            .or_build(|| "cannot keep the probe's report".to_owned())?;
    }
    Ok(Verdict { passed: CLAIMS.len() - problems.len(), problems, said: seen.memory()? })
}

/// Boots the node with the probe and more flags, and gives what the probe says when the node is
/// ready. The console goes to the log `name`.
pub fn facts(site: &Site, name: &str, flags: &[&str]) -> Result<String> {
    look(site, name, flags, || Ok(())).map(|(facts, ())| facts)
}

/// The same, and asks something else before the node ends.
fn look<T>(
    site: &Site,
    name: &str,
    flags: &[&str],
    more: impl FnOnce() -> Result<T>,
) -> Result<(String, T)> {
    let port = free_port()?;
    let forward = format!("{port}:{PORT}");
    let flags = [&["--forward", &forward], flags].concat();
    let mut node = Node::boot(site, name, PROBE, &flags)?;
    // Until then the gate is one more process.
    node.until(SLOT_GOOD)?;
    Ok((ask(port)?, more()?))
}

impl Seen {
    /// What a program says of its version.
    fn version(&self, program: &str) -> String {
        self.facts
            .all("version")
            .find(|fact| fact[0] == program)
            .map(|fact| fact[1..].join(" "))
            .unwrap_or_default()
    }

    fn memory(&self) -> Result<String> {
        let number = |index| self.facts.number("memory", index).map_err(Error::build);
        Ok(format!(
            "{} claims, {} of memory in use",
            CLAIMS.len(),
            bytes(number(0)?.saturating_sub(number(1)?))
        ))
    }
}

/// The command line says otherwise, until the slot is a good one.
fn hung_tasks_are_borne(seen: &Seen) -> std::result::Result<(), String> {
    expect(kernel::number(&seen.facts, "hung_task_panic")?, 0)
}

fn seven_files(seen: &Seen) -> std::result::Result<(), String> {
    let mut wanted = BinaryName::ALL.map(BinaryName::file_name).to_vec();
    wanted.sort_unstable();
    expect(seen.facts.all("bin").map(|fact| fact[0]).collect(), wanted)
}

fn three_daemons(seen: &Seen) -> std::result::Result<(), String> {
    let names = |shim: bool| {
        seen.facts
            .all("host")
            .map(|fact| fact[0])
            .filter(move |name| (*name == "containerd-shim-runc-v2") == shim)
    };
    let mut daemons: Vec<&str> = names(false).collect();
    daemons.sort_unstable();
    // Now and then a short-lived child of `init` asks the other two whether they are well.
    daemons.dedup_by(|one, other| one == other && *one == "init");
    expect(daemons, vec!["containerd", "init", "kubelet"])?;
    expect(names(true).count(), seen.inspection.root.pods.len())
}

fn read_only_root(seen: &Seen) -> std::result::Result<(), String> {
    let root: Vec<_> = seen.facts.all("mount").filter(|fact| fact[1] == "/").collect();
    // The last mount on a place is the one that counts.
    let flags = root.last().ok_or("nothing is mounted on /")?[3];
    expect(flags.split(',').next(), Some("ro"))
}

fn no_shell(seen: &Seen) -> std::result::Result<(), String> {
    expect(seen.facts.all("shell").map(|fact| fact.join(" ")).collect(), Vec::<String>::new())
}

fn nobody_is_deaf(seen: &Seen) -> std::result::Result<(), String> {
    const TERM: u64 = 1 << 14;
    let blocks = |set: &str| u64::from_str_radix(set, 16).is_ok_and(|set| set & TERM != 0);
    let deaf: BTreeSet<_> = seen
        .facts
        .all("blocked")
        .filter(|fact| blocks(fact[1]))
        .map(|fact| fact[0].to_owned())
        .collect();
    // It reads signals instead of being interrupted by them. So does `pause`, but in a call during
    // which they are not blocked.
    expect(deaf, BTreeSet::from(["init".to_owned()]))
}

fn dhcp_capabilities(seen: &Seen) -> std::result::Result<(), String> {
    let pods = seen.facts.all("pod").filter(|fact| fact[0].ends_with("dhcp"));
    // What it has, and what it could ever get.
    let sets: Vec<_> =
        pods.map(|fact| [fact[2], fact[3]].map(|set| u64::from_str_radix(set, 16).ok())).collect();
    expect(sets, vec![[Some(DHCP_CAPABILITIES); 2]])
}

fn limited_processes(seen: &Seen) -> std::result::Result<(), String> {
    let limits: BTreeSet<_> = seen.facts.all("pids-max").map(|fact| fact[1]).collect();
    expect(limits, BTreeSet::from([POD_PIDS]))
}

/// What `accept_ra` says: 2 is to hear routers although the node is one. `all` stands for no link.
fn hearing_links(seen: &Seen) -> std::result::Result<(), String> {
    let hearing: Vec<_> =
        seen.facts.all("hears").filter(|fact| fact[0] != "all" && fact[1] != "0").collect();
    expect(hearing, vec![vec!["eth0", "2"]])?;
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
            return Err(format!("`{program}` says `{found}`, the lock {version}"));
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
    // ext4 keeps some of it for its tables: an inode of 256 bytes for each 16 KiB, which is a 64th,
    // and little else.
    let least = (disk - others) / 100 * 98;
    if data >= least {
        Ok(())
    } else {
        Err(format!("DATA has {}, not at least {}", bytes(data), bytes(least)))
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
