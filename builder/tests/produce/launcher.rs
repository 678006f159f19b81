//! Steps that a service executes in a folder of its worker, which a launcher makes their `/`.

use crate::bench::Bench;
use crate::casd::Casd;
use crate::execution::{action, executor, service};
use crate::folder_worker::{CLOSED, FolderWorker, OPEN};
use osbuild::engine::action::{Action, ActionResult, Origin};
use osbuild::engine::executor::Executor;
use osbuild::engine::remote::Remote;
use osbuild::error::Kind;
use std::sync::Arc;

fn launching(bench: &Bench, service: &Arc<Remote>) -> Executor {
    executor(bench, service).launching(Some(bench.launcher()))
}

fn text(bench: &Bench, result: &ActionResult, output: &str) -> String {
    String::from_utf8(bench.store().read(&result.output(output).unwrap()).unwrap()).unwrap()
}

fn is_there(result: &ActionResult) -> bool {
    matches!(result.origin, Some(Origin::Service(_)))
}

#[test]
fn a_step_in_a_folder_makes_the_bytes_of_one_here() {
    let worker = FolderWorker::start(OPEN);
    let (there, here) = (Bench::new(), Bench::new());
    let remote = service(&there, &worker.casd.url());
    let made_there = launching(&there, &remote).run(&action(&there)).unwrap();
    let made_here = here.executor().run(&action(&here)).unwrap();
    assert_eq!(text(&there, &made_there, "out/seen"), text(&here, &made_here, "out/seen"));
    assert_eq!(made_there.outputs, made_here.outputs);
    assert!(is_there(&made_there));
}

#[test]
fn a_step_in_a_folder_sees_nothing_of_the_worker() {
    let (worker, bench) = (FolderWorker::start(OPEN), Bench::new());
    let remote = service(&bench, &worker.casd.url());
    // In a pipe, `ls` may look before `grep` is there.
    let script = "(ls -A / /build /toolchain; ls -l / /build; cat /proc/sys/kernel/hostname; \
                  cat /proc/net/dev; ls /proc >all; grep '^[0-9]' all) >seen; ! touch /usr/x \
                  2>>seen";
    let made_there = launching(&bench, &remote).run(&bench.script(script, &["seen"])).unwrap();
    assert!(is_there(&made_there));
    let here = Bench::new();
    let made_here = here.executor().run(&here.script(script, &["seen"])).unwrap();
    let seen = |bench, made| without_times(&text(bench, made, "seen"));
    assert_eq!(seen(&bench, &made_there), seen(&here, &made_here));
}

/// The lines of a step's output without the columns that depend on the month, the day or the hour.
fn without_times(seen: &str) -> Vec<String> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let others =
        |word: &&str| !word.contains(':') && word.parse::<u32>().is_err() && !MONTHS.contains(word);
    seen.lines().map(|line| line.split(' ').filter(others).collect::<String>()).collect()
}

#[test]
fn a_step_in_a_folder_does_not_change_what_the_worker_has() {
    let (worker, bench) = (FolderWorker::start(OPEN), Bench::new());
    let remote = service(&bench, &worker.casd.url());
    let input = bench.store().put_bytes(b"as it was\n").unwrap();
    let run = |script: &str| {
        let mut action = bench.script(script, &["seen"]);
        action.input.add_file("input", input, false).unwrap();
        let result = launching(&bench, &remote).run(&action).unwrap();
        assert!(is_there(&result));
        text(&bench, &result, "seen")
    };
    assert_eq!(run("echo other >input; cat input >seen"), "other\n");
    assert_eq!(run("cat input >seen"), "as it was\n");
}

#[test]
fn a_step_that_fails_in_a_folder_keeps_its_status_and_its_log() {
    let (worker, bench) = (FolderWorker::start(OPEN), Bench::new());
    let remote = service(&bench, &worker.casd.url());
    let failing: Action = bench.script("echo the reason >&2; exit 3", &["out"]);
    let error = launching(&bench, &remote).run(&failing).unwrap_err();
    assert_eq!(error.kind, Kind::Build);
    assert_eq!(error.problems[0].causes, ["it ended with exit status 3"]);
    assert_eq!(error.problems[0].log.as_ref().unwrap().lines, ["the reason"]);
}

#[test]
fn without_a_launcher_a_service_with_folders_is_a_cache_alone() {
    let (worker, bench) = (FolderWorker::start(OPEN), Bench::new());
    let remote = service(&bench, &worker.casd.url());
    let result = executor(&bench, &remote).run(&bench.script("echo >out", &["out"])).unwrap();
    assert!(!is_there(&result) && !remote.executes());
    let why = remote.refusal().unwrap();
    assert!(why.ends_with("the lock has no launcher, which `cargo osbuild lock` adds"), "{why}");
}

#[test]
fn a_recipe_without_a_launcher_runs_here_beside_one_with_a_launcher() {
    let (worker, bench) = (FolderWorker::start(OPEN), Bench::new());
    let remote = service(&bench, &worker.casd.url());
    let with = launching(&bench, &remote).run(&bench.script("echo 1 >out", &["out"])).unwrap();
    let without = executor(&bench, &remote).run(&bench.script("echo 2 >out", &["out"])).unwrap();
    assert!(is_there(&with) && !is_there(&without));
    assert!(remote.executes(), "it is used on");
}

#[test]
fn a_worker_without_user_namespaces_is_a_cache_alone_and_the_line_names_the_reason() {
    let (worker, bench) = (FolderWorker::start(CLOSED), Bench::new());
    let remote = service(&bench, &worker.casd.url());
    let result = launching(&bench, &remote).run(&bench.script("echo >out", &["out"])).unwrap();
    assert!(!is_there(&result) && !remote.executes());
    let why = remote.refusal().unwrap();
    assert!(why.contains("in a folder of the worker: bwrap: "), "{why}");
    assert!(why.contains("namespace"), "{why}");
}

#[test]
fn a_service_whose_input_root_is_the_root_needs_no_launcher() {
    let (casd, bench) = (Casd::start(), Bench::new());
    let remote = service(&bench, &casd.url());
    let script = "cat /proc/sys/kernel/hostname >where";
    let result = launching(&bench, &remote).run(&bench.script(script, &["where"])).unwrap();
    // The launcher would have given it the name of a sandbox here.
    assert_eq!(text(&bench, &result, "where"), "buildbox\n");
}
