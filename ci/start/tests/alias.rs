//! `cargo osbuild` through this checkout's alias, in a project whose `osbuild` compiles in a
//! second.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A stand-in for `osbuild`: prints its arguments, and exits with the first one as its code.
const PROGRAM: &str = r#"fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    println!("{words:?}");
    std::process::exit(words.first().and_then(|word| word.parse().ok()).unwrap_or(0));
}
"#;

/// How long a process may take to end after a signal.
const TIMEOUT: Duration = Duration::from_secs(10);

struct Project(tempfile::TempDir);

impl Project {
    fn new() -> Self {
        let project = Project(tempfile::Builder::new().prefix("a b").tempdir().unwrap());
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        for file in [
            "src/lib.rs",
            "src/fresh.rs",
            "src/progress.rs",
            "src/times.rs",
            "src/main.rs",
            "src/bin/start-osbuild.rs",
        ] {
            project
                .write(&format!("ci/start/{file}"), &fs::read_to_string(here.join(file)).unwrap());
        }
        let alias = fs::read_to_string(here.join("../../.cargo/config.toml")).unwrap();
        project.write(".cargo/config.toml", &alias);
        project.write(
            "Cargo.toml",
            "[workspace]\nresolver = \"3\"\nmembers = [\"builder\", \"ci/start\"]\n",
        );
        let package = |name: &str| {
            format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n")
        };
        project.write("ci/start/Cargo.toml", &(package("start") + "default-run = \"start\"\n"));
        project.write("builder/Cargo.toml", &package("osbuild"));
        project.write("builder/src/main.rs", PROGRAM);
        project
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn cargo_osbuild(&self, folder: &str) -> Command {
        // Background jobs of a shell ignore SIGINT, and so does all that they start.
        let mut command = Command::new("env");
        command
            .args(["--default-signal=INT", env!("CARGO"), "osbuild"])
            .current_dir(self.at(folder))
            .stdin(Stdio::null())
            .env("CARGO_NET_OFFLINE", "true");
        for name in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR", "CARGO_BUILD_BUILD_DIR"] {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, folder: &str, words: &[&str]) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } =
            self.cargo_osbuild(folder).args(words).output().unwrap();
        (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }
}

#[test]
fn the_first_call_shows_its_progress_and_later_calls_show_nothing() {
    let project = Project::new();
    let (code, stdout, stderr) = project.run(".", &["7", "b c", "--version", "--", "*"]);
    assert_eq!(
        (code, stdout.as_str()),
        (Some(7), "[\"7\", \"b c\", \"--version\", \"--\", \"*\"]\n"),
        "{stderr}"
    );
    let lines: Vec<&str> = stderr.lines().collect();
    assert!(
        lines[0].starts_with("note: `osbuild` is compiled first")
            && lines[1].starts_with("compiling osbuild"),
        "{stderr}"
    );
    assert!(
        lines.last().unwrap().starts_with("compiled osbuild in ") && !stderr.contains("Compiling"),
        "{stderr}"
    );
    for folder in [".", "builder/src"] {
        assert_eq!(project.run(folder, &["3"]), (Some(3), "[\"3\"]\n".to_owned(), String::new()));
    }
}

#[test]
fn a_changed_source_is_compiled_again_and_its_errors_are_shown_in_full() {
    let project = Project::new();
    project.run(".", &[]);
    project.write("builder/src/main.rs", &PROGRAM.replace("{words:?}", "new"));
    let (code, stdout, stderr) = project.run(".", &[]);
    assert_eq!((code, stdout.as_str()), (Some(0), "new\n"), "{stderr}");
    assert!(stderr.starts_with("compiling osbuild") && !stderr.contains("note:"), "{stderr}");
    project.write("builder/src/main.rs", "fn main() {\n    no_such_thing();\n}\n");
    let (code, stdout, stderr) = project.run(".", &[]);
    assert_eq!((code, stdout.as_str()), (Some(101), ""), "cargo's own code: {stderr}");
    for part in [
        "error[E0425]",
        "--> builder/src/main.rs:2:5",
        "2 |     no_such_thing();",
        "could not compile `osbuild`",
    ] {
        assert!(stderr.contains(part), "{part} is missing in: {stderr}");
    }
    project.write("builder/src/main.rs", PROGRAM);
    assert_eq!(project.run(".", &["5"]).0, Some(5));
}

#[test]
fn cargo_itself_finds_the_program_current_afterwards() {
    let project = Project::new();
    project.write(
        "builder/build.rs",
        "fn main() { println!(\"cargo::rerun-if-env-changed=CARGO_PKG_NAME\") }\n",
    );
    assert_eq!(project.run(".", &[]).0, Some(0));
    let mut cargo = project.cargo_osbuild(".");
    let output = cargo_as_a_user(&mut cargo)
        .args(["build", "--release", "--package", "osbuild"])
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && !errors.contains("Compiling"), "{errors}");
}

/// cargo in the same folder and environment, without the variables that cargo set for this test
/// itself.
fn cargo_as_a_user(like: &mut Command) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(like.get_current_dir().unwrap()).stdin(Stdio::null());
    for (name, value) in like.get_envs() {
        match value {
            Some(value) => cargo.env(name, value),
            None => cargo.env_remove(name),
        };
    }
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_PKG_"))
    {
        cargo.env_remove(name);
    }
    cargo
}

#[test]
fn ctrl_c_ends_the_compilation_with_all_that_it_started() {
    let project = Project::new();
    project.write(
        "builder/build.rs",
        "fn main() { std::thread::sleep(std::time::Duration::from_secs(600)) }\n",
    );
    // A terminal sends the signal to the whole group.
    let mut child = project
        .cargo_osbuild(".")
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let group = format!("-{}", child.id());
    let kill = |signal: &str| {
        Command::new("kill")
            .args([signal, "--", &group])
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .success()
    };
    let soon = |what: &str, is_so: &mut dyn FnMut() -> bool| {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < TIMEOUT * 30, "{what} never came");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let runs = |name: &str| {
        Command::new("pgrep")
            .args(["-g", &group[1..], "-f", name])
            .output()
            .unwrap()
            .status
            .success()
    };
    soon("the build script", &mut || runs("build-script-build"));
    assert!(kill("-INT"));
    assert_eq!(child.wait().unwrap().signal(), Some(2));
    soon("the end of all processes", &mut || !kill("-0"));
}
