use super::*;
use crate::error::Kind;
use crate::produce::action::InputTree;
use crate::produce::digest::Digest;
use crate::produce::sandbox::SandboxRoot;
use crate::report::{Color, Verbosity};
use std::time::Duration;

/// A store of its own, and a sandbox root that holds nothing but a static shell.
struct Bench {
    directory: tempfile::TempDir,
    store: Store,
}

impl Bench {
    fn new() -> Bench {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("store")).unwrap();
        Bench { directory, store }
    }

    fn executor(&self) -> Executor {
        let report = Report::new(Verbosity::Quiet, Color::Never);
        Executor::new(self.store.clone(), report, 1, self.directory.path().join("logs"))
    }

    /// A shell script as an action. Debian's package `busybox-static` gives the shell.
    fn script(&self, script: &str, outputs: &[&str]) -> Action {
        let key = Digest::of(b"busybox");
        let fill = |root: &Path| {
            fs::create_dir_all(root.join("usr/bin")).unwrap();
            for name in ["build", "dev", "proc", "tmp", "toolchain"] {
                fs::create_dir(root.join(name)).unwrap();
            }
            let shell = fs::read("/bin/busybox").expect("busybox-static is installed");
            fs::write(root.join("usr/bin/busybox"), shell).unwrap();
            fs::set_permissions(root.join("usr/bin/busybox"), fs::Permissions::from_mode(0o755)).unwrap();
            for name in ["sh", "cat", "ls", "sleep", "mkdir", "ln", "nproc", "id", "env", "wget", "ip", "dd", "touch", "chmod"] {
                std::os::unix::fs::symlink("busybox", root.join("usr/bin").join(name)).unwrap();
            }
            Ok(())
        };
        let path = self.store.tree(&key, fill).unwrap();
        Action {
            name: "a test/step".to_owned(),
            argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
            env: BTreeMap::new(),
            input: InputTree::new(),
            outputs: outputs.iter().map(|&output| output.to_owned()).collect(),
            root: SandboxRoot { key, path },
            toolchains: Vec::new(),
        }
    }

    /// What the script writes into the output `out`.
    fn says(&self, script: &str) -> String {
        let result = self.executor().run(&self.script(&format!("({script}) >out 2>&1"), &["out"])).unwrap();
        String::from_utf8(self.store.read(&result.output("out").unwrap()).unwrap()).unwrap()
    }

    fn fails(&self, script: &str) -> Error {
        self.executor().run(&self.script(script, &["out"])).unwrap_err()
    }
}

#[test]
fn an_action_makes_its_outputs_from_its_inputs() {
    let bench = Bench::new();
    let mut action = bench.script("cat in/text > out/copy; chmod 755 out/copy; echo said", &["out/copy"]);
    action.input.add_file("in/text", bench.store.put_bytes(b"input").unwrap(), false).unwrap();
    let result = bench.executor().run(&action).unwrap();
    assert_eq!(result.outputs["out/copy"], OutputFile { digest: Digest::of(b"input"), executable: true });
    assert_eq!(bench.store.read(&result.log.unwrap()).unwrap(), b"said\n");
    assert_eq!(fs::read(bench.directory.path().join("logs/a-test-step.log")).unwrap(), b"said\n");
}

#[test]
fn the_second_run_of_an_action_is_not_a_run() {
    let bench = Bench::new();
    let action = bench.script("cat /proc/uptime > out; sleep 0.02", &["out"]);
    let first = bench.executor().run(&action).unwrap();
    assert_eq!(bench.executor().run(&action).unwrap(), first);
}

#[test]
fn the_cpu_time_is_that_of_the_processes_inside() {
    let bench = Bench::new();
    let result = bench
        .executor()
        .run(&bench.script("sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; sleep 0.3; touch out", &["out"]));
    let result = result.unwrap();
    assert!(result.cpu > Duration::from_millis(50), "{:?}", result.cpu);
    assert!(result.wall >= result.cpu.min(Duration::from_millis(300)) && result.wall >= Duration::from_millis(300));
}

#[test]
fn nothing_of_the_host_is_visible() {
    let bench = Bench::new();
    assert_eq!(
        bench.says("ls /usr/bin | grep -v busybox; ls -d /home /root /sys /var /work 2>/dev/null; ls /").lines().next(),
        Some("cat")
    );
    let environment = bench.says("env");
    let mut lines: Vec<_> = environment.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["HOME=/build/home", "LC_ALL=C", "PATH=/usr/bin:/usr/sbin", "PWD=/build", "SHLVL=1", "TZ=UTC"]);
}

#[test]
fn a_sandbox_has_no_network_but_the_loopback() {
    assert_eq!(
        Bench::new()
            .says("cat /proc/net/dev")
            .lines()
            .skip(2)
            .map(|line| line.trim().split(':').next().unwrap())
            .collect::<Vec<_>>(),
        ["lo"]
    );
}

#[test]
fn an_action_sees_as_many_processors_as_there_are_jobs() {
    assert_eq!(Bench::new().says("nproc"), "1\n");
}

#[test]
fn the_root_and_toolchains_are_read_only() {
    let bench = Bench::new();
    let tools = bench.store.tree(&Digest::of(b"tools"), |root| fs::write(root.join("tool"), "a tool").at("write", root)).unwrap();
    let mut action = bench.script(
        "cat /toolchain/x/tool >out; ! touch /toolchain/x/tool && ! touch /toolchain/y && ! touch /usr/bin/new && ! touch /new",
        &["out"],
    );
    action.toolchains.push(crate::produce::action::Toolchain { name: "x".into(), key: Digest::of(b"tools"), path: tools });
    let result = bench.executor().run(&action).unwrap();
    assert_eq!(result.outputs["out"].digest, Digest::of(b"a tool"));
}

#[test]
fn a_failed_step_shows_the_end_of_its_log() {
    let error = Bench::new().fails("echo first; echo the reason >&2; exit 3");
    let problem = &error.problems[0];
    assert_eq!((error.kind, problem.message.as_str()), (Kind::Build, "`a test/step` failed"));
    assert_eq!(problem.causes, ["`sh` ended with exit status 3"]);
    assert_eq!(problem.log.as_ref().unwrap().lines, ["first", "the reason"]);
}

#[test]
fn a_step_killed_for_memory_says_so() {
    for script in
        ["kill -9 $$", "sh -c 'kill -9 $$'; exit 1", "echo 'gcc: fatal error: Killed signal terminated program cc1'; exit 2"]
    {
        let error = Bench::new().fails(script);
        assert_eq!(error.problems[0].message, "`a test/step` was killed, most likely because the memory ran out", "{script}");
        assert!(error.problems[0].hint.as_ref().unwrap().contains("--jobs 1"));
    }
}

#[test]
fn a_missing_output_is_named() {
    let error = Bench::new().fails("true");
    assert_eq!(error.problems[0].message, "`a test/step` ended well, but its output `out` is not there");
}

#[test]
fn an_output_that_is_a_link_to_the_host_is_refused() {
    for script in ["ln -s /etc/passwd out", "mkdir out", "ln -s out out"] {
        assert!(Bench::new().fails(script).problems[0].message.starts_with("`a test/step` ended well, but its output `out` "));
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
    let scratch = bench.store.sizes().unwrap().unfinished;
    assert!(scratch < 100_000, "{scratch}");
}
