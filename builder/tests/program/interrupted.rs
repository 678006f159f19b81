//! Builds that are interrupted or killed.

use crate::builds::done;
use crate::scratch::{RECIPE, Ran, Scratch};
use crate::workshop::{open_with, products};
use osbuild::engine::store::Store;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A project whose kernel takes this many seconds, a number that identifies its processes.
pub fn slow(seconds: &str) -> Scratch {
    open_with(&format!(
        "kernel() {{ sleep {seconds}; cp /usr/lib/image.efi kernel; echo 1 >release; }}\n"
    ))
}

/// Whether a process with this command line runs.
pub fn runs(words: &str) -> bool {
    let line = words.replace(' ', "\0") + "\0";
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.into_iter().any(|entry| {
        fs::read(entry.path().join("cmdline")).is_ok_and(|found| found == line.as_bytes())
    })
}

pub fn wait_until(condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(60), "the condition was not met");
        sleep(Duration::from_millis(5));
    }
}

fn start(scratch: &Scratch) -> Child {
    // These tests may run under nohup, too, which has SIGHUP ignored.
    scratch
        .command(&["env", "--default-signal=HUP"], &["build", RECIPE])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// Completes the build, and compares it with an undisturbed build.
fn assert_build_continues(scratch: &Scratch) {
    let store = Store::open(scratch.path("cache/osbuild")).unwrap();
    assert_eq!(store.verify(&|_| ()).unwrap(), Vec::<String>::new());
    drop(store);
    done(&scratch.osbuild(&["build", RECIPE]));
    let after = products(scratch);
    scratch.fill_store_without("nothing");
    fs::remove_dir_all(scratch.project().join("out")).unwrap();
    done(&scratch.osbuild(&["build", RECIPE]));
    assert_eq!(after, products(scratch));
}

#[test]
fn ctrl_c_ends_a_build_and_its_processes_with_code_130() {
    for (name, seconds) in [("-INT", "6.015"), ("-TERM", "6.016"), ("-HUP", "6.017")] {
        let scratch = slow(seconds);
        let build = start(&scratch);
        wait_until(|| runs(&format!("sleep {seconds}")));
        signal(&build, name);
        let began = Instant::now();
        let ran = Ran::from(build.wait_with_output().unwrap());
        assert!(began.elapsed() < Duration::from_secs(4), "it waited for the step");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(130), ""), "{}", ran.stderr);
        assert!(ran.stderr.ends_with("error: stopped\n"), "{}", ran.stderr);
        assert!(!runs(&format!("sleep {seconds}")));
        if name == "-INT" {
            assert_build_continues(&scratch);
        }
    }
}

#[test]
fn a_build_under_nohup_outlives_its_terminal() {
    let scratch = slow("1.018");
    let mut nohup = scratch.command(&["nohup"], &["build", RECIPE]);
    let build = nohup.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(|| runs("sleep 1.018"));
    signal(&build, "-HUP");
    done(&Ran::from(build.wait_with_output().unwrap()));
}

#[test]
fn a_killed_build_is_completed_with_the_same_image() {
    let scratch = slow("0.317");
    for moment in [0, 40, 120, 250, 400, 600] {
        let mut build = start(&scratch);
        sleep(Duration::from_millis(moment));
        build.kill().unwrap();
        build.wait().unwrap();
    }
    wait_until(|| !runs("sleep 0.317"));
    assert_build_continues(&scratch);
}
