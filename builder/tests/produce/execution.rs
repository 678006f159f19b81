//! Steps that a service of remote execution runs.

use crate::bench::Bench;
use crate::casd::Casd;
use crate::proxy::{Harm, proxy};
use crate::refusals::{
    NOT_FOUND, RESOURCE_EXHAUSTED, Refusal, UNAUTHENTICATED, UNAVAILABLE, UNIMPLEMENTED, refuse,
};
use osbuild::engine::action::{Action, ActionResult, Origin, Toolchain};
use osbuild::engine::digest::Digest;
use osbuild::engine::executor::{Executor, Rebuild};
use osbuild::engine::remote::{Mode, Remote, Trust};
use osbuild::error::Kind;
use osbuild_remote::{Access, Retry};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The name of each machine on which buildbox runs an action, and that of our own sandbox.
const THERE: &[u8] = b"buildbox\n";
const HERE: &[u8] = b"osbuild\n";

/// Bytes of the message with the result of an execution.
const EXECUTED: &[u8] = b"v2.ExecuteResponse";

/// Writes the name of the machine that runs it.
const WHERE: &str = "cat /proc/sys/kernel/hostname >where";

fn retry() -> Retry {
    Retry {
        connect_timeout: Duration::from_secs(5),
        idle_timeout: Duration::from_secs(5),
        tries: 3,
        first_pause: Duration::from_millis(10),
        ..Retry::default()
    }
}

pub fn service_with(bench: &Bench, url: &str, retry: Retry) -> Arc<Remote> {
    Arc::new(remote(bench, url, retry))
}

fn remote(bench: &Bench, url: &str, retry: Retry) -> Remote {
    let (url, access) = (url.parse().unwrap(), Access::default());
    Remote::with(url, &access, Mode::Execute, bench.report(), retry).unwrap()
}

/// A service with short timeouts.
pub fn service(bench: &Bench, url: &str) -> Arc<Remote> {
    service_with(bench, url, retry())
}

pub fn executor(bench: &Bench, service: &Arc<Remote>) -> Executor {
    bench.executor().sharing(Some(Arc::clone(service)), Trust::Everywhere)
}

/// Runs a script with the output `where`, and returns which machine ran it.
#[track_caller]
fn place(bench: &Bench, service: &Arc<Remote>, script: &str) -> Vec<u8> {
    let action = bench.script(&format!("{script}; {WHERE}"), &["where"]);
    let result = executor(bench, service).run(&action).unwrap();
    let place = bench.store().read(&result.output("where").unwrap()).unwrap();
    assert_eq!(place == THERE, matches!(result.origin, Some(Origin::Service(_))));
    place
}

/// An action with inputs, a toolchain, a log, and outputs in a folder; its output `seen` has what
/// an action can see of them.
pub fn action(bench: &Bench) -> Action {
    let fill = |root: &Path| {
        fs::create_dir(root.join("bin")).unwrap();
        fs::write(root.join("bin/tool"), "a tool").unwrap();
        Ok(())
    };
    let key = Digest::of(b"tools");
    let path = bench.store().tree(&key, fill).unwrap();
    let script = "
        echo log; echo error >&2
        (env; pwd; umask; ls -ln in/program in/folder; ls -A /tmp home) >out/seen
        ls /toolchain/x/bin >>out/seen
        ls -ldn in/folder | grep -c drwxr-xr-x >>out/seen
        cat in/program in/link /toolchain/x/bin/tool >out/copy; chmod 755 out/copy
        dd if=/dev/zero of=out/large bs=1M count=9";
    let mut action = bench.script(script, &["out/seen", "out/copy", "out/large"]);
    let put = |text: &[u8]| bench.store().put_bytes(text).unwrap();
    action.input.add_file("in/program", put(b"#!/bin/sh\n"), true).unwrap();
    action.input.add_file("in/folder/text", put(b"text"), false).unwrap();
    action.input.add_symlink("in/link", "folder/text").unwrap();
    action.toolchains.push(Toolchain { name: "x".into(), key, path });
    action.env.insert("VARIABLE".into(), "value".into());
    action
}

