//! Headers for a cache: from files of the user, and from credential helpers, which are programs.

use crate::bench::Bench;
use crate::casd::Casd;
use crate::refusals::{Refuser, demand};
use osbuild::engine::executor::Executor;
use osbuild::engine::remote::{Mode, Remote, Trust};
use osbuild::user_config;
use osbuild_remote::{Access, Retry};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The value of the header `authorization` that the server demands.
const AUTHORIZATION: &str = "Bearer of-this-hour";

/// That header.
const HEADER: (&str, &str) = ("authorization", AUTHORIZATION);

/// A credential helper that counts its runs.
struct Program {
    folder: TempDir,
}

impl Program {
    /// A helper that runs this script after it has read its request.
    fn new(script: &str) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        let text = format!("#!/bin/bash\necho \"$1 $(cat)\" >>{}\n{script}\n", runs.display());
        fs::write(folder.path().join("text"), text).unwrap();
        fs::write(runs, "").unwrap();
        // A process of another test would inherit a descriptor with which this one writes a
        // program, and nobody can execute a file that is open for writing.
        let mut install = Command::new("install");
        install.args(["-m", "755", "text", "helper"]).current_dir(&folder);
        assert!(install.status().unwrap().success());
        Program { folder }
    }

    /// A helper that makes the right header, and says this about its end.
    fn until(expires: &str) -> Program {
        let headers = format!("{{\"Authorization\": [\"{AUTHORIZATION}\"]}}");
        Program::new(&format!("echo '{{\"headers\": {headers}{expires}}}'"))
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("helper")
    }

    /// The requests that it has read, a line each.
    fn requests(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("runs")).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

/// Whether a step's result, which another user gave the cache, is found with this helper.
fn finds(program: &Program, casd: &Casd, server: &Refuser) -> bool {
    let access = Access { credential_helper: Some(program.program()), ..Access::default() };
    finds_with(&access, casd, server)
}

/// The same with these credentials.
fn finds_with(access: &Access, casd: &Casd, server: &Refuser) -> bool {
    let share = |url: String, mode, access: &Access| {
        let bench = Bench::new();
        let retry = Retry {
            idle_timeout: Duration::from_secs(2),
            first_pause: Duration::from_millis(10),
            ..Retry::default()
        };
        let remote = Remote::with(url.parse().unwrap(), access, mode, bench.report(), retry);
        let executor: Executor =
            bench.executor().sharing(Some(Arc::new(remote.unwrap())), Trust::Everywhere);
        let action =
            bench.script("head -c 9M /dev/zero >large; echo small >small", &["large", "small"]);
        executor.run(&action).unwrap().origin.is_some()
    };
    share(casd.url(), Mode::CacheWrite, &Access::default());
    share(format!("grpc://{}", server.address), Mode::Cache, access)
}

#[test]
fn a_token_and_a_header_in_files_go_with_every_call() {
    let casd = Casd::start();
    let team = demand(casd.address, ("x-team", "nodes"));
    let server = demand(team.address, HEADER);
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("token", "of-this-hour\n");
    write("headers", "X-Team: nodes\n");
    let keys = ["", "token-file = 'token'\n", "token-file = 'token'\nheader-file = 'headers'\n"];
    let found = keys.map(|keys| {
        write("config.toml", &format!("[remote]\nurl = 'grpc://{}'\n{keys}", server.address));
        let remote = user_config::remote(Some(folder.path()), None, None).unwrap().unwrap();
        finds_with(&remote.access, &casd, &server)
    });
    assert_eq!(found, [false, false, true]);
    let refused = (server.calls(), team.calls());
    assert_eq!(refused, (1, 1), "the first call without a header ends the use of the cache");
}

#[test]
fn a_program_makes_the_headers_once_for_all_calls() {
    let (casd, program) = (Casd::start(), Program::until(""));
    let server = demand(casd.address, HEADER);
    assert!(finds(&program, &casd, &server));
    let request = format!("get {{\"uri\":\"http://{}/\"}}", server.address);
    assert_eq!((program.requests(), server.calls()), (vec![request], 0));
}

#[test]
fn headers_whose_time_is_over_are_made_again() {
    let (casd, program) =
        (Casd::start(), Program::until(", \"expires\": \"2001-02-03T04:05:06Z\""));
    let server = demand(casd.address, HEADER);
    assert!(finds(&program, &casd, &server));
    assert!(program.requests().len() > 2, "{:?}", program.requests());
    assert_eq!(server.calls(), 0);
}

#[test]
fn a_program_that_fails_hangs_or_lies_ends_in_a_run_here() {
    let casd = Casd::start();
    let server = demand(casd.address, HEADER);
    for script in ["echo nobody is logged in >&2; exit 3", "exec sleep 1000", "echo no JSON", ""] {
        let (program, began) = (Program::new(script), Instant::now());
        assert!(!finds(&program, &casd, &server), "{script}");
        assert_eq!(program.requests().len(), 1, "{script}");
        assert!(began.elapsed() < Duration::from_secs(20), "{script}");
    }
    assert!(!finds(&Program { folder: tempfile::tempdir().unwrap() }, &casd, &server));
    assert_eq!(server.calls(), 0, "no call is made without headers");
}
