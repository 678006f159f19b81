//! The BPF programs of the kernel, which network plugins, agents and `runc` load.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use osbuild_protocol::{BpfProgram, BpfPrograms, MAX_BPF_PROGRAMS};

use crate::sys::bpf::{self, Object, ProgramInfo};

/// The most objects of a kind, and control groups, that are looked at.
const MAX_OBJECTS: usize = 4096;
const MAX_GROUPS: usize = 2048;

/// The type of the programs that `runc` loads for each container.
const DEVICE_FILTER: &str = "cgroup_device";

/// The names of the types by number (`enum bpf_prog_type`), as `bpftool` has them.
const PROGRAM_TYPES: [&str; 33] = [
    "unspec",
    "socket_filter",
    "kprobe",
    "sched_cls",
    "sched_act",
    "tracepoint",
    "xdp",
    "perf_event",
    "cgroup_skb",
    "cgroup_sock",
    "lwt_in",
    "lwt_out",
    "lwt_xmit",
    "sock_ops",
    "sk_skb",
    DEVICE_FILTER,
    "sk_msg",
    "raw_tracepoint",
    "cgroup_sock_addr",
    "lwt_seg6local",
    "lirc_mode2",
    "sk_reuseport",
    "flow_dissector",
    "cgroup_sysctl",
    "raw_tracepoint_writable",
    "cgroup_sockopt",
    "tracing",
    "struct_ops",
    "ext",
    "lsm",
    "sk_lookup",
    "syscall",
    "netfilter",
];

/// The names of the types of links by number (`enum bpf_link_type`), as `bpftool` has them.
const LINK_TYPES: [&str; 15] = [
    "unspec",
    "raw_tracepoint",
    "tracing",
    CGROUP,
    "iter",
    "netns",
    XDP,
    "perf_event",
    "kprobe_multi",
    "struct_ops",
    "netfilter",
    TCX,
    "uprobe_multi",
    NETKIT,
    "sockmap",
];

/// Those of them whose target is named.
const CGROUP: &str = "cgroup";
const XDP: &str = "xdp";
const TCX: &str = "tcx";
const NETKIT: &str = "netkit";

/// Where `TCX` and `NETKIT` attach (`enum bpf_attach_type`).
const DIRECTIONS: [(u32, &str); 4] =
    [(46, "ingress"), (47, "egress"), (54, "primary"), (55, "peer")];

/// The programs. Device filters, of which each container has one, are the first to be left out.
///
/// # Errors
/// The kernel has no BPF, or this process may not see it.
pub fn programs(groups: &Path) -> io::Result<BpfPrograms> {
    let groups = control_groups(groups);
    let targets = targets(&groups)?;
    let ids = identifiers(Object::Program)?;
    let count = ids.len();
    let mut programs: Vec<BpfProgram> =
        ids.into_iter().filter_map(|id| read(id, targets.get(&id))).collect();
    programs.sort_by_key(|program| (program.program_type == DEVICE_FILTER, program.id));
    programs.truncate(MAX_BPF_PROGRAMS);
    // One that has gone meanwhile is not missing.
    let left_out = if count > MAX_BPF_PROGRAMS { count - programs.len() } else { 0 };
    Ok(BpfPrograms { left_out: left_out as u64, programs })
}

fn read(id: u32, targets: Option<&Vec<String>>) -> Option<BpfProgram> {
    let (info, maps) = bpf::program(bpf::open(Object::Program, id).ok()?).ok()?;
    let ProgramInfo { translated_length, jited_length, load_time, uid, .. } = info;
    let name = info.name.split(|byte| *byte == 0).next().unwrap_or_default();
    let targets = targets.cloned().unwrap_or_default();
    Some(BpfProgram {
        id,
        program_type: name_of(&PROGRAM_TYPES, info.program_type),
        name: String::from_utf8_lossy(name).into_owned(),
        tag: u64::from_be_bytes(info.tag),
        loaded: Duration::from_nanos(load_time),
        uid,
        translated_bytes: translated_length,
        jited_bytes: jited_length,
        maps,
        target_count: u32::try_from(targets.len()).unwrap_or(u32::MAX),
        targets,
        runs: info.runs,
        run_time: Duration::from_nanos(info.run_time),
    })
}

/// The name with this number, or the number.
fn name_of(names: &[&str], number: u32) -> String {
    let name = names.get(number as usize).copied().map(str::to_owned);
    name.unwrap_or_else(|| number.to_string())
}

/// The identifiers of all programs or links.
fn identifiers(object: Object) -> io::Result<Vec<u32>> {
    let mut found: Vec<u32> = Vec::new();
    while found.len() < MAX_OBJECTS {
        match bpf::next(object, found.last().copied().unwrap_or_default())? {
            Some(id) => found.push(id),
            None => break,
        }
    }
    Ok(found)
}

/// The targets of each program: those of links, and the control groups with device filters, which
/// `runc` attaches without one.
fn targets(groups: &BTreeMap<u64, ControlGroup>) -> io::Result<BTreeMap<u32, Vec<String>>> {
    let mut found: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut add = |program, target: String| {
        let targets = found.entry(program).or_default();
        if !targets.contains(&target) {
            targets.push(target);
        }
    };
    for id in identifiers(Object::Link)? {
        let info = bpf::open(Object::Link, id).and_then(bpf::link);
        if let Ok(info) = info {
            add(info.program, target(info.link_type, info.target, groups));
        }
    }
    for ControlGroup { name, folder } in groups.values() {
        let filters = File::open(folder).and_then(bpf::device_filters).unwrap_or_default();
        filters.into_iter().for_each(|program| add(program, format!("{CGROUP} {name}")));
    }
    Ok(found)
}

/// The target of a link of this type. `fields` are the first of its target.
fn target(link_type: u32, fields: [u32; 4], groups: &BTreeMap<u64, ControlGroup>) -> String {
    let kind = name_of(&LINK_TYPES, link_type);
    let [first, second, ..] = fields;
    let direction = DIRECTIONS.iter().find(|(number, _)| *number == second);
    match kind.as_str() {
        CGROUP => {
            let id = u64::from(first) | u64::from(second) << 32;
            let name = groups.get(&id).map_or_else(|| id.to_string(), |group| group.name.clone());
            format!("{kind} {name}")
        }
        XDP => format!("{kind} {}", link_name(first)),
        TCX | NETKIT => match direction {
            Some((_, direction)) => format!("{kind}-{direction} {}", link_name(first)),
            None => format!("{kind} {}", link_name(first)),
        },
        _ => kind,
    }
}

/// The name of a network link, or its number if the network of the node does not have it.
fn link_name(index: u32) -> String {
    let socket =
        rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::DGRAM, None);
    let name = socket.and_then(|socket| rustix::net::netdevice::index_to_name(socket, index));
    name.unwrap_or_else(|_| index.to_string())
}

/// A control group.
struct ControlGroup {
    /// Its path from the root of control groups.
    name: String,
    folder: PathBuf,
}

/// The control groups below a folder and its own, by the kernel's identifiers.
fn control_groups(root: &Path) -> BTreeMap<u64, ControlGroup> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        // One that has gone meanwhile is missing.
        let Ok(facts) = fs::metadata(&folder) else { continue };
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.extend(below.map(|entry| entry.path()));
        let path = folder.strip_prefix(root).unwrap_or(&folder);
        let name = format!("/{}", path.display());
        found.insert(facts.ino(), ControlGroup { name, folder });
        if found.len() == MAX_GROUPS {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests;