fn run_there(bench: &Bench, url: &str) -> ActionResult {
    executor(bench, &service(bench, url)).run(&action(bench)).unwrap()
}

#[test]
fn a_step_there_makes_the_bytes_of_one_here() {
    let casd = Casd::start();
    let (there, here) = (Bench::new(), Bench::new());
    let made_there = run_there(&there, &casd.url());
    assert_eq!(made_there.origin, Some(Origin::Service(casd.url())));
    let made_here = here.executor().run(&action(&here)).unwrap();
    let seen = |bench: &Bench, made: &ActionResult| {
        String::from_utf8(bench.store().read(&made.output("out/seen").unwrap()).unwrap()).unwrap()
    };
    assert_eq!(seen(&there, &made_there), seen(&here, &made_here));
    assert_eq!(made_there.outputs, made_here.outputs);
    assert_eq!(action(&there).digest(), action(&here).digest());
    for output in made_there.outputs.values() {
        there.store().read(&output.digest).unwrap();
    }
    let log = there.store().read(&made_there.log.unwrap()).unwrap();
    assert!(log.starts_with(b"log\nerror\n"), "{}", String::from_utf8_lossy(&log));
    assert_eq!(fs::read(there.directory().join("logs/a-test-step.log")).unwrap(), log);
}

#[test]
fn a_step_runs_there_and_its_result_is_in_the_store() {
    let (casd, bench) = (Casd::start(), Bench::new());
    let remote = service(&bench, &casd.url());
    assert_eq!(place(&bench, &remote, "true"), THERE);
    let used = remote.used();
    assert_eq!((used.hits, used.misses, used.executed), (0, 1, 1));
    assert_eq!(place(&bench, &remote, "true"), THERE);
    assert_eq!(remote.used(), used, "the store had the second");
}

#[test]
fn an_unpacked_folder_is_sent_once() {
    let (casd, bench) = (Casd::start(), Bench::new());
    let remote = service(&bench, &casd.url());
    place(&bench, &remote, "echo 1");
    let root = fs::metadata("/bin/busybox").unwrap().len();
    let sent = remote.used().traffic.sent;
    assert!(sent > root, "{sent}");
    place(&bench, &remote, "echo 2");
    assert!(remote.used().traffic.sent - sent < 10_000, "{:?}", remote.used());
}

#[test]
fn a_service_runs_the_same_step_of_two_users_once() {
    let casd = Casd::start();
    let run = |script: &str| {
        let bench = Bench::new();
        let remote = service(&bench, &casd.url());
        let result = executor(&bench, &remote).run(&bench.script(script, &["run"])).unwrap();
        (result.output("run").unwrap(), remote.used())
    };
    let (first, made) = run("cat /proc/sys/kernel/random/uuid >run");
    let (second, read) = run("cat /proc/sys/kernel/random/uuid >run");
    assert_eq!(first, second);
    assert_eq!((made.hits, made.misses, made.executed), (0, 1, 1));
    assert_eq!((read.hits, read.misses, read.executed), (1, 0, 0));
}

#[test]
fn a_step_that_fails_there_shows_the_end_of_its_log_and_where_it_ran() {
    let (casd, bench) = (Casd::start(), Bench::new());
    let remote = service(&bench, &casd.url());
    let fails = |script: &str| {
        let error = executor(&bench, &remote).run(&bench.script(script, &["out"])).unwrap_err();
        assert_eq!(error.kind, Kind::Build);
        error.problems[0].clone()
    };
    let problem = fails("echo first; echo the reason >&2; exit 3");
    assert_eq!(problem.message, format!("`a test/step` failed on {}", casd.url()));
    assert_eq!(problem.causes, ["it ended with exit status 3"]);
    assert_eq!(problem.log.unwrap().lines, ["first", "the reason"]);
    assert!(fails("true").message.ends_with("its output `out` is not there"));
    assert_eq!(place(&bench, &remote, "true"), THERE, "it is used on");
}

