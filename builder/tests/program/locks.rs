//! `osbuild lock`

use crate::builds::{done, with_second};
use crate::scratch::{RECIPE, Scratch};
use osbuild::engine::digest::Digest;
use osbuild::plan::{CratesLock, Lock, Packages};
use std::fs;
use std::path::{Path, PathBuf};

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
fn several_recipes_or_all_are_locked_by_one_command() {
    for words in [&["lock", "second", RECIPE][..], &["lock", "--all"]] {
        let scratch = Scratch::new();
        with_second(&scratch);
        let before = scratch.lock();
        scratch.edit("Cargo.lock", "checksum = \"", "checksum = \"0");
        let ran = scratch.osbuild(words);
        done(&ran);
        let paths = ["second", RECIPE].map(|recipe| scratch.project().join(Lock::path(recipe)));
        assert_eq!(ran.stdout, paths.map(|path| format!("{}\n", path.display())).concat());
        for recipe in ["second", RECIPE] {
            let text = scratch.read(&Lock::path(recipe));
            let lock = Lock::parse(&Lock::path(recipe), &text).unwrap();
            assert_ne!(lock.crates.digest, before.crates.digest, "{words:?}: {recipe}");
            assert_eq!(lock.recipe, recipe);
        }
    }
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

/// A project whose lock has no sizes of crates, with a folder of cargo's and the lock with sizes.
fn without_sizes() -> (Scratch, PathBuf, Lock) {
    let mut scratch = Scratch::new();
    scratch.fill_store_without("crate libc");
    let whole = scratch.lock();
    let crates = CratesLock { sizes: Vec::new(), ..whole.crates.clone() };
    scratch.write_lock(&Lock { crates, ..whole.clone() });
    scratch.set("CARGO_HOME", scratch.path("cargo").display().to_string());
    let cache = scratch.path("cargo/registry/cache");
    (scratch, cache, whole)
}

#[track_caller]
fn assert_locks(scratch: &Scratch, expected: &Lock) {
    let ran = scratch.osbuild(&["lock", "--offline", RECIPE]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(scratch.lock(), *expected);
}

/// Writes an archive of the crate into a folder of cargo's.
fn cached(folder: &Path, archive: &str) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("libc-0.2.1.crate"), archive).unwrap();
}

/// The crate's archive.
const LIBC: &str = "the bytes of crate libc\n";

#[test]
fn a_lock_has_no_size_of_a_truncated_crate() {
    let (scratch, cache, whole) = without_sizes();
    cached(&cache.join("example.org"), LIBC);
    let hash = Digest::of(LIBC.as_bytes()).hex();
    let blob = scratch.path("cache/osbuild/cas/sha256").join(&hash[..2]).join(&hash);
    fs::create_dir_all(blob.parent().unwrap()).unwrap();
    fs::write(&blob, "the").unwrap();
    assert_locks(&scratch, &whole);
}

#[test]
fn a_crate_is_found_in_each_of_cargos_caches() {
    for [right, wrong] in [["one", "two"], ["two", "one"]] {
        let (scratch, cache, whole) = without_sizes();
        cached(&cache.join(right), LIBC);
        cached(&cache.join(wrong), "other bytes\n");
        assert_locks(&scratch, &whole);
    }
}

#[test]
fn a_set_key_that_needs_another_lock_says_what_to_do() {
    let scratch = Scratch::new();
    let hint = "hint: write the key in a recipe that inherits from this one, and lock that\n";
    let set = ["--set", "kernel.options.DEBUG_INFO_BTF=true", "--set", "version=7"];
    let ran = scratch.osbuild(&[&["build", RECIPE], &set[..]].concat());
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stderr.contains("`pahole` for amd64 is not locked"), "{}", ran.stderr);
    let cause = "caused by: `--set` changes `kernel.options.DEBUG_INFO_BTF` and `version`\n";
    assert!(ran.stderr.contains(cause) && ran.stderr.ends_with(hint), "{}", ran.stderr);
    let ran = scratch.osbuild(&["lock", RECIPE, "--set", "version=7"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.ends_with(hint), "{}", ran.stderr);
    // A lock that is out of date without it needs a new one.
    scratch.edit("components/runc/component.toml", "\"seccomp\", ", "");
    let ran = scratch.osbuild(&["build", RECIPE, "--set", "version=7"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stderr.ends_with("hint: run `cargo osbuild lock small`\n"), "{}", ran.stderr);
}

#[test]
fn an_invalid_lock_is_pinned_again() {
    let scratch = Scratch::new();
    scratch.edit(&Lock::path(RECIPE), "version = 1\n", "version = one\n");
    let ran = scratch.osbuild(&["lock", "--offline", RECIPE]);
    assert_eq!(ran.code, Some(2));
    let warning = ran.stderr.lines().next().unwrap();
    let line = scratch.read(&Lock::path(RECIPE));
    let line = line.lines().position(|line| line == "version = one").unwrap() + 1;
    assert!(warning.starts_with(&format!("warning: recipes/small.lock:{line}: ")), "{warning}");
    assert!(warning.ends_with(": pinning everything again"), "{warning}");
}
