//! The programs that mount refuse unless they are PID 1 or were told so. The kubelet passes no flag
//! of ours, so here the rule is: either this system is a node, which is when PID 1 is the file
//! [`paths::INIT`] and the builder's [`paths::POD_LIST`] is in the root; or the environment says
//! [`KEY`]`=`[`VALUE`], as the tests do in namespaces of their own.

use osbuild_abi::paths;
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The environment variable that allows a run outside a node.
pub const KEY: &str = "OSBUILD_MOUNT";
/// Its only value.
pub const VALUE: &str = "i-mean-it";

/// Says why this process may not mount, or nothing if it may.
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
        "this is not a node of ours (PID 1 is not {}); {KEY}={VALUE} in the environment runs it \
         anyway",
        paths::INIT
    ))
}

/// Compares files and not names: what `/proc/1/exe` reads as depends on how the root came to be
/// mounted.
fn is_node(first_process: &Path, root: &Path) -> bool {
    let below = |path: &str| root.join(path.trim_start_matches('/'));
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let init = identity(&below(paths::INIT));
    init.is_some() && init == identity(first_process) && below(paths::POD_LIST).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with `bin/init` and the builder's list, and a link to that `init` as of
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
    fn a_node_is_known_by_its_init() {
        let root = node();
        assert!(is_node(&root.path().join("exe"), root.path()));
    }

    #[test]
    fn another_first_process_is_no_node() {
        let root = node();
        assert!(!is_node(&root.path().join("proc-1-exe-that-is-gone"), root.path()));
        fs::write(root.path().join("systemd"), "").unwrap();
        assert!(!is_node(&root.path().join("systemd"), root.path()));
    }

    #[test]
    fn an_init_without_our_files_is_no_node() {
        let root = node();
        fs::remove_file(root.path().join(&paths::POD_LIST[1..])).unwrap();
        assert!(!is_node(&root.path().join("exe"), root.path()));
    }
}
