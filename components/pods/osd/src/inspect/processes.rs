//! The processes of the node.

use super::logs;
use osbuild_cosi::v1::{HostProcess, ListProcessesResponse};
use procfs::ProcResult;
use procfs::process::{Process, all_processes_with_root};
use prost::Message;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

/// Of a command line, the most that is shown, in bytes.
const MAX_COMMAND: usize = 4 << 10;

/// The most bytes of all processes in an answer: a pod may start very many.
const MAX_LIST: usize = 1 << 20;

/// Bytes that a process takes in an answer beside its fields.
const FRAME: usize = 6;

/// The shortest identifier of a pod: those of static pods are MD5 sums, the others are UUIDs.
const MIN_UID: usize = 32;

/// The pods, by which a control group is one of a pod.
struct Pods<'a> {
    /// The name of each by its identifier.
    by_uid: BTreeMap<String, String>,
    /// The name of the pod of this process.
    own: &'a str,
}

/// Processes of which an answer has as much as fits.
struct Fitting {
    processes: Vec<HostProcess>,
    bytes: usize,
    /// Of a command line, the most that fits, in bytes.
    max_command: usize,
}

/// The processes that the file system `processes` shows (proc(5)), by their identifiers. The folder
/// of logs has the names of pods; that of this process is `own_pod`.
pub fn list(
    processes: &Path,
    log_folder: &Path,
    own_pod: &str,
) -> io::Result<ListProcessesResponse> {
    let pods = Pods { by_uid: logs::pods(log_folder)?, own: own_pod };
    let all = all_processes_with_root(processes).map_err(io::Error::other)?;
    let mut fitting = Fitting { processes: Vec::new(), bytes: 0, max_command: MAX_COMMAND };
    for process in all {
        // One that cannot be read has ended in the meantime, and must not hide the others anyway.
        if let Ok(found) = process.and_then(|process| read(&process, &pods)) {
            fitting.add(found);
        }
    }
    Ok(fitting.finish())
}

impl Fitting {
    fn add(&mut self, mut process: HostProcess) {
        shorten(&mut process.command, self.max_command);
        self.bytes += size(&process);
        self.processes.push(process);
        while self.bytes > MAX_LIST && self.max_command > 0 {
            self.max_command /= 4;
            for process in &mut self.processes {
                shorten(&mut process.command, self.max_command);
            }
            self.bytes = self.processes.iter().map(size).sum();
        }
    }

    /// The processes by their identifiers. If even those without a command line do not fit, each
    /// pod has one before another has two.
    fn finish(self) -> ListProcessesResponse {
        let Fitting { mut processes, bytes, .. } = self;
        processes.sort_unstable_by_key(|process| process.pid);
        if bytes <= MAX_LIST {
            return ListProcessesResponse { processes, left_out: 0 };
        }
        let (all, mut counts) = (processes.len(), BTreeMap::<String, usize>::new());
        let mut ranked: Vec<(usize, HostProcess)> = Vec::with_capacity(all);
        for process in processes {
            let count = counts.entry(process.pod.clone()).or_default();
            *count += 1;
            ranked.push((*count, process));
        }
        // The order among those with the same count stays.
        ranked.sort_by_key(|(count, _)| *count);
        let mut room = MAX_LIST;
        let fits = |process: &HostProcess| {
            let rest = room.checked_sub(size(process));
            room = rest.unwrap_or(0);
            rest.is_some()
        };
        let mut processes: Vec<_> =
            ranked.into_iter().map(|(_, process)| process).take_while(fits).collect();
        processes.sort_unstable_by_key(|process| process.pid);
        let left_out = u32::try_from(all - processes.len()).unwrap_or(u32::MAX);
        ListProcessesResponse { processes, left_out }
    }
}

fn size(process: &HostProcess) -> usize {
    process.encoded_len() + FRAME
}

fn shorten(text: &mut String, max: usize) {
    text.truncate(text.floor_char_boundary(max));
}

