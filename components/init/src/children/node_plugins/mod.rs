//! `init node-plugins` reports the network configuration with which containerd gives pods a
//! network, as a line `cni STATE`, the [storage drivers](storage), the [clients](runtime_clients)
//! of containerd and the [BPF programs](bpf) of the kernel. Pods make all four, so PID 1 reads only
//! the lines.

mod bpf;
mod runtime_clients;
mod storage;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use osbuild_abi::paths::{
    CNI_CONFIGURATIONS, CNI_PLUGINS, CONTAINERD_SOCKET, KUBELET_PLUGINS, KUBELET_REGISTRATIONS,
    LOGS, NRI_SOCKET,
};
use osbuild_failure::Outcome;
use osbuild_protocol::CniState;
use rustix::fs::OFlags;
use rustix::process::Pid;

use init::cni::{self, Configuration, SUFFIXES};

/// The folder of the control groups.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// The maximum bytes of a configuration.
const MAX_BYTES: u64 = 256 << 10;

/// The folder in that of logs with those of pods.
const PODS: &str = "pods";

/// Reports them. `containerd` is the process identifier of that daemon, if it runs.
pub fn report(containerd: Option<&str>) -> Outcome {
    let state = cni(Path::new(CNI_CONFIGURATIONS), Path::new(CNI_PLUGINS));
    println!("cni {}", state.encode());
    let drivers = storage::drivers(Path::new(KUBELET_REGISTRATIONS), Path::new(KUBELET_PLUGINS));
    print!("{}", drivers.encode());
    let containerd = containerd.and_then(|pid| Pid::from_raw(pid.parse().ok()?));
    let clients = containerd.map(|containerd| {
        let sockets = [CONTAINERD_SOCKET, NRI_SOCKET].map(PathBuf::from);
        runtime_clients::clients(containerd, &sockets, &Path::new(LOGS).join(PODS))
    });
    if let Some(Ok(clients)) = clients {
        print!("{}", clients.encode());
    }
    if let Ok(programs) = bpf::programs(Path::new(CONTROL_GROUPS)) {
        print!("{}", programs.encode());
    }
    Ok(())
}

/// The state of the configuration in a folder, of whose plugins the programs are in another one.
fn cni(configurations: &Path, programs: &Path) -> CniState {
    let file = match first(configurations) {
        Ok(Some(file)) => file,
        Ok(None) => {
            let error = format!(
                "{CNI_CONFIGURATIONS} has no network configuration: the pod of the cluster's \
                 network plugin writes it there"
            );
            return CniState { error, ..CniState::default() };
        }
        Err(error) => {
            let error = format!("cannot read {CNI_CONFIGURATIONS}: {error}");
            return CniState { error, ..CniState::default() };
        }
    };
    let found = open(&configurations.join(&file));
    let changed = found.as_ref().map_or(0, |(_, changed)| *changed);
    let read = found.and_then(|(opened, _)| bytes(opened)).map_err(|error| error.to_string());
    let state = CniState { file, changed, ..CniState::default() };
    match read.and_then(|bytes| cni::read(&state.file, &bytes)) {
        Ok(configuration) => with_programs(state, configuration, programs),
        Err(error) => {
            let error = format!("{CNI_CONFIGURATIONS}/{}: {error}", state.file);
            CniState { error, ..state }
        }
    }
}

/// The state with a configuration that containerd accepts: all programs of its plugins are needed.
fn with_programs(state: CniState, found: Configuration, programs: &Path) -> CniState {
    let Configuration { name, version, plugins } = found;
    let is_missing = |plugin: &&String| !is_program(&programs.join(plugin));
    let missing: Vec<String> = plugins.iter().filter(is_missing).cloned().collect();
    let error = match missing.first() {
        Some(first) => format!(
            "{CNI_CONFIGURATIONS}/{}: the program of the plugin `{first}` is not in {CNI_PLUGINS}",
            state.file
        ),
        None => String::new(),
    };
    CniState { name, version, plugins, missing, error, ..state }
}

/// The file that containerd takes: the first by name, whether it is valid or not.
fn first(folder: &Path) -> io::Result<Option<String>> {
    let mut first: Option<String> = None;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let counts = SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) && !entry.path().is_dir();
        if counts && first.as_ref().is_none_or(|first| name < *first) {
            first = Some(name);
        }
    }
    Ok(first)
}

/// Opens a regular file, which may be behind a link, and says when it was changed.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let facts = file.metadata()?;
    match facts.is_file() {
        true => Ok((file, u64::try_from(facts.mtime()).unwrap_or_default())),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

fn bytes(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_BYTES {
        true => Err(io::Error::other(format!("it has more than {MAX_BYTES} bytes"))),
        false => Ok(bytes),
    }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    const LIST: &str = r#"{"name": "pods", "cniVersion": "1.0.0", "plugins": [
        {"type": "ptp"}, {"type": "portmap"}]}"#;

    fn node() -> (TempDir, TempDir) {
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap())
    }

    fn add_program(programs: &TempDir, name: &str, mode: u32) {
        let path = programs.path().join(name);
        fs::write(&path, "").unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_first_configuration_counts_with_the_programs_of_its_plugins() {
        let (folder, programs) = node();
        let state = || cni(folder.path(), programs.path());
        assert!(state().error.contains("/etc/cni/net.d has no network configuration"));
        fs::write(folder.path().join("20-b.conflist"), LIST).unwrap();
        fs::write(folder.path().join("calico-kubeconfig"), "a secret").unwrap();
        fs::create_dir(folder.path().join("00.conf")).unwrap();
        add_program(&programs, "ptp", 0o755);
        add_program(&programs, "portmap", 0o644);
        let found = state();
        assert_eq!((found.file.as_str(), found.name.as_str()), ("20-b.conflist", "pods"));
        assert_eq!(
            (found.plugins, found.missing),
            (vec!["ptp".into(), "portmap".into()], vec!["portmap".into()])
        );
        assert!(found.changed > 0);
        assert_eq!(
            found.error,
            "/etc/cni/net.d/20-b.conflist: the program of the plugin `portmap` is not in \
             /opt/cni/bin"
        );
        add_program(&programs, "portmap", 0o755);
        assert_eq!((state().error.as_str(), state().missing.len()), ("", 0));
        fs::write(folder.path().join("10-a.conflist"), "{").unwrap();
        let found = state();
        assert_eq!((found.file.as_str(), found.name.as_str()), ("10-a.conflist", ""));
        assert_eq!(
            found.error,
            "/etc/cni/net.d/10-a.conflist: it is not JSON: EOF while parsing an object at line 1 \
             column 1"
        );
    }

    #[test]
    fn what_is_no_small_file_is_refused_without_waiting_for_it() {
        let (folder, programs) = node();
        let error = || cni(folder.path(), programs.path()).error;
        let path = folder.path().join("10-a.conf");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert!(error().ends_with("10-a.conf: it is not a regular file"));
        fs::remove_file(&path).unwrap();
        symlink("nowhere", &path).unwrap();
        assert!(error().contains("10-a.conf: No such file"));
        fs::remove_file(&path).unwrap();
        fs::write(&path, " ".repeat(300 << 10)).unwrap();
        assert!(error().ends_with("10-a.conf: it has more than 262144 bytes"));
    }
}
