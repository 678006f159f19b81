//! Actions in a real sandbox.

use crate::bench::Bench;
use osbuild::engine::action::{ActionResult, Origin, OutputFile, Toolchain};
use osbuild::engine::digest::Digest;
use osbuild::engine::executor::Rebuild;
use osbuild::error::Kind;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

#[test]
fn an_action_makes_its_outputs_from_its_inputs() {
    let bench = Bench::new();
    let mut action =
        bench.script("cat in/text > out/copy; chmod 755 out/copy; echo log", &["out/copy"]);
    action.input.add_file("in/text", bench.store().put_bytes(b"input").unwrap(), false).unwrap();
    let result = bench.executor().run(&action).unwrap();
    assert_eq!(
        result.outputs["out/copy"],
        OutputFile { digest: Digest::of(b"input"), executable: true }
    );
    assert_eq!(bench.store().read(&result.log.unwrap()).unwrap(), b"log\n");
    assert_eq!(fs::read(bench.directory().join("logs/a-test-step.log")).unwrap(), b"log\n");
}

#[test]
fn two_outputs_that_are_one_file_are_both_executable() {
    let bench = Bench::new();
    let script = "echo text > out/one; chmod 755 out/one; ln out/one out/two";
    let result = bench.executor().run(&bench.script(script, &["out/one", "out/two"])).unwrap();
    let output = OutputFile { digest: Digest::of(b"text\n"), executable: true };
    assert!(["out/one", "out/two"].iter().all(|name| result.outputs[*name] == output));
}

#[test]
fn an_action_runs_only_once() {
    let bench = Bench::new();
    let action = bench.script("cat /proc/uptime > out; sleep 0.02", &["out"]);
    let first = bench.executor().run(&action).unwrap();
    assert_eq!(bench.executor().run(&action).unwrap(), first);
}

#[test]
fn a_step_that_is_not_reproducible_is_an_error_in_a_rebuild() {
    let bench = Bench::new();
    let sound = bench.script("echo same > out", &["out"]);
    let unsound = bench.script("cat /proc/sys/kernel/random/uuid > out", &["out"]);
    bench.executor().run(&sound).unwrap();
    bench.executor().run(&unsound).unwrap();
    let again = || bench.executor().rebuilding(Rebuild::Everything);
    again().run(&sound).unwrap();
    let error = again().run(&unsound).unwrap_err();
    assert_eq!(error.kind, Kind::Digest);
    assert!(error.to_string().contains("`out` was sha256:"), "{error}");
    bench.executor().rebuilding(Rebuild::Steps(vec!["no-such-step".into()])).run(&unsound).unwrap();
}

#[test]
fn a_rebuild_compares_with_a_result_whose_files_are_elsewhere() {
    let bench = Bench::new();
    let action = bench.script("echo same > out", &["out"]);
    let output = OutputFile { digest: Digest::of(b"other"), executable: false };
    let result = ActionResult {
        outputs: [("out".to_owned(), output)].into(),
        log: None,
        wall: Duration::from_secs(1),
        cpu: Duration::from_secs(1),
        origin: Some(Origin::Cache("a cache".into())),
    };
    bench.store().remember(&action.digest(), &result).unwrap();
    let error = bench.executor().rebuilding(Rebuild::Everything).run(&action).unwrap_err();
    assert_eq!(error.kind, Kind::Digest);
    assert!(error.to_string().contains("`out` was sha256:"), "{error}");
}

#[test]
fn the_cpu_time_is_that_of_the_sandboxed_processes() {
    let bench = Bench::new();
    let result = bench.executor().run(&bench.script(
        "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; sleep 0.3; touch out",
        &["out"],
    ));
    let result = result.unwrap();
    assert!(result.cpu > Duration::from_millis(50), "{:?}", result.cpu);
    assert!(
        result.wall >= result.cpu.min(Duration::from_millis(300))
            && result.wall >= Duration::from_millis(300)
    );
}