#[test]
fn a_step_that_the_workers_kernel_kills_runs_here() {
    let (casd, bench) = (Casd::start(), Bench::new());
    let remote = service(&bench, &casd.url());
    let dies = "read -r name </proc/sys/kernel/hostname; [ $name = osbuild ] || kill -9 $$";
    assert_eq!(place(&bench, &remote, dies), HERE);
    assert_eq!(place(&bench, &remote, "true"), THERE, "others run there");
}

#[test]
fn a_step_whose_worker_lacks_memory_or_disk_runs_here() {
    let (casd, bench) = (Casd::start(), Bench::new());
    let remote = service(&bench, &casd.url());
    for line in [
        "gcc: fatal error: Killed signal terminated program cc1",
        "error: could not compile: (signal: 9, SIGKILL: kill)",
        "cc1: fatal error: error writing to file: No space left on device",
    ] {
        let fails = format!(
            "read -r name </proc/sys/kernel/hostname; [ $name = osbuild ] || \
             {{ echo '{line}' >&2; exit 1; }}"
        );
        assert_eq!(place(&bench, &remote, &fails), HERE, "{line}");
    }
    assert_eq!(place(&bench, &remote, "true"), THERE, "others run there");
}

#[test]
fn a_failure_that_the_service_kept_does_not_count() {
    let (casd, bench) = (Casd::start(), Bench::new());
    let remote = service(&bench, &casd.url());
    let script = "echo text >out; read -r chance </proc/sys/kernel/random/uuid; \
                  case $chance in [0-7]*) exit 1;; esac";
    let run = || executor(&bench, &remote).run(&bench.script(script, &["out"])).is_ok();
    assert!((0..40).any(|_| run()), "each try runs the step again");
}

#[test]
fn a_rebuild_and_a_build_that_trusts_this_machine_run_steps_here() {
    let (casd, bench) = (Casd::start(), Bench::new());
    let remote = service(&bench, &casd.url());
    let action = |run: &str| bench.script(&format!("echo {run}; {WHERE}"), &["where"]);
    let place = |executor: Executor, run: &str| {
        let result = executor.run(&action(run)).unwrap();
        bench.store().read(&result.output("where").unwrap()).unwrap()
    };
    let here = || bench.executor().sharing(Some(Arc::clone(&remote)), Trust::Here);
    assert_eq!(place(here(), "1"), HERE);
    let again = executor(&bench, &remote).rebuilding(Rebuild::Everything);
    assert_eq!(place(again, "2"), HERE);
    assert_eq!(place(executor(&bench, &remote), "3"), THERE);
    assert_eq!(place(here(), "3"), HERE, "a stored result of a service ran again");
    assert_eq!(remote.used().executed, 1);
}

#[test]
fn lost_inputs_are_sent_again() {
    let (casd, bench) = (Casd::start(), Bench::new());
    let remote = service(&bench, &casd.url());
    place(&bench, &remote, "echo 1");
    let shell = Digest::of(&fs::read("/bin/busybox").unwrap());
    casd.evict(&shell.hex());
    assert_eq!(place(&bench, &remote, "echo 2"), THERE);
}

#[test]
fn a_lost_output_is_made_there_again() {
    let casd = Casd::start();
    let first = run_there(&Bench::new(), &casd.url());
    casd.evict(&first.output("out/large").unwrap().hex());
    let second = run_there(&Bench::new(), &casd.url());
    assert_eq!((&second.outputs, &second.origin), (&first.outputs, &first.origin));
}

