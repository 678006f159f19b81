//! Facts about the pods' control groups on the host.

use std::fs;
use std::io;
use std::path::Path;

/// The kubelet's control group for pods, below the host's root.
const KUBEPODS: &str = "sys/fs/cgroup/kubepods";

/// `pids-max FOLDER LIMIT` for each pod's control group: the limit of processes and threads.
pub fn facts(host: &Path) -> io::Result<Vec<String>> {
    let mut facts = Vec::new();
    let kubepods = host.join(KUBEPODS);
    // Guaranteed pods are direct children; the others are in a folder of their quality of service.
    for parent in [kubepods.clone(), kubepods.join("besteffort"), kubepods.join("burstable")] {
        for entry in fs::read_dir(parent)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("pod") {
                let limit = fs::read_to_string(entry.path().join("pids.max"))?;
                facts.push(format!("pids-max {name} {}", limit.trim()));
            }
        }
    }
    Ok(facts)
}
