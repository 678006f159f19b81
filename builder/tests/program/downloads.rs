//! Downloads that are truncated, have wrong bytes, or never start.

use crate::archive::Archive;
use crate::goproxy::GoProxy;
use crate::scratch::{RECIPE, Ran, Scratch};
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

const KUBERNETES: &str = "k8s.io/kubernetes";

/// Exports all sources from a store that lacks the one with this name.
fn without(scratch: &Scratch, name: &str, before: &[&str]) -> Ran {
    scratch.fill_store_without(name);
    Ran::of(&mut scratch.command(before, &["sources", "export", RECIPE, "exported"]))
}

#[track_caller]
fn assert_fails(ran: &Ran, code: i32, parts: &[&str]) {
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(code), ""), "{}", ran.stderr);
    for part in parts {
        assert!(ran.stderr.contains(part), "{part}\nis not in\n{}", ran.stderr);
    }
}

/// A rustup that installs a toolchain without programs in a second, and that fails if another one
/// installs at the same time. Its arguments are `which --toolchain NAME rustc`, or begin with
/// `toolchain install NAME`.
const RUSTUP: &str = r#"#!/bin/sh
home=$(dirname "$0")/toolchain
[ "$1" != which ] || { [ -e "$home/done" ] && echo "$home/bin/rustc"; exit; }
mkdir "$home.busy" || exit 1
mkdir -p "$home/lib/rustlib"
sleep 1
for target in x86_64-unknown-linux-gnu aarch64-unknown-linux-musl aarch64-unknown-uefi; do
    for part in rustc cargo rust-std; do : >"$home/lib/rustlib/manifest-$part-$target"; done
done
: >"$home/done"
rmdir "$home.busy"
"#;

const CUT: [&str; 2] =
    ["\n  caused by: a download was cut short\n", "\nhint: run the same command again"];

const UNREACHED: [&str; 2] = [
    "\n  caused by: the network or the registry cannot be reached\n",
    "\nhint: try again with a network, or build from exported sources: `cargo osbuild build \
     RECIPE --sources DIR`\n",
];

#[test]
fn a_truncated_module_is_reported_as_such() {
    for in_transit in [true, false] {
        let mut scratch = Scratch::new();
        let proxy = GoProxy::start();
        proxy.serve(&mut scratch);
        proxy.add(
            KUBERNETES,
            "v1.35.8",
            "",
            &[("cmd/kubelet/main.go", &"package main\n".repeat(1000))],
        );
        proxy.cut(KUBERNETES, "v1.35.8.zip", in_transit);
        assert_fails(&without(&scratch, KUBERNETES, &[]), 1, &CUT);
    }
}

#[test]
fn a_truncated_package_is_reported_as_such() {
    for in_transit in [true, false] {
        let mut scratch = Scratch::new();
        let archive = Archive::serve(&mut scratch);
        archive.publish(&[("ca-certificates", "1", "")]);
        archive.hold("ca-certificates", "1", b"ca-certificates 1");
        archive.over_http().cut("/pool/ca-certificates_1_all.deb", in_transit);
        assert_fails(&without(&scratch, "ca-certificates", &[]), 1, &CUT);
    }
}

#[test]
fn a_changed_package_fails_the_archives_or_the_locks_digest() {
    let mut scratch = Scratch::new();
    let archive = Archive::serve(&mut scratch);
    archive.publish(&[("ca-certificates", "1", "")]);
    archive.hold("ca-certificates", "1", b"ca-certificates 2");
    let other = "\n  caused by: the download does not match the registry's digest\n";
    assert_fails(&without(&scratch, "ca-certificates", &[]), 4, &[other]);
    archive.hold("ca-certificates", "1", b"ca-certificates 1");
    let locked = "error: ca-certificates 1 arm64 does not match the lock\n";
    assert_fails(
        &without(&scratch, "ca-certificates", &[]),
        4,
        &[
            locked,
            "run `cargo osbuild \
    update`",
        ],
    );
}

