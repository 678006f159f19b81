//! The processes of the node.

use super::logs;
use osbuild_cosi::v1::HostProcess;
use procfs::process::{Process, all_processes_with_root};
use procfs::{ProcError, ProcResult};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Of a command line, the most that is shown, in bytes.
const MAX_COMMAND: usize = 4 << 10;

/// The shortest identifier of a pod: those of static pods are MD5 sums, the others are UUIDs.
const MIN_UID: usize = 32;

/// The pods, by which a control group is one of a pod.
struct Pods<'a> {
    /// The name of each by its identifier.
    by_uid: BTreeMap<String, String>,
    /// The name of the pod of this process.
    own: &'a str,
}

/// The processes that the file system `processes` shows (proc(5)), by their identifiers. The folder
/// of logs has the names of pods; that of this process is `own_pod`.
pub fn list(processes: &Path, log_folder: &Path, own_pod: &str) -> io::Result<Vec<HostProcess>> {
    let pods = Pods { by_uid: logs::pods(log_folder)?, own: own_pod };
    let all = all_processes_with_root(processes).map_err(io::Error::other)?;
    let mut found = Vec::new();
    for process in all {
        match process.and_then(|process| read(&process, &pods)) {
            Ok(process) => found.push(process),
            // It has ended in the meantime.
            Err(ProcError::NotFound(_)) => {}
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    found.sort_unstable_by_key(|process| process.pid);
    Ok(found)
}

fn read(process: &Process, pods: &Pods) -> ProcResult<HostProcess> {
    let stat = process.stat()?;
    let ticks = procfs::ticks_per_second();
    let milliseconds = |time: u64| time.saturating_mul(1000) / ticks.max(1);
    let groups = process.cgroups()?;
    let pod = groups.into_iter().find_map(|group| pods.of(&group.pathname));
    let mut command = process.cmdline()?.join(" ");
    if command.len() > MAX_COMMAND {
        let end = (0..=MAX_COMMAND).rev().find(|at| command.is_char_boundary(*at)).unwrap_or(0);
        command.truncate(end);
    }
    Ok(HostProcess {
        pid: stat.pid,
        parent: stat.ppid,
        name: stat.comm.clone(),
        command,
        state: stat.state.to_string(),
        user: process.uid()?,
        memory_bytes: stat.rss.saturating_mul(procfs::page_size()),
        processor_milliseconds: milliseconds(stat.utime.saturating_add(stat.stime)),
        started_milliseconds: milliseconds(stat.starttime),
        pod: pod.unwrap_or_default(),
    })
}

impl Pods<'_> {
    /// The pod of a control group, whose path has a part `podUID`. A pod without logs has no name.
    /// The path is relative to the control group of this process (cgroup_namespaces(7)): this and
    /// its neighbours are of one pod.
    fn of(&self, path: &str) -> Option<String> {
        let is_own = match path.strip_prefix("/..") {
            Some(rest) => !rest.starts_with("/..") && rest.matches('/').count() == 1,
            None => path == "/",
        };
        if is_own {
            return Some(self.own.to_owned());
        }
        let is_uid = |uid: &&str| uid.len() >= MIN_UID;
        let uid = path.split('/').find_map(|part| part.strip_prefix("pod").filter(is_uid))?;
        Some(self.by_uid.get(uid).cloned().unwrap_or_else(|| uid.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_among_those_of_the_machine() {
        let logs = tempfile::tempdir().unwrap();
        let all = list(Path::new("/proc"), logs.path(), "kube-system/osd-edge").unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        let own = all.iter().find(|process| process.pid == pid).unwrap();
        assert!(own.memory_bytes > 1 << 20 && own.command.contains("pod_osd"), "{own:?}");
        assert!(all.is_sorted_by_key(|process| process.pid));
    }

    #[test]
    fn a_control_group_names_the_pod() {
        let dhcp = "5d0c377952b35d0c377952b35d0c3779";
        let by_uid = BTreeMap::from([(dhcp.to_owned(), "kube-system/dhcp-edge".to_owned())]);
        let pods = Pods { by_uid, own: "kube-system/osd-edge" };
        let other = "0f3bd76e-8c3f-4d5e-9a51-7b0f5f8f2a11";
        for (path, name) in [
            (format!("/../../besteffort/pod{dhcp}/82c46260"), "kube-system/dhcp-edge"),
            (format!("/kubepods/pod{other}/82c46260"), other),
            ("/".to_owned(), "kube-system/osd-edge"),
            ("/../82c46260".to_owned(), "kube-system/osd-edge"),
            ("/../../../podruntime/containerd".to_owned(), ""),
            ("/../../../init".to_owned(), ""),
        ] {
            assert_eq!(pods.of(&path).unwrap_or_default(), name, "{path}");
        }
    }
}
