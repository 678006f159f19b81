//! The logs of the node: where they are, and what they are called.
//!
//! `init` writes `NAME.log` for each daemon, `NAME.log.old` with what was in it before it was full,
//! and `NAME.log.1` of the last boot. The kubelet writes `pods/NAMESPACE_POD_UID/CONTAINER/N.log`
//! for the N-th run of a container. A name of a client is only compared with these.

use super::below;
use super::log_line::Form;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The folder of the logs of containers, in that of all logs.
const PODS: &str = "pods";

/// A log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// The folder of all logs.
    pub folder: PathBuf,
    /// Its files below that, the oldest first. The last one grows; those before it may be missing.
    pub files: Vec<PathBuf>,
    /// The form of its lines.
    pub form: Form,
    /// Whether it is the log of now or an earlier one.
    pub run: Run,
}

/// Which log of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// That of now.
    Current,
    /// That of the last boot, or of the run before.
    Previous,
}

/// The names of all logs, in order.
pub fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = daemons(folder)?;
    names.extend(containers(folder)?.into_keys());
    Ok(names)
}

/// Why there is no log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// None has the name.
    Name,
    /// The daemon with the name has no log of the last boot.
    Boot,
    /// The container with the name has no log of a run before the last one.
    Run,
}

impl Missing {
    /// The reason, for the log with this name.
    pub fn sentence(self, name: &str) -> String {
        match self {
            Missing::Name => format!("there is no log `{name}`"),
            Missing::Boot => format!("`{name}` has no log of the boot before"),
            Missing::Run => format!("`{name}` has no log of a run before"),
        }
    }
}

/// The log with this name.
pub fn find(folder: &Path, name: &str, run: Run) -> io::Result<Result<Log, Missing>> {
    if daemons(folder)?.iter().any(|daemon| daemon == name) {
        let file = |suffix: &str| PathBuf::from(format!("{name}.log{suffix}"));
        let files = match run {
            Run::Current => vec![file(".old"), file("")],
            Run::Previous => vec![file(".1")],
        };
        if run == Run::Previous && below::file(folder, &files[0])?.is_none() {
            return Ok(Err(Missing::Boot));
        }
        return Ok(Ok(Log { folder: folder.to_owned(), files, form: Form::Plain, run }));
    }
    let Some(container) = containers(folder)?.remove(name) else {
        return Ok(Err(Missing::Name));
    };
    let runs = runs(folder, &container)?;
    let number = match run {
        Run::Current => runs.last().ok_or(Missing::Name),
        Run::Previous => runs.iter().rev().nth(1).ok_or(Missing::Run),
    };
    let file = number.map(|number| container.join(format!("{number}.log")));
    let folder = folder.to_owned();
    Ok(file.map(|file| Log { folder, files: vec![file], form: Form::Cri, run }))
}

/// The files of the runs of a container that came after the one with this file, the oldest first.
pub fn later_runs(folder: &Path, file: &Path) -> io::Result<Vec<PathBuf>> {
    let number = file.file_name().and_then(|name| number(name.to_str()?));
    let (Some(number), Some(container)) = (number, file.parent()) else { return Ok(Vec::new()) };
    let runs = runs(folder, container)?.into_iter();
    let later = runs.filter(|run| *run > number);
    Ok(later.map(|run| container.join(format!("{run}.log"))).collect())
}

/// The name of a pod, by the identifier of each.
pub fn pods(folder: &Path) -> io::Result<BTreeMap<String, String>> {
    let pods = below::names(folder, Path::new(PODS))?.into_iter();
    Ok(pods.filter_map(|entry| pod(&entry).map(|(name, uid)| (uid, name))).collect())
}

fn daemons(folder: &Path) -> io::Result<Vec<String>> {
    let names = below::names(folder, Path::new("."))?.into_iter();
    Ok(names.filter_map(|name| name.strip_suffix(".log").map(str::to_owned)).collect())
}

/// The folder with the logs of each container, below the folder of all logs. Of pods with the same
/// name the newest counts.
fn containers(folder: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut newest: BTreeMap<String, (SystemTime, PathBuf)> = BTreeMap::new();
    for entry in below::names(folder, Path::new(PODS))? {
        let Some((pod, _)) = pod(&entry) else { continue };
        let of_pod = Path::new(PODS).join(&entry);
        for container in below::names(folder, &of_pod)? {
            let path = of_pod.join(&container);
            let found = fs::symlink_metadata(folder.join(&path));
            let Ok(changed) = found.and_then(|found| found.modified()) else { continue };
            let found = newest.entry(format!("{pod}/{container}"));
            let found = found.or_insert_with(|| (changed, path.clone()));
            if changed > found.0 {
                *found = (changed, path);
            }
        }
    }
    Ok(newest.into_iter().map(|(name, (_, path))| (name, path)).collect())
}

