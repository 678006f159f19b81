//! Registries that no longer serve a locked version.

use crate::archive::Archive;
use crate::goproxy::GoProxy;
use crate::scratch::{RECIPE, Scratch};
use osbuild::plan::Lock;
use std::fs;

const KUBERNETES: &str = "k8s.io/kubernetes";
const KUBELET: (&str, &str) =
    ("cmd/kubelet/main.go", "package main\n\nimport _ \"example.org/d\"\n\nfunc main() {}\n");

/// Exports all sources from a store that lacks only the one with this name.
#[track_caller]
fn refused_without(scratch: &Scratch, name: &str, expected: &str) {
    scratch.fill_store_without(name);
    let ran = scratch.osbuild(&["sources", "export", RECIPE, "exported"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
}

#[test]
fn a_package_dropped_by_debian_is_an_error_with_the_newest_version() {
    let mut scratch = Scratch::new();
    let archive = Archive::serve(&mut scratch);
    archive.publish(&[
        ("ca-certificates", "1.9", ""),
        ("ca-certificates", "2", ""),
        ("bash", "1", ""),
    ]);
    refused_without(
        &scratch,
        "ca-certificates",
        "error: the archive no longer has `ca-certificates` 1\n  caused by: its newest version is \
         2\nhint: cargo osbuild update ca-certificates\n",
    );
    archive.publish(&[("bash", "1", "")]);
    let expected = "error: the archive no longer has `ca-certificates` 1\nhint: cargo osbuild \
                    update ca-certificates\n";
    refused_without(&scratch, "ca-certificates", expected);
    archive.publish(&[]);
    refused_without(&scratch, "ca-certificates", expected);
}

#[test]
fn a_version_gone_from_the_go_proxy_is_an_error_with_the_newest_one() {
    for status in [403, 404, 410] {
        let mut scratch = Scratch::new();
        let proxy = GoProxy::start();
        proxy.serve(&mut scratch);
        proxy.list(KUBERNETES, "v1.35.8");
        proxy.refuse(KUBERNETES, "v1.35.8", status);
        proxy.add(KUBERNETES, "v1.35.10", "", &[]);
        refused_without(
            &scratch,
            KUBERNETES,
            "error: the Go module proxy no longer serves `k8s.io/kubernetes` v1.35.8\n  caused \
             by: the newest of its minor is 1.35.10\nhint: cargo osbuild update kubelet\n",
        );
    }
}

#[test]
fn a_dependency_gone_from_the_go_proxy_is_named_with_its_dependent() {
    let mut scratch = Scratch::new();
    let proxy = GoProxy::start();
    proxy.serve(&mut scratch);
    proxy.add(KUBERNETES, "v1.35.8", "\nrequire example.org/d v1.0.0\n", &[KUBELET]);
    refused_without(
        &scratch,
        KUBERNETES,
        "error: the Go module proxy no longer serves `example.org/d` v1.0.0\n  caused by: \
         `kubelet` v1.35.8 needs it\nhint: cargo osbuild update kubelet\n",
    );
}

#[test]
fn a_toolchain_gone_from_the_go_proxy_gets_a_hint_to_update() {
    let mut scratch = Scratch::new();
    let proxy = GoProxy::start();
    proxy.serve(&mut scratch);
    let version = scratch.plan().requirements.go_toolchain;
    let expected = format!(
        "error: the Go module proxy no longer serves the Go toolchain {version}\nhint: cargo \
         osbuild update toolchain\n"
    );
    refused_without(&scratch, "toolchain go", &expected);
}

/// A project whose store lacks the kubelet's module, and a proxy that serves other bytes for it.
fn with_another_kubelet() -> (Scratch, GoProxy) {
    let mut scratch = Scratch::new();
    let proxy = GoProxy::start();
    proxy.serve(&mut scratch);
    proxy.add(
        KUBERNETES,
        "v1.35.8",
        "",
        &[("cmd/kubelet/main.go", "package main\n\nfunc main() {}\n")],
    );
    scratch.fill_store_without(KUBERNETES);
    (scratch, proxy)
}

#[test]
fn bytes_that_differ_from_the_lock_are_a_digest_error() {
    let (scratch, _proxy) = with_another_kubelet();
    let ran = scratch.osbuild(&["sources", "export", RECIPE, "exported"]);
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("error: k8s.io/kubernetes v1.35.8 does not match the lock\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_go_module_around_the_project_is_neither_read_nor_changed() {
    let (scratch, _proxy) = with_another_kubelet();
    // The second one is also around the store.
    let folders = [scratch.project(), scratch.path("")];
    let sum = format!("{KUBERNETES} v1.35.8 h1:{}=\n", "A".repeat(43));
    let files = [("go.mod", "module example.org/mine\n"), ("go.sum", sum.as_str())];
    for folder in &folders {
        files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
    }
    let ran = scratch.osbuild(&["sources", "export", RECIPE, "exported"]);
    assert!(
        ran.stderr.contains("error: k8s.io/kubernetes v1.35.8 does not match the lock\n"),
        "{}",
        ran.stderr
    );
    for folder in &folders {
        for (name, text) in files {
            assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), text);
        }
    }
}

#[test]
fn an_unreachable_proxy_is_a_build_error_not_a_lock_error() {
    let mut scratch = Scratch::new();
    GoProxy::start().serve(&mut scratch);
    scratch.set("GOPROXY", "http://127.0.0.1:1");
    let before = scratch.read(&Lock::path(RECIPE));
    scratch.fill_store_without(KUBERNETES);
    let ran = scratch.osbuild(&["sources", "export", RECIPE, "exported"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("the network or the registry cannot be reached"), "{}", ran.stderr);
    assert_eq!(scratch.read(&Lock::path(RECIPE)), before);
}