#[test]
fn after_a_cut_connection_the_result_of_the_same_run_is_asked_for() {
    let (casd, bench) = (Casd::start(), Bench::new());
    let counts = Refusal { method: "/WaitExecution", code: UNAVAILABLE, times: 0 };
    let counts = refuse(casd.address, counts);
    let cut = proxy(counts.address, Harm::cut_once(EXECUTED));
    let remote = service(&bench, &format!("grpc://{cut}"));
    assert_eq!(place(&bench, &remote, "true"), THERE);
    assert_eq!(counts.calls(), 1);
}

#[test]
fn a_run_that_the_service_forgot_is_started_again() {
    let (casd, bench) = (Casd::start(), Bench::new());
    let forgets = Refusal { method: "/WaitExecution", code: UNIMPLEMENTED, times: usize::MAX };
    let forgets = refuse(casd.address, forgets);
    let cut = proxy(forgets.address, Harm::cut_once(EXECUTED));
    let remote = service(&bench, &format!("grpc://{cut}"));
    assert_eq!(place(&bench, &remote, "true"), THERE);
    assert_eq!(forgets.calls(), 1);
}

#[test]
fn a_flipped_bit_in_an_output_ends_in_a_run_here() {
    let (casd, bench) = (Casd::start(), Bench::new());
    let harmed = proxy(casd.address, Harm::Flip(THERE.to_vec()));
    let remote = service(&bench, &format!("grpc://{harmed}"));
    assert_eq!(place(&bench, &remote, "true"), HERE);
}

#[test]
fn a_service_that_always_cuts_the_connection_is_given_up() {
    let (casd, bench) = (Casd::start(), Bench::new());
    let cut = proxy(casd.address, Harm::Cut(EXECUTED.to_vec()));
    let remote = service(&bench, &format!("grpc://{cut}"));
    for script in ["echo 1", "echo 2"] {
        assert_eq!(place(&bench, &remote, script), HERE);
    }
    assert!(!remote.executes());
}

#[test]
fn a_silent_service_is_given_up() {
    let (casd, bench) = (Casd::start(), Bench::new());
    let silent = proxy(casd.address, Harm::Silence);
    let remote = service(&bench, &format!("grpc://{silent}"));
    let began = Instant::now();
    assert_eq!(place(&bench, &remote, "true"), HERE);
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
}

#[test]
fn a_busy_service_is_asked_again() {
    let (casd, bench) = (Casd::start(), Bench::new());
    for (method, code) in [
        ("/GetCapabilities", UNAVAILABLE),
        ("/GetActionResult", RESOURCE_EXHAUSTED),
        ("/FindMissingBlobs", UNAVAILABLE),
        ("/BatchUpdateBlobs", RESOURCE_EXHAUSTED),
        ("/Execute", RESOURCE_EXHAUSTED),
        ("/Execute", UNAVAILABLE),
    ] {
        let busy = refuse(casd.address, Refusal { method, code, times: 2 });
        let remote = service(&bench, &format!("grpc://{}", busy.address));
        let script = format!("echo {method} {code}");
        assert_eq!(place(&bench, &remote, &script), THERE, "{method} {code}");
    }
}

#[test]
fn a_service_that_refuses_to_execute_is_given_up() {
    let (casd, bench) = (Casd::start(), Bench::new());
    for (method, code) in [
        ("/GetCapabilities", UNAUTHENTICATED),
        ("/FindMissingBlobs", UNAUTHENTICATED),
        ("/Execute", UNAUTHENTICATED),
        ("/Execute", UNIMPLEMENTED),
        ("/Execute", RESOURCE_EXHAUSTED),
    ] {
        let refusing = refuse(casd.address, Refusal { method, code, times: usize::MAX });
        let remote = service(&bench, &format!("grpc://{}", refusing.address));
        for run in 1..=2 {
            let script = format!("echo {method} {code} {run}");
            assert_eq!(place(&bench, &remote, &script), HERE, "{method} {code}");
        }
        assert!(!remote.executes());
    }
}