/// The numbers of the runs of a container, in order.
fn runs(folder: &Path, container: &Path) -> io::Result<Vec<u64>> {
    let names = below::names(folder, container)?.into_iter();
    let mut runs: Vec<u64> = names.filter_map(|name| number(&name)).collect();
    runs.sort_unstable();
    Ok(runs)
}

/// The number of a run, from the name of its file.
fn number(file: &str) -> Option<u64> {
    file.strip_suffix(".log")?.parse().ok()
}

/// The name of a pod, `NAMESPACE/POD`, and its identifier, from the name of its folder.
fn pod(folder: &str) -> Option<(String, String)> {
    let (rest, uid) = folder.rsplit_once('_')?;
    let (namespace, name) = rest.split_once('_')?;
    Some((format!("{namespace}/{name}"), uid.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::log_file::LogFile;
    use super::*;
    use std::os::unix::fs::symlink;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in [
            "init.log",
            "init.log.1",
            "init.log.old",
            "kubelet.log",
            "pods/kube-system_dhcp-edge_5d0c/dhcp/0.log",
            "pods/kube-system_dhcp-edge_5d0c/dhcp/9.log",
            "pods/kube-system_dhcp-edge_5d0c/dhcp/10.log",
            "pods/kube-system_dhcp-edge_5d0c/dhcp/10.log.20261126-151217",
            "pods/a file of somebody",
        ] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        folder
    }

    fn files(folder: &Path, name: &str, run: Run) -> Option<Vec<String>> {
        let log = find(folder, name, run).unwrap().ok()?;
        assert_eq!(log.folder, folder);
        Some(log.files.iter().map(|path| path.display().to_string()).collect())
    }

    #[test]
    fn the_logs_are_those_of_daemons_and_of_containers() {
        let folder = folder();
        let names = names(folder.path()).unwrap();
        assert_eq!(names, ["init", "kubelet", "kube-system/dhcp-edge/dhcp"]);
        let pods = pods(folder.path()).unwrap();
        assert_eq!(pods["5d0c"], "kube-system/dhcp-edge");
    }

    #[test]
    fn the_newest_run_is_the_current_one() {
        let folder = folder();
        let files = |name, run| files(folder.path(), name, run).map(|files| files.join(" "));
        assert_eq!(files("init", Run::Current).as_deref(), Some("init.log.old init.log"));
        assert_eq!(files("init", Run::Previous).as_deref(), Some("init.log.1"));
        let container = |number| Some(format!("pods/kube-system_dhcp-edge_5d0c/dhcp/{number}.log"));
        assert_eq!(files("kube-system/dhcp-edge/dhcp", Run::Current), container(10));
        assert_eq!(files("kube-system/dhcp-edge/dhcp", Run::Previous), container(9));
    }

    #[test]
    fn a_name_that_is_not_listed_leads_nowhere() {
        let folder = folder();
        for name in
            ["", ".", "..", "/etc/passwd", "../init", "pods/x", "init.log", "kube-system/dhcp-edge"]
        {
            let found = find(folder.path(), name, Run::Current).unwrap();
            assert_eq!(found, Err(Missing::Name), "{name}");
        }
    }

    #[test]
    fn links_in_the_folders_of_pods_lead_nowhere() {
        let (folder, elsewhere) = (folder(), tempfile::tempdir().unwrap());
        let of_container = elsewhere.path().join("container");
        fs::create_dir(&of_container).unwrap();
        fs::write(of_container.join("0.log"), "a secret").unwrap();
        let pods = folder.path().join("pods");
        symlink(elsewhere.path(), pods.join("default_linked_1")).unwrap();
        fs::create_dir(pods.join("default_pod_2")).unwrap();
        symlink(&of_container, pods.join("default_pod_2/container")).unwrap();
        for name in ["default/linked/container", "default/pod/container"] {
            let found = find(folder.path(), name, Run::Current).unwrap();
            assert_eq!(found, Err(Missing::Name), "{name}");
        }
        // The folder may be replaced after it was looked at.
        fs::create_dir_all(pods.join("default_late_3/container")).unwrap();
        fs::write(pods.join("default_late_3/container/0.log"), "").unwrap();
        let log = find(folder.path(), "default/late/container", Run::Current).unwrap().unwrap();
        fs::remove_dir_all(pods.join("default_late_3")).unwrap();
        symlink(elsewhere.path(), pods.join("default_late_3")).unwrap();
        assert!(LogFile::open(&log, None).unwrap().read().unwrap().is_empty());
    }

    #[test]
    fn a_node_without_logs_has_none() {
        let folder = tempfile::tempdir().unwrap();
        assert!(names(&folder.path().join("missing")).unwrap().is_empty());
    }
}
