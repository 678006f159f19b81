//! `osbuild lock`

use crate::scratch::{RECIPE, Scratch};
use osbuild::plan::{CratesLock, Lock, Packages};
use std::fs;

#[test]
fn a_current_lock_is_left_unchanged_without_the_network() {
    let scratch = Scratch::new();
    let before = scratch.read(&Lock::path(RECIPE));
    // PATH is empty, so a client could not be started.
    let ran = scratch.osbuild(&["lock", RECIPE]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(scratch.read(&Lock::path(RECIPE)), before);
}

#[test]
fn different_crates_change_only_the_digest_of_crates() {
    let scratch = Scratch::new();
    let before = scratch.lock();
    scratch.edit("Cargo.lock", "checksum = \"", "checksum = \"0");
    assert_eq!(scratch.osbuild(&["lock", RECIPE]).code, Some(0));
    let after = scratch.lock();
    assert_ne!(after.crates, before.crates);
    assert_eq!(
        Lock { requirements: before.requirements.clone(), crates: before.crates.clone(), ..after },
        before
    );
}

#[test]
fn a_changed_input_is_fetched_and_offline_is_an_error() {
    for (file, old, new, what) in [
        ("components/runc/component.toml", "\"seccomp\", ", "", "runc"),
        ("recipes/base.toml", "[\"bash\"]", "[]", "flex"),
        ("recipes/small.toml", "debian = \"ca-certificates\"", "debian = \"extra\"", "extra"),
        ("recipes/base.toml", "\"1.26.8\"", "\"1.26.9\"", "containerd"),
        ("rust-toolchain.toml", "channel = \"1.", "channel = \"2.", "Rust toolchain"),
    ] {
        let scratch = Scratch::new();
        let before = scratch.read(&Lock::path(RECIPE));
        scratch.edit(file, old, new);
        let ran = scratch.osbuild(&["lock", "--offline", RECIPE]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        let expected =
            format!("error: `{what}` is not locked, and `--offline` forbids resolving it\n");
        assert!(ran.stderr.starts_with(&expected), "{}", ran.stderr);
        assert_eq!(scratch.read(&Lock::path(RECIPE)), before);
    }
}

#[test]
fn an_older_lock_without_a_launcher_is_left_unchanged_offline() {
    let scratch = Scratch::new();
    scratch.write_lock(&Lock { launcher: Packages::default(), ..scratch.lock() });
    let before = scratch.read(&Lock::path(RECIPE));
    let ran = scratch.osbuild(&["lock", "--offline", RECIPE]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(scratch.read(&Lock::path(RECIPE)), before);
}

#[test]
fn a_lock_has_no_size_of_a_truncated_crate() {
    let mut scratch = Scratch::new();
    scratch.fill_store_without("nothing");
    let before = scratch.lock();
    let sizes = Vec::new();
    scratch.write_lock(&Lock {
        crates: CratesLock { sizes, ..before.crates.clone() },
        ..before.clone()
    });
    let checksum = scratch.plan().requirements.crates[0].sha256.clone();
    let blob = scratch.path("cache/osbuild/cas/sha256").join(&checksum[..2]).join(&checksum);
    let registry = scratch.path("cargo/registry/cache/example.org");
    fs::create_dir_all(&registry).unwrap();
    fs::rename(&blob, registry.join("libc-0.2.1.crate")).unwrap();
    fs::write(&blob, "the").unwrap();
    scratch.set("CARGO_HOME", scratch.path("cargo").display().to_string());
    let ran = scratch.osbuild(&["lock", "--offline", RECIPE]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(scratch.lock(), before);
}

#[test]
fn an_invalid_lock_is_pinned_again() {
    let scratch = Scratch::new();
    scratch.edit(&Lock::path(RECIPE), "version = 1\n", "version = one\n");
    let ran = scratch.osbuild(&["lock", "--offline", RECIPE]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains(": pinning everything again\n"), "{}", ran.stderr);
}
