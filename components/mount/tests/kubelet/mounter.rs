//! Runs the kubelet's own mount library with our two programs: `tests/mounter` is a Go program with
//! the checks.

use crate::namespace::private;
use crate::table;
use mount::guard;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mounter");

#[test]
fn the_kubelets_own_library_mounts_with_our_programs() {
    let scratch = tempfile::tempdir().unwrap();
    let mounter = build(scratch.path());
    let programs = scratch.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    symlink(env!("CARGO_BIN_EXE_mount"), programs.join("mount")).unwrap();
    symlink(env!("CARGO_BIN_EXE_umount"), programs.join("umount")).unwrap();
    let work = tempfile::tempdir().unwrap();
    let output = private(work.path(), || {
        let mut command = Command::new(&mounter);
        command.arg(work.path()).env_clear().env("PATH", &programs).env("TMPDIR", work.path());
        command.env(guard::KEY, guard::VALUE).output().unwrap()
    });
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_library_has_the_kubelets_version() {
    let version = table::calls().kubernetes.replacen("v1.", "v0.", 1);
    let go_mod = std::fs::read_to_string(Path::new(SOURCE).join("go.mod")).unwrap();
    assert!(go_mod.contains(&format!("k8s.io/mount-utils {version}\n")), "{go_mod}");
}

fn build(scratch: &Path) -> PathBuf {
    let program = scratch.join("mounter");
    let mut go = Command::new("go");
    go.args(["build", "-C", SOURCE, "-mod=readonly", "-trimpath", "-o"])
        .arg(&program)
        .env("CGO_ENABLED", "0");
    let output = go.output().expect("`go` is not installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}
