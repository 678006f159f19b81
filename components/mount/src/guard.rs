//! Refuses to mount anywhere but on a node. Other programs of this project that mount require a
//! flag or to be PID 1; the kubelet passes no such flag. So these programs run if this system is a
//! node, where PID 1 is the file [`paths::INIT`] and the root has the builder's
//! [`paths::POD_LIST`], or if the environment has [`KEY`]`=`[`VALUE`], which the tests set in their
//! own namespaces.

use osbuild_abi::paths;
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The environment variable that allows running outside a node.
pub const KEY: &str = "OSBUILD_MOUNT";
/// Its only value.
pub const VALUE: &str = "i-mean-it";

/// Returns why this process may not mount; `None` if it may.
pub fn refusal() -> Option<String> {
    if !geteuid().is_root() {
        return Some("must be superuser".into());
    }
    if std::env::var_os(KEY).as_deref() == Some(OsStr::new(VALUE))
        || is_node(Path::new("/proc/1/exe"), Path::new("/"))
    {
        return None;
    }
    Some(format!(
        "this is not an osbuild node (PID 1 is not {}); set {KEY}={VALUE} in the environment to \
         mount anyway",
        paths::INIT
    ))
}

/// Compares inodes, not paths: the target of `/proc/1/exe` depends on how the root was mounted.
fn is_node(first_process: &Path, root: &Path) -> bool {
    let below = |path: &str| root.join(path.trim_start_matches('/'));
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let init = identity(&below(paths::INIT));
    init.is_some() && init == identity(first_process) && below(paths::POD_LIST).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with `bin/init` and the builder's list, and a link to that `init` in place of
    /// `/proc/1/exe`.
    fn node() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for path in [paths::INIT, paths::POD_LIST] {
            let path = root.path().join(&path[1..]);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        std::os::unix::fs::symlink(root.path().join(&paths::INIT[1..]), root.path().join("exe"))
            .unwrap();
        root
    }

    #[test]
    fn a_node_is_recognized_by_its_init() {
        let root = node();
        assert!(is_node(&root.path().join("exe"), root.path()));
    }

    #[test]
    fn another_pid_1_is_not_a_node() {
        let root = node();
        assert!(!is_node(&root.path().join("proc-1-exe-that-is-gone"), root.path()));
        fs::write(root.path().join("systemd"), "").unwrap();
        assert!(!is_node(&root.path().join("systemd"), root.path()));
    }

    #[test]
    fn a_root_without_the_pod_list_is_not_a_node() {
        let root = node();
        fs::remove_file(root.path().join(&paths::POD_LIST[1..])).unwrap();
        assert!(!is_node(&root.path().join("exe"), root.path()));
    }
}
