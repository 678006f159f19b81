//! Builds of a recipe whose products another command still uses, or describes.

use crate::builds::done;
use crate::releases::workshop;
use crate::repositories::wait_for;
use crate::scratch::{RECIPE, Scratch};
use crate::workshop::open;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Stdio};

/// Starts the program, and returns the file of what it prints to stderr.
fn start(scratch: &Scratch, words: &[&str]) -> (Child, PathBuf) {
    let output = scratch.path(&format!("{}.txt", words[0]));
    let mut command = scratch.command(&[], words);
    command.stdout(Stdio::null()).stderr(File::create(&output).unwrap());
    (command.spawn().unwrap(), output)
}

#[test]
fn a_build_waits_until_a_release_no_longer_uses_the_image() {
    let scratch = workshop();
    let to = scratch.path("updates");
    fs::create_dir(&to).unwrap();
    let lock = to.join(".osbuild-release.lock");
    let held = File::create(&lock).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let words = ["release", RECIPE, "--key", "mine", "--as-of", "2026-11-21", "--to"];
    let release = start(&scratch, &[&words[..], &[to.to_str().unwrap()]].concat());
    wait_for(&release.1, "waiting for another release to `");

    let build = start(&scratch, &["build", RECIPE]);
    wait_for(&build.1, "waiting for another command that uses `");
    fs::remove_file(&lock).unwrap();
    drop(held);
    for (mut child, output) in [release, build] {
        assert!(child.wait().unwrap().success(), "{}", fs::read_to_string(output).unwrap());
    }
}

#[test]
fn a_build_that_fails_leaves_the_plan_of_the_image_that_is_there() {
    let scratch = open();
    done(&scratch.osbuild(&["build", RECIPE]));
    let plan = || scratch.read(&format!("out/{RECIPE}/plan.toml"));
    let before = plan();
    scratch.edit("recipes/small.toml", "inherit", "version = \"1.35.8-2\"\ninherit");
    scratch.fill_store(|_| false);
    let ran = scratch.osbuild(&["build", RECIPE, "--offline"]);
    assert_ne!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(plan(), before);
    scratch.fill_store_without("nothing");
    done(&scratch.osbuild(&["build", RECIPE]));
    assert!(plan().contains("version = \"1.35.8-2\""), "{}", plan());
}
