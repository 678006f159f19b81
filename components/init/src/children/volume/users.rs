//! Finds what uses a mounted volume. The mount on the node can be unmounted while containers and
//! the kubelet have mounts of the same disk, and those would keep it in use where nobody sees it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use osbuild_failure::{Explain, Outcome};

use init::process;

use crate::mountinfo::{Entry, entries};

/// How many users an error names.
const MAX_NAMED: usize = 4;

/// The pods, and the places of other mounts, that use the disk which is mounted there.
///
/// # Errors
/// Nothing is mounted there.
pub fn of(point: &str) -> Outcome<BTreeSet<String>> {
    let table = |path: &Path| Some(entries(&fs::read(path).ok()?));
    let own = table(Path::new("/proc/thread-self/mountinfo")).unwrap_or_default();
    let is_there = |entry: &&Entry| entry.point == Path::new(point);
    let mounted = own.iter().rev().find(is_there);
    let mounted = mounted.ok_or("it is not mounted").explain(format_args!("unmount `{point}`"))?;
    let above = own.iter().find(|entry| entry.id == mounted.parent);
    let above = above.map(|entry| entry.device.clone()).unwrap_or_default();
    let mut users: BTreeSet<String> = others(&own, mounted, &above).collect();
    let own_view = fs::read_link("/proc/thread-self/ns/mnt").ok();
    let mut seen = BTreeSet::new();
    let folders = fs::read_dir("/proc").explain("list /proc")?;
    for process in folders.flatten().filter(|entry| is_number(&entry.file_name())) {
        let process = process.path();
        // A process may end meanwhile.
        let Ok(view) = fs::read_link(process.join("ns/mnt")) else { continue };
        if own_view.as_ref() == Some(&view) || !seen.insert(view) {
            continue;
        }
        let table = table(&process.join("mountinfo")).unwrap_or_default();
        if others(&table, mounted, &above).next().is_some() {
            let groups = fs::read_to_string(process.join("cgroup")).unwrap_or_default();
            users.insert(pod(&groups).unwrap_or_else(|| "a process".to_owned()));
        }
    }
    Ok(users)
}

/// Says who uses a volume.
pub fn in_words(users: &BTreeSet<String>) -> String {
    let named: Vec<&str> = users.iter().take(MAX_NAMED).map(String::as_str).collect();
    let more = users.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("it is unmounted once nothing uses it: in use by {}{more}", named.join(", "))
}

/// The users in a table of mounts: all mounts of the volume's folder, which is the whole disk or a
/// part of DATA, except those on the folder of the volumes, whatever sees it, as these go with that
/// of the node.
fn others<'a>(
    table: &'a [Entry],
    mounted: &'a Entry,
    above: &'a str,
) -> impl Iterator<Item = String> + 'a {
    let is_on_folder = move |entry: &Entry| {
        let parent = table.iter().find(|other| other.id == entry.parent);
        parent.is_some_and(|parent| parent.device == above)
    };
    let is_part =
        |entry: &Entry| entry.device == mounted.device && entry.root.starts_with(&mounted.root);
    let parts = table.iter().filter(move |entry| is_part(entry) && !is_on_folder(entry));
    parts.map(|entry| {
        let point = entry.point.to_string_lossy().into_owned();
        pod(&point).unwrap_or(point)
    })
}

/// The pod in a path of the kubelet or of a control group.
fn pod(path: &str) -> Option<String> {
    process::pod(path).map(|uid| format!("the pod {uid}"))
}

fn is_number(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
}
