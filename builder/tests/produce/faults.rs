//! Failures around a build. A test that needs a build in another process runs its own program
//! again.

use crate::bench::Bench;
use crate::casd::Casd;
use crate::execution::{executor, service_with};
use osbuild::engine::action::ActionResult;
use osbuild::engine::digest::Digest;
use osbuild::engine::graph::{Graph, Width};
use osbuild::engine::key::Key;
use osbuild::engine::stop;
use osbuild::engine::store::Store;
use osbuild::error::{Error, Kind, Result};
use osbuild_remote::Retry;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The variable that marks a child process, with the directory in which it builds.
const BENCH: &str = "OSBUILD_TEST_BENCH";

/// The variable with the file for a child's result.
const RESULT: &str = "OSBUILD_TEST_RESULT";

/// The products of a small build.
struct Product {
    /// A reproducible product.
    whole: Digest,
    /// A random product, which differs each time that the step runs.
    chance: Digest,
}

/// Two parallel steps, one that needs both, and one in this process. Takes at least 0.6 s.
fn build(bench: &Bench) -> Result<Product> {
    let executor = bench.executor();
    let run = |script: &str, input: Vec<(&str, Digest)>| -> Result<ActionResult> {
        let mut action = bench.script(script, &["out/file", "out/chance"]);
        input
            .into_iter()
            .try_for_each(|(path, digest)| action.input.add_file(path, digest, false))?;
        executor.run(&action)
    };
    let chance = "cat /proc/sys/kernel/random/uuid >out/chance; sleep 0.3";
    let mut graph = Graph::new(executor.stop());
    let zeros = graph.step(Width::Wide, (), |()| {
        run(&format!("dd if=/dev/zero of=out/file bs=1M count=4; {chance}"), vec![])
    });
    let text =
        graph.step(Width::Wide, (), |()| run(&format!("echo text >out/file; {chance}"), vec![]));
    let both = graph.step(Width::Narrow, (&zeros, &text), |(zeros, text)| {
        let input = vec![("zeros", zeros.output("out/file")?), ("text", text.output("out/file")?)];
        run(&format!("cat text zeros text >out/file; {chance}"), input)
    });
    let whole = graph.step(Width::Narrow, &both, |both| {
        let input = both.output("out/file")?;
        let memo = Key::new("test").field("input", input);
        if let Some(known) = bench.store().recall_memo(&memo) {
            return Ok(known);
        }
        let made =
            bench.store().put_bytes(&[bench.store().read(&input)?, b"end".to_vec()].concat())?;
        bench.store().remember_memo(&memo, &made)?;
        Ok(made)
    });
    graph.run(2, &|_| {})?;
    Ok(Product { whole: whole.take(), chance: both.take().output("out/chance")? })
}

/// A build in another process.
struct Builder {
    child: Child,
    answer: PathBuf,
}

impl Builder {
    fn command(test: &str, directory: &Path, answer: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", &format!("faults::{test}"), "--nocapture"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.env(BENCH, directory).env(RESULT, directory.join(answer));
        command
    }

    fn start(test: &str, directory: &Path, answer: &str) -> Builder {
        Builder {
            child: Builder::command(test, directory, answer).spawn().unwrap(),
            answer: directory.join(answer),
        }
    }

    fn answer(mut self) -> String {
        assert!(self.child.wait().unwrap().success());
        fs::read_to_string(self.answer).unwrap()
    }
}

/// The bench of this process, if it is a child.
fn child() -> Option<Bench> {
    Some(Bench::at(Path::new(&std::env::var_os(BENCH)?)))
}

/// Ends a child: writes its result to the file, or exits with the code of a stop.
fn answer(result: Result<String>) {
    match result {
        Err(error) if error.kind == Kind::Stopped => std::process::exit(error.kind as i32),
        Ok(text) => fs::write(std::env::var_os(RESULT).unwrap(), text).unwrap(),
        Err(error) => fs::write(std::env::var_os(RESULT).unwrap(), error.to_string()).unwrap(),
    }
}

fn answer_product(bench: &Bench) {
    answer(build(bench).map(|product| format!("{:?} {:?}", product.whole, product.chance)));
}

#[test]
fn kill_nine_then_build_again_gives_the_same_result() {
    const TEST: &str = "kill_nine_then_build_again_gives_the_same_result";
    /// The times at which a build is killed, all before it can be complete.
    const MOMENTS: std::ops::Range<u64> = 0..12;
    const APART: u64 = 50;
    if let Some(bench) = child() {
        return answer_product(&bench);
    }
    let whole = |answer: String| answer.split(' ').next().unwrap().to_owned();
    let directory = tempfile::tempdir().unwrap();
    let expected = whole(Builder::start(TEST, directory.path(), "answer").answer());
    for moment in MOMENTS {
        let directory = tempfile::tempdir().unwrap();
        let mut builder = Builder::start(TEST, directory.path(), "answer");
        sleep(Duration::from_millis(moment * APART));
        assert!(builder.child.try_wait().unwrap().is_none(), "it ended before it was killed");
        builder.child.kill().unwrap();
        builder.child.wait().unwrap();
        assert_eq!(
            whole(Builder::start(TEST, directory.path(), "answer").answer()),
            expected,
            "{moment}"
        );
        let store = Bench::at(directory.path());
        assert_eq!(store.store().verify(&|_| ()).unwrap(), Vec::<String>::new());
        wait_until(|| fs::read_dir(directory.path().join("store/tmp")).unwrap().count() == 1);
    }
}