#[test]
fn nothing_of_the_host_is_visible() {
    let bench = Bench::new();
    let listed =
        bench.output("cd /; ls; ls usr; ls usr/bin | grep -c .; ls -A tmp toolchain; ls build");
    let expected = [
        "build",
        "dev",
        "proc",
        "tmp",
        "toolchain",
        "usr",
        "bin",
        "16",
        "tmp:",
        "",
        "toolchain:",
        "home",
        "out",
    ];
    assert_eq!(listed.lines().collect::<Vec<_>>(), expected);
    let devices = bench.output("ls /dev");
    assert!(
        !devices.lines().any(|device| ["vda", "sda", "nvme", "kvm", "mem", "loop"]
            .iter()
            .any(|host| device.starts_with(host))),
        "{devices}"
    );
    let mut environment: Vec<String> = bench.output("env").lines().map(str::to_owned).collect();
    environment.sort_unstable();
    assert_eq!(
        environment,
        [
            "HOME=/build/home",
            "LC_ALL=C",
            "PATH=/usr/bin:/usr/sbin",
            "PWD=/build",
            "SHLVL=1",
            "TZ=UTC"
        ]
    );
}

#[test]
fn a_sandbox_has_only_the_loopback_network() {
    assert_eq!(
        Bench::new()
            .output("cat /proc/net/dev")
            .lines()
            .skip(2)
            .map(|line| line.trim().split(':').next().unwrap())
            .collect::<Vec<_>>(),
        ["lo"]
    );
}

#[test]
fn an_action_has_as_many_processors_as_there_are_jobs() {
    assert_eq!(Bench::new().output("nproc"), "1\n");
}

#[test]
fn the_root_and_toolchains_are_read_only() {
    let bench = Bench::new();
    let fill = |root: &Path| {
        fs::write(root.join("tool"), "a tool").unwrap();
        Ok(())
    };
    let tools = bench.store().tree(&Digest::of(b"tools"), fill).unwrap();
    let mut action = bench.script(
        "cat /toolchain/x/tool >out; ! touch /toolchain/x/tool && ! touch /toolchain/y && ! touch \
         /usr/bin/new && ! touch /new",
        &["out"],
    );
    action.toolchains.push(Toolchain { name: "x".into(), key: Digest::of(b"tools"), path: tools });
    let result = bench.executor().run(&action).unwrap();
    assert_eq!(result.outputs["out"].digest, Digest::of(b"a tool"));
}

#[test]
fn a_failed_step_shows_the_end_of_its_log() {
    let error = Bench::new().fails("echo first; echo the reason >&2; exit 3");
    let problem = &error.problems[0];
    assert_eq!((error.kind, problem.message.as_str()), (Kind::Build, "`a test/step` failed"));
    assert_eq!(problem.causes, ["it ended with exit status 3"]);
    assert_eq!(problem.log.as_ref().unwrap().lines, ["first", "the reason"]);
}

#[test]
fn a_step_that_ran_out_of_memory_is_reported() {
    for script in [
        "kill -9 $$",
        "sh -c 'kill -9 $$'; exit 1",
        "echo 'gcc: fatal error: Killed signal terminated program cc1'; exit 2",
    ] {
        let error = Bench::new().fails(script);
        assert_eq!(
            error.problems[0].message,
            "`a test/step` was killed, most likely because the memory ran out",
            "{script}"
        );
        assert!(error.problems[0].hint.as_ref().unwrap().contains("--jobs 1"));
    }
}

#[test]
fn a_missing_output_is_named() {
    let error = Bench::new().fails("true");
    assert_eq!(
        error.problems[0].message,
        "`a test/step` ended well, but its output `out` is not there"
    );
}

#[test]
fn an_output_that_is_a_link_to_the_host_is_refused() {
    for script in ["ln -s /etc/passwd out", "mkdir out", "ln -s out out"] {
        assert!(
            Bench::new().fails(script).problems[0]
                .message
                .starts_with("`a test/step` ended well, but its output `out` ")
        );
    }
}

#[test]
fn a_stop_ends_everything_in_the_sandbox_at_once() {
    let bench = Bench::new();
    let executor = bench.executor();
    let (stop, action) = (executor.stop(), bench.script("sleep 61 & sleep 61", &["out"]));
    let began = Instant::now();
    let error = std::thread::scope(|scope| {
        let run = scope.spawn(|| executor.run(&action).unwrap_err());
        std::thread::sleep(Duration::from_millis(300));
        stop.set();
        run.join().unwrap()
    });
    assert_eq!(error.kind, Kind::Stopped);
    assert!(began.elapsed() < Duration::from_secs(5));
}