#[test]
fn a_service_that_does_not_know_the_instance_is_asked_once() {
    let (casd, bench) = (Casd::start(), Bench::new());
    let refusal = Refusal { method: "/GetCapabilities", code: NOT_FOUND, times: usize::MAX };
    let refusing = refuse(casd.address, refusal);
    let remote = service(&bench, &format!("grpc://{}", refusing.address));
    for run in 1..=2 {
        assert_eq!(place(&bench, &remote, &format!("echo {run}")), HERE);
    }
    assert_eq!(refusing.calls(), 1);
}

#[test]
fn a_step_may_run_for_long_without_a_message() {
    let (casd, bench) = (Casd::start(), Bench::new());
    let idle_timeout = Duration::from_secs(2);
    let remote = service_with(&bench, &casd.url(), Retry { idle_timeout, ..retry() });
    assert_eq!(place(&bench, &remote, "sleep 5"), THERE);
}

#[test]
fn a_service_that_dies_is_given_up() {
    let (casd, bench) = (Casd::start(), Bench::new());
    let remote = service(&bench, &casd.url());
    assert_eq!(place(&bench, &remote, "echo 1"), THERE);
    drop(casd);
    assert_eq!(place(&bench, &remote, "echo 2"), HERE);
}

#[test]
fn a_step_that_does_not_end_there_runs_here() {
    let (casd, bench) = (Casd::start(), Bench::new());
    let execution_timeout = Duration::from_secs(10);
    let remote = service_with(&bench, &casd.url(), Retry { execution_timeout, ..retry() });
    let hangs = "read -r name </proc/sys/kernel/hostname; [ $name = osbuild ] || sleep 600";
    assert_eq!(place(&bench, &remote, hangs), HERE);
    assert_eq!(place(&bench, &remote, "true"), THERE, "others run there");
}

#[test]
fn a_service_whose_runner_is_missing_or_broken_is_given_up() {
    for runner in ["/nonexistent/buildbox-run", "/bin/false"] {
        let (casd, bench) = (Casd::with_runner(Path::new(runner)), Bench::new());
        let remote = service(&bench, &casd.url());
        assert_eq!(place(&bench, &remote, "true"), HERE, "{runner}");
        assert!(!remote.executes());
    }
}

#[test]
fn a_service_that_is_full_is_given_up() {
    let casd = Casd::start_with(&["--quota-high", "1M", "--reserved", "0"]);
    let bench = Bench::new();
    let remote = service(&bench, &casd.url());
    assert_eq!(place(&bench, &remote, "true"), HERE);
}

#[test]
fn a_service_that_shows_steps_other_files_executes_none() {
    let casd = Casd::start_with(&["--runner-arg=--ro-bind-mount=/etc:/foreign"]);
    let bench = Bench::new();
    let remote = service(&bench, &casd.url());
    assert_eq!(place(&bench, &remote, "true"), HERE);
    assert!(!remote.executes());
}

#[test]
fn properties_reach_the_worker_and_one_with_a_network_executes_no_step() {
    let (casd, bench) = (Casd::start(), Bench::new());
    for (name, value, place_of_it) in [("OSFamily", "linux", THERE), ("network", "on", HERE)] {
        let platform = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let remote = Arc::new(remote(&bench, &casd.url(), retry()).on_platform(platform));
        assert_eq!(place(&bench, &remote, &format!("echo {name}")), place_of_it, "{name}");
    }
}

#[test]
fn a_damaged_root_is_not_sent() {
    let (casd, bench) = (Casd::start(), Bench::new());
    let action = bench.script(WHERE, &["where"]);
    fs::write(action.root.path.join("usr/bin/gcc"), "another gcc").unwrap();
    let remote = service(&bench, &casd.url());
    let error = executor(&bench, &remote).run(&action).unwrap_err();
    assert_eq!(error.kind, Kind::Digest, "{error}");
}