#[test]
fn two_builds_at_once_share_work() {
    if let Some(bench) = child() {
        return answer_product(&bench);
    }
    let directory = tempfile::tempdir().unwrap();
    let builders = ["one", "two", "three"]
        .map(|answer| Builder::start("two_builds_at_once_share_work", directory.path(), answer));
    let [one, two, three] = builders.map(Builder::answer);
    assert!(one.contains('/'), "{one}");
    assert_eq!((&two, &three), (&one, &one), "a step that ran twice would have two random results");
}

#[test]
fn a_corrupted_entry_is_detected_and_rebuilt() {
    let bench = Bench::new();
    let first = build(&bench).unwrap();
    let text = bench.store().path(&Digest::of(b"text\n")).unwrap();
    fs::remove_file(&text).unwrap();
    fs::write(&text, "tex!\n").unwrap();
    fs::remove_file(bench.store().path(&first.chance).unwrap()).unwrap();
    let second = bench.store().healing(&bench.report(), || build(&bench)).unwrap();
    assert_eq!(second.whole, first.whole);
    assert_ne!(second.chance, first.chance);
    assert_eq!(fs::read(&text).unwrap(), b"text\n");
}

#[test]
fn ctrl_c_stops_everything_and_leaves_the_store_sound() {
    const TEST: &str = "ctrl_c_stops_everything_and_leaves_the_store_sound";
    if let Some(bench) = child() {
        stop::on_signals().unwrap();
        let action = bench.script("touch /build/started; sleep 7777.7", &["out"]);
        return answer(bench.executor().run(&action).map(|_| String::new()));
    }
    let running = || is_sleeping("7777.7");
    for signal in ["-INT", "-TERM"] {
        let directory = tempfile::tempdir().unwrap();
        let mut builder = Builder::start(TEST, directory.path(), "answer");
        wait_until(running);
        assert!(
            Command::new("kill")
                .args([signal, &builder.child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(builder.child.wait().unwrap().code(), Some(130));
        wait_until(|| !running());
        let bench = Bench::at(directory.path());
        assert_eq!(bench.store().verify(&|_| ()).unwrap(), Vec::<String>::new());
        wait_until(|| fs::read_dir(directory.path().join("store/tmp")).unwrap().count() == 1);
    }
}

/// Whether any process on this machine is the program `sleep` with this argument.
fn is_sleeping(time: &str) -> bool {
    let sleeping = format!("sleep\0{time}\0").into_bytes();
    let mut processes = fs::read_dir("/proc").unwrap().flatten();
    processes.any(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == sleeping))
}

#[test]
fn ctrl_c_ends_what_runs_on_a_service() {
    const TEST: &str = "ctrl_c_ends_what_runs_on_a_service";
    if let Some(bench) = child() {
        stop::on_signals().unwrap();
        let url = fs::read_to_string(bench.directory().join("url")).unwrap();
        let is_stopped = || stop::check().is_err();
        let retry = Retry { is_stopped, ..Retry::default() };
        let service = service_with(&bench, &url, retry);
        let action = bench.script("sleep 8888.8", &["out"]);
        return answer(executor(&bench, &service).run(&action).map(|_| String::new()));
    }
    let (casd, directory) = (Casd::start(), tempfile::tempdir().unwrap());
    fs::write(directory.path().join("url"), casd.url()).unwrap();
    let mut builder = Builder::start(TEST, directory.path(), "answer");
    wait_until(|| is_sleeping("8888.8"));
    let interrupt = Command::new("kill").args(["-INT", &builder.child.id().to_string()]).status();
    assert!(interrupt.unwrap().success());
    assert_eq!(builder.child.wait().unwrap().code(), Some(130));
    wait_until(|| !is_sleeping("8888.8"));
}

fn wait_until(condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(20), "the condition was not met");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_full_disk_is_reported() {
    const TEST: &str = "a_full_disk_is_reported";
    if let Some(bench) = child() {
        let too_much = |path: &str| format!("dd if=/dev/zero of={path} bs=1M count=64");
        let mut too_large = bench.script("touch out", &["out"]);
        let large = bench.store().put_bytes(&vec![0; 14 << 20]).unwrap();
        too_large.input.add_file("one", large, false).unwrap();
        too_large.input.add_file("two", large, false).unwrap();
        let errors: Vec<Error> = [
            bench.script(&too_much("out"), &["out"]),
            bench.script(&too_much("/tmp/x"), &["out"]),
            too_large,
        ]
        .iter()
        .map(|action| bench.executor().run(action).unwrap_err())
        .collect();
        let put = bench.store().put_bytes(&vec![1; 64 << 20]).unwrap_err();
        return answer(Ok(errors
            .iter()
            .chain([&put])
            .map(|error| format!("{error}\n---\n"))
            .collect()));
    }
    let directory = tempfile::tempdir().unwrap();
    let full = directory.path().join("full");
    fs::create_dir(&full).unwrap();
    let inner = Builder::command(TEST, &full, "../answer");
    let mut command = Command::new("bwrap");
    command
        .args(["--dev-bind", "/", "/", "--size", "33554432", "--tmpfs"])
        .arg(&full)
        .arg(inner.get_program())
        .args(inner.get_args());
    command.env(BENCH, &full).env(RESULT, directory.path().join("answer"));
    assert!(command.status().unwrap().success());
    let answer = fs::read_to_string(directory.path().join("answer")).unwrap();
    let errors: Vec<&str> = answer.split("---\n").filter(|error| !error.is_empty()).collect();
    assert_eq!(errors.len(), 4);
    for error in errors {
        assert!(
            error.starts_with(&format!("error: no space left on the disk of `{}/", full.display())),
            "{error}"
        );
        assert!(
            error.contains(
                "\nhint: free some space there, or empty the store: `cargo osbuild clean --all`"
            ),
            "{error}"
        );
    }
}

/// Makes empty files in a folder until its file system has no inode left.
fn fill(folder: &Path) {
    let count = (0..1000).find(|count| fs::write(folder.join(count.to_string()), "").is_err());
    assert!(count > Some(8), "{count:?}");
}

#[test]
fn a_store_on_a_full_disk_opens_when_dead_builds_or_damaged_entries_fill_it() {
    const TEST: &str = "a_store_on_a_full_disk_opens_when_dead_builds_or_damaged_entries_fill_it";
    if let Some(directory) = std::env::var_os(BENCH) {
        let root = Path::new(&directory).join("store");
        drop(Store::open(root.clone()).unwrap());
        for folder in ["tmp/build-dead", "damaged"].map(|folder| root.join(folder)) {
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("alive"), "").unwrap();
            fill(&folder);
            Store::open(root.clone()).unwrap().put_bytes(b"a step's output").unwrap();
        }
        // No dead build and no damaged entry fills the disk now.
        fill(&root.join("clients"));
        return answer(Ok(Store::open(root).err().unwrap().to_string()));
    }
    let directory = tempfile::tempdir().unwrap();
    let full = directory.path().join("full");
    fs::create_dir(&full).unwrap();
    let inner = Builder::command(TEST, &full, "../answer");
    let mount = "mount -t tmpfs -o nr_inodes=64 tmpfs \"$1\" && shift && exec \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"])
        .arg(&full)
        .arg(inner.get_program())
        .args(inner.get_args());
    command.env(BENCH, &full).env(RESULT, directory.path().join("answer"));
    assert!(command.status().unwrap().success());
    let answer = fs::read_to_string(directory.path().join("answer")).unwrap();
    let tmp = full.join("store/tmp");
    let last = format!("error: no space left on the disk of `{}`", tmp.display());
    assert!(answer.starts_with(&last), "{answer}");
}