#[test]
fn concurrent_builds_that_fetch_packages_both_succeed() {
    let mut scratch = Scratch::new();
    let archive = Archive::serve(&mut scratch);
    archive.publish(&[("ca-certificates", "1", "")]);
    archive.hold("ca-certificates", "1", b"ca-certificates 1");
    scratch.supply("ca-certificates", b"ca-certificates 1".to_vec());
    scratch.relock();
    for _ in 0..3 {
        scratch.fill_store_without("ca-certificates");
        let folders = ["one", "other"].map(|name| scratch.path(name).display().to_string());
        let commands = folders
            .each_ref()
            .map(|folder| scratch.command(&[], &["sources", "export", RECIPE, folder]));
        let running = commands.map(|mut command| std::thread::spawn(move || Ran::of(&mut command)));
        for ran in running.map(|thread| thread.join().unwrap()) {
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        }
    }
}

#[test]
fn concurrent_builds_that_need_a_toolchain_install_it_one_after_the_other() {
    let mut scratch = Scratch::new();
    let programs = scratch.path("programs");
    fs::create_dir(&programs).unwrap();
    fs::write(programs.join("rustup"), RUSTUP).unwrap();
    fs::set_permissions(programs.join("rustup"), Permissions::from_mode(0o755)).unwrap();
    scratch.set("PATH", format!("{}:{}", programs.display(), std::env::var("PATH").unwrap()));
    // A tar file without members.
    scratch.supply("toolchain rust", vec![0; 1024]);
    scratch.relock();
    scratch.fill_store_without("toolchain rust");
    let running = ["one", "other"].map(|folder| {
        let mut command = scratch.command(&[], &["sources", "export", RECIPE, folder]);
        std::thread::spawn(move || Ran::of(&mut command))
    });
    for ran in running.map(|thread| thread.join().unwrap()) {
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }
}

#[test]
fn a_missing_network_is_reported_alike_for_each_client() {
    let mut scratch = Scratch::new();
    Archive::serve(&mut scratch).move_to("http://debian.invalid/debian");
    GoProxy::start().serve(&mut scratch);
    scratch.set("GOPROXY", "https://go.invalid");
    scratch.set("RUSTUP_HOME", scratch.path("rustup").display().to_string());
    scratch.set("RUST_BACKTRACE", "1");
    scratch.set("CARGO_NET_RETRY", "0");
    let manifest = "[package]\nname = \"init\"\nversion = \"0.1.0\"\n\n[lib]\npath = \
                    \"lib.rs\"\n\n[dependencies]\nlibc = \"0.2\"\n";
    fs::write(scratch.project().join("Cargo.toml"), manifest).unwrap();
    fs::write(scratch.project().join("lib.rs"), "").unwrap();
    for name in ["ca-certificates", KUBERNETES, "toolchain go", "toolchain rust", "crate libc"] {
        if name == "crate libc" {
            // Not rustup's cargo, which would first look for a toolchain.
            let cargo = PathBuf::from(std::env::var_os("CARGO").expect("cargo runs the tests"));
            let path =
                format!("{}:{}", cargo.parent().unwrap().display(), std::env::var("PATH").unwrap());
            scratch.set("PATH", path);
        }
        assert_fails(
            &without(&scratch, name, &["bwrap", "--dev-bind", "/", "/", "--unshare-net"]),
            1,
            &UNREACHED,
        );
    }
}

#[test]
fn stopping_a_download_also_ends_its_client() {
    let mut scratch = Scratch::new();
    let proxy = GoProxy::start();
    proxy.serve(&mut scratch);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    scratch.set("GOPROXY", format!("http://{}", silent.local_addr().unwrap()));
    scratch.fill_store_without(KUBERNETES);
    let build = scratch
        .command(&[], &["sources", "export", RECIPE, "exported"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut connection, _) = silent.accept().unwrap();
    assert!(
        Command::new("kill").args(["-INT", &build.id().to_string()]).status().unwrap().success()
    );
    let ran = Ran::from(build.wait_with_output().unwrap());
    assert_fails(&ran, 130, &["error: stopped\n"]);
    // The connection is open as long as `go` runs.
    connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    std::io::copy(&mut connection, &mut std::io::sink()).unwrap();
}
