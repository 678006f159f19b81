//! `init resolver` updates the resolv.conf of running pods to the node's.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use osbuild_abi::paths::RESOLV_CONF;
use osbuild_failure::{Explain, Outcome};
use rustix::fs::OFlags;

use crate::host::pod_resolvers::{HISTORY, is_copy};

/// The folder in which containerd has a folder of files for each sandbox, named by its id.
const SANDBOXES: &str = "/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes";
/// The file in it that is mounted into the containers.
const FILE: &str = "resolv.conf";
/// The waits before each pass. A sandbox that is being made may still get the resolver that the
/// kubelet read before the change.
const WAITS: [Duration; 4] =
    [Duration::ZERO, Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(30)];

/// Updates all pods, several times.
pub fn follow() -> Outcome {
    for wait in WAITS {
        std::thread::sleep(wait);
        let new = fs::read_to_string(RESOLV_CONF).explain(format_args!("read {RESOLV_CONF}"))?;
        let history = history(Path::new(HISTORY)).explain(format_args!("read {HISTORY}"))?;
        update(Path::new(SANDBOXES), &new, &history)
            .explain(format_args!("update name servers of pods in {SANDBOXES}"))?;
    }
    Ok(())
}

/// The resolvers that the node had before. A node that still has its first one has no file.
fn history(file: &Path) -> io::Result<String> {
    match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

/// Writes the new text into each sandbox whose file is a copy of an earlier one.
fn update(sandboxes: &Path, new: &str, history: &str) -> io::Result<()> {
    let sandboxes = match fs::read_dir(sandboxes) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        sandboxes => sandboxes?,
    };
    for sandbox in sandboxes {
        match update_file(&sandbox?.path().join(FILE), new, history) {
            // The sandbox has just been made, or removed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}

/// Changes the file in place: containers would not see another file with its name.
fn update_file(path: &Path, new: &str, history: &str) -> io::Result<()> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = File::options().read(true).write(true).custom_flags(flags).open(path)?;
    let old = io::read_to_string(&file)?;
    if old == new || !is_copy(&old, history) {
        return Ok(());
    }
    file.write_all_at(new.as_bytes(), 0)?;
    file.set_len(new.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::resolver::Resolver;

    #[test]
    fn copies_change_in_place_and_all_other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let old = "nameserver 10.0.2.3\nsearch a.example b.example\n";
        let new = "nameserver 192.0.2.1\n";
        let pods = [
            ("empty", "", new),
            ("copy", old, new),
            ("cluster", "nameserver 10.96.0.10\n", "nameserver 10.96.0.10\n"),
        ];
        let file = |name: &str| folder.path().join(name).join(FILE);
        let held = pods.map(|(name, text, _)| {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(file(name), text).unwrap();
            File::open(file(name)).unwrap()
        });
        fs::create_dir(folder.path().join("being made")).unwrap();
        update(folder.path(), new, &Resolver::parse(old).to_line()).unwrap();
        for (held, (name, _, expected)) in held.iter().zip(pods) {
            // A container has the file open, not its name.
            assert_eq!(io::read_to_string(held).unwrap(), expected, "{name}");
        }
    }

    #[test]
    fn a_node_with_its_first_resolver_is_not_an_error() {
        assert_eq!(history(Path::new("/no/such/file")).unwrap(), "");
        assert!(history(Path::new("/")).is_err());
    }

    #[test]
    fn a_node_without_pods_is_not_an_error() {
        assert!(update(Path::new("/no/such/folder"), "", "").is_ok());
    }
}