#[test]
fn another_gcc_on_the_host_changes_neither_the_digest_nor_the_bytes() {
    const TEST: &str = "another_gcc_on_the_host_changes_neither_the_digest_nor_the_bytes";
    if let Some(bench) = child() {
        let action = bench.script("gcc >out", &["out"]);
        let made = bench.executor().run(&action).unwrap().output("out").unwrap();
        let host = Command::new("/usr/bin/gcc").output().unwrap().stdout;
        return answer(Ok(format!(
            "{:?} {made:?}\n{}",
            action.digest(),
            String::from_utf8(host).unwrap()
        )));
    }
    let directory = tempfile::tempdir().unwrap();
    let plain = Builder::start(TEST, directory.path(), "plain").answer();
    let fake = directory.path().join("gcc");
    fs::write(&fake, "#!/bin/sh\necho this is a fake\n").unwrap();
    fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let other = tempfile::tempdir().unwrap();
    let inner = Builder::command(TEST, other.path(), "answer");
    let gcc = fs::canonicalize("/usr/bin/gcc").expect("the host has the gcc that linked this test");
    let path = format!("{}:{}", directory.path().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bwrap");
    command
        .args(["--dev-bind", "/", "/", "--ro-bind"])
        .args([&fake, &gcc])
        .arg(inner.get_program())
        .args(inner.get_args());
    command.env(BENCH, other.path()).env(RESULT, other.path().join("answer")).env("PATH", path);
    assert!(command.status().unwrap().success());
    let faked = fs::read_to_string(other.path().join("answer")).unwrap();
    let (plain, faked) = (plain.split_once('\n').unwrap(), faked.split_once('\n').unwrap());
    assert_eq!(faked.0, plain.0);
    assert_eq!((plain.1, faked.1), ("", "this is a fake\n"), "the host's gcc was really replaced");
}
