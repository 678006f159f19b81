//! Runs the kubelet's own mount library, and its code for raw block volumes, with our programs:
//! `tests/mounter` is a Go program with the checks.

use crate::loops::{self, Attached};
use crate::namespace::private;
use crate::util_linux::Device;
use crate::{golang, table};
use mount::guard;
use osbuild_abi::program_names;
use serde_json::json;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mounter");

/// The package of the kubelet's code, and its files there and in the Go program.
const PACKAGE: &str = "volumepathhandler";
const FILES: [&str; 2] = ["volume_path_handler.go", "volume_path_handler_linux.go"];

#[test]
fn the_kubelets_own_library_mounts_with_our_programs() {
    let scratch = tempfile::tempdir().unwrap();
    let mounter = build(scratch.path());
    let programs = scratch.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    symlink(env!("CARGO_BIN_EXE_mount"), programs.join("mount")).unwrap();
    symlink(env!("CARGO_BIN_EXE_umount"), programs.join("umount")).unwrap();
    let names = scratch.path().join("names");
    std::fs::create_dir(&names).unwrap();
    for name in program_names::KUBELET {
        let program = programs.join(Path::new(name.program).file_name().unwrap());
        symlink(program, names.join(name.name)).unwrap();
    }
    let device = Device::new(&[]);
    let work = tempfile::tempdir().unwrap();
    let output = private(work.path(), || {
        let mut command = Command::new(&mounter);
        command.arg(work.path()).arg(&device.path).env_clear().env("TMPDIR", work.path());
        command.env("PATH", std::env::join_paths([&programs, &names]).unwrap());
        let output = command.env(guard::KEY, guard::VALUE).output().unwrap();
        loops::attached(work.path(), &[]).iter().for_each(Attached::detach);
        output
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
    let overlay = scratch.join("overlay.json");
    std::fs::write(&overlay, kubelets_files().to_string()).unwrap();
    let mut go = Command::new("go");
    go.args(["build", "-C", SOURCE, "-mod=readonly", "-trimpath", "-overlay"])
        .arg(&overlay)
        .arg("-o")
        .arg(&program)
        .env("CGO_ENABLED", "0");
    let output = go.output().expect("`go` is not installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// The files of the kubelet's package, as if they were part of the Go program (`go help build`,
/// `-overlay`).
fn kubelets_files() -> serde_json::Value {
    let kubernetes = golang::module("k8s.io/kubernetes", &table::calls().kubernetes);
    let folder = kubernetes.join("pkg/volume/util").join(PACKAGE);
    let here = Path::new(SOURCE).join(PACKAGE);
    let files = FILES.map(|file| (here.join(file).display().to_string(), folder.join(file)));
    json!({ "Replace": serde_json::Map::from_iter(files.map(|(to, from)| (to, json!(from)))) })
}
