//! `init resolver` updates the resolv.conf of running pods to the node's.

use std::fs::{self, File};
use std::io::{self, Read};
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
/// The maximum length of that file in bytes. Root of a pod may make it as long as the disk is.
const MAX_LENGTH: u64 = 64 << 10;
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

/// Writes the new text into each sandbox whose file is a copy of an earlier one. Returns the first
/// failure once it has tried all.
fn update(sandboxes: &Path, new: &str, history: &str) -> io::Result<()> {
    let sandboxes = match fs::read_dir(sandboxes) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        sandboxes => sandboxes?,
    };
    let mut outcome = Ok(());
    for sandbox in sandboxes {
        match update_file(&sandbox?.path().join(FILE), new, history) {
            // The sandbox has just been made, or removed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => outcome = outcome.and(other),
        }
    }
    outcome
}

/// Changes the file in place: containers would not see another file with its name.
fn update_file(path: &Path, new: &str, history: &str) -> io::Result<()> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = File::options().read(true).write(true).custom_flags(flags).open(path)?;
    let mut old = Vec::new();
    (&file).take(MAX_LENGTH + 1).read_to_end(&mut old)?;
    // Other texts are a pod's own.
    let old = str::from_utf8(&old).ok().filter(|old| old.len() as u64 <= MAX_LENGTH);
    if old.is_none_or(|old| old == new || !is_copy(old, history)) {
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
        // Root of a pod has written these.
        let own = [("bytes", b"\xff".to_vec()), ("long", vec![b'#'; 2 * MAX_LENGTH as usize])];
        for (name, bytes) in &own {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(file(name), bytes).unwrap();
        }
        update(folder.path(), new, &Resolver::parse(old).to_line()).unwrap();
        for (held, (name, _, expected)) in held.iter().zip(pods) {
            // A container has the file open, not its name.
            assert_eq!(io::read_to_string(held).unwrap(), expected, "{name}");
        }
        for (name, bytes) in own {
            assert_eq!(fs::read(file(name)).unwrap(), bytes, "{name}");
        }
    }

    #[test]
    fn a_sandbox_that_cannot_be_updated_keeps_no_other_from_it() {
        let folder = tempfile::tempdir().unwrap();
        let old = "nameserver 10.0.2.3\n";
        let file = |name: &str| folder.path().join(name).join(FILE);
        for name in ["a", "b", "c"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::create_dir(file("b")).unwrap();
        ["a", "c"].into_iter().for_each(|name| fs::write(file(name), old).unwrap());
        let new = "nameserver 192.0.2.1\n";
        update(folder.path(), new, &Resolver::parse(old).to_line()).unwrap_err();
        assert_eq!(["a", "c"].map(|name| fs::read_to_string(file(name)).unwrap()), [new, new]);
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
