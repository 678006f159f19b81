//! The memory that a machine uses for itself, without its pods.

use osbuild::error::{Error, Result};
use serde_json::Value;

/// The script of the first pod. It prints the machine's memory, and the statistics of each pod's
/// control group below a line with its path.
pub const SCRIPT: &str = "\
cat /proc/meminfo
for folder in /cgroup/kubepods*/*pod*/ /cgroup/kubepods*/*/*pod*/; do
    if [ -f \"$folder/memory.stat\" ]; then echo \"group $folder\"; cat \"$folder/memory.stat\"; fi
done";

/// The memory in use: what the kernel counts as not available, without the anonymous memory, the
/// memory files and the kernel's own memory of `pods`. The kernel can free the other memory of
/// their control groups, so that it counts as available.
///
/// # Errors
/// The output of [`SCRIPT`] lacks a number.
pub fn in_use(output: &str, pods: &[Value]) -> Result<u64> {
    let missing = || Error::build("the output about memory lacks a number").cause(output);
    let mut parts = output.split("group ");
    let machine = parts.next().unwrap_or_default();
    let kib = |name| number(machine, name).ok_or_else(missing);
    let total = (kib("MemTotal:")? - kib("MemAvailable:")?) << 10;
    let identifiers: Vec<&str> =
        pods.iter().filter_map(|pod| pod["metadata"]["uid"].as_str()).collect();
    let mut used = total;
    let mut found = 0;
    for group in parts {
        // systemd's names have no hyphens within a name.
        let path = group.lines().next().unwrap_or_default().replace('_', "-");
        if identifiers.iter().any(|identifier| path.contains(identifier)) {
            found += 1;
            used -= own(group).ok_or_else(missing)?;
        }
    }
    if found == identifiers.len() { Ok(used) } else { Err(missing()) }
}

/// The memory of a control group that the kernel cannot free.
fn own(group: &str) -> Option<u64> {
    let value = |name| number(group, name);
    Some(value("anon")? + value("shmem")? + value("kernel")? - value("slab_reclaimable")?)
}

/// The number behind a name at the start of a line.
fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        if words.next() == Some(name) { words.next()?.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const OUTPUT: &str = "MemTotal: 2000 kB\nMemFree: 100 kB\nMemAvailable: 1500 kB\n\
        group /cgroup/kubepods.slice/kubepods-podaa_b.slice/\nanon 10\nfile 900\nkernel 20\n\
        shmem 5\nslab_reclaimable 3\ngroup /cgroup/kubepods.slice/kubepods-podcc.slice/\nanon 7\n";

    #[test]
    fn the_memory_of_named_pods_is_not_the_machines() {
        let pod = json!({ "metadata": { "uid": "aa-b" } });
        assert_eq!(in_use(OUTPUT, &[]).unwrap(), 500 << 10);
        assert_eq!(in_use(OUTPUT, &[pod]).unwrap(), (500 << 10) - 32);
    }

    #[test]
    fn a_pod_without_numbers_is_an_error() {
        for uid in ["cc", "dd"] {
            let pod = json!({ "metadata": { "uid": uid } });
            assert!(in_use(OUTPUT, &[pod]).is_err());
        }
        assert!(in_use("MemTotal: 5 kB\n", &[]).is_err());
    }
}