fn read(process: &Process, pods: &Pods) -> ProcResult<HostProcess> {
    let stat = process.stat()?;
    let ticks = procfs::ticks_per_second();
    let milliseconds = |time: u64| time.saturating_mul(1000) / ticks.max(1);
    // A group may have a name that is no text, and the process is shown without a pod then.
    let mut groups = process.cgroups().into_iter().flatten();
    let pod = groups.find_map(|group| pods.of(&group.pathname));
    Ok(HostProcess {
        pid: stat.pid,
        parent: stat.ppid,
        name: stat.comm.clone(),
        command: command(process)?,
        state: stat.state.to_string(),
        user: process.uid()?,
        memory_bytes: stat.rss.saturating_mul(procfs::page_size()),
        processor_milliseconds: milliseconds(stat.utime.saturating_add(stat.stime)),
        started_milliseconds: milliseconds(stat.starttime),
        pod: pod.unwrap_or_default(),
    })
}

/// The beginning of the command line, in which a process may write any bytes.
fn command(process: &Process) -> ProcResult<String> {
    let mut bytes = Vec::new();
    process.open_relative("cmdline")?.take(MAX_COMMAND as u64).read_to_end(&mut bytes)?;
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
    let mut command = words.join(" ");
    shorten(&mut command, MAX_COMMAND);
    Ok(command)
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
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn this_process_is_among_those_of_the_machine() {
        let logs = tempfile::tempdir().unwrap();
        let answer = list(Path::new("/proc"), logs.path(), "kube-system/osd-edge").unwrap();
        let all = answer.processes;
        let pid = i32::try_from(std::process::id()).unwrap();
        let own = all.iter().find(|process| process.pid == pid).unwrap();
        assert!(own.memory_bytes > 1 << 20 && own.command.contains("pod_osd"), "{own:?}");
        assert!(all.is_sorted_by_key(|process| process.pid));
    }

    #[test]
    fn a_command_line_that_is_no_text_hides_no_process() {
        let mut command = Command::new("sleep");
        let mut child = command.arg0(OsStr::from_bytes(b"\xff\xfe")).arg("60").spawn().unwrap();
        let (logs, pid) = (tempfile::tempdir().unwrap(), i32::try_from(child.id()).unwrap());
        let all = list(Path::new("/proc"), logs.path(), "kube-system/osd-edge");
        child.kill().unwrap();
        child.wait().unwrap();
        let all = all.unwrap().processes;
        let found = all.iter().find(|process| process.pid == pid).unwrap();
        assert_eq!(found.command, "\u{fffd}\u{fffd} 60");
    }

    fn listed(of: &[(&str, i32)], command: &str) -> ListProcessesResponse {
        let mut fitting = Fitting { processes: Vec::new(), bytes: 0, max_command: MAX_COMMAND };
        for (pod, count) in of {
            for _ in 0..*count {
                let pid = i32::try_from(fitting.processes.len()).unwrap() + 1;
                let (pod, command) = ((*pod).to_owned(), command.to_owned());
                fitting.add(HostProcess { pid, pod, command, ..HostProcess::default() });
            }
        }
        fitting.finish()
    }

    #[test]
    fn many_processes_have_short_command_lines() {
        let long = "é".repeat(MAX_COMMAND / 2);
        let few = listed(&[("a", 200)], &long);
        assert!(few.processes.iter().all(|process| process.command.len() == MAX_COMMAND));
        let many = listed(&[("a", 2000)], &long);
        assert_eq!((many.processes.len(), many.left_out), (2000, 0));
        assert!(many.processes.iter().all(|process| process.command.len() == 256));
        assert!(many.encoded_len() <= MAX_LIST);
    }

    #[test]
    fn a_pod_with_very_many_processes_hides_no_other_one() {
        let of = [("hostile", 100_000), ("", 300), ("dhcp", 2)];
        let answer = listed(&of, "sleep");
        let count = |pod: &str| answer.processes.iter().filter(|one| one.pod == pod).count();
        assert_eq!((count(""), count("dhcp")), (300, 2));
        assert_eq!(answer.processes.len() + answer.left_out as usize, 100_302);
        assert!(answer.left_out > 0 && answer.encoded_len() <= MAX_LIST + 9);
        assert!(answer.processes.is_sorted_by_key(|process| process.pid));
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
