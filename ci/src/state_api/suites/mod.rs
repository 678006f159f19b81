//! The suites of COSI's implementation in Go pass against `osd`, unmodified: that for everything
//! that claims to be a state, and that for runtimes of controllers, with `osd` as the runtime and
//! as the state of the implementation's own.

use super::{Program, programs};
use crate::check::Outcome;
use crate::go_module::GoModule;
use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use std::ffi::OsStr;
use std::process::Command;

/// `StateSuite`, and `RuntimeSuite` with the runtime of the same release.
const STATE: GoModule = GoModule {
    name: "state-suite",
    words: TESTS,
    files: [
        ("state_test.go", include_str!("state/state_test.go")),
        ("go.mod", include_str!("state/go.mod")),
        ("go.sum", include_str!("state/go.sum")),
    ],
};

/// `RuntimeSuite`, of the last release in which a runtime could be a server of gRPC.
const PLUGINS: GoModule = GoModule {
    name: "plugin-suite",
    words: TESTS,
    files: [
        ("plugins_test.go", include_str!("plugins/plugins_test.go")),
        ("go.mod", include_str!("plugins/go.mod")),
        ("go.sum", include_str!("plugins/go.sum")),
    ],
};

/// `go` compiles tests without running them.
const TESTS: &[&str] = &["test", "-c"];

/// The number of tests of each suite that pass.
const PASS_STATE: usize = 24;
const PASS_RUNTIME: usize = 14;
const PASS_PLUGINS: usize = 9;

/// The tests that skip themselves over gRPC: its client has no tracking of outputs and no metrics.
const SKIPPED: [&str; 2] = ["TestControllerRuntimeMetrics", "TestIntDoublerController"];

/// The suites pass with `osd` on this host: each test, but two that the last one skips over gRPC.
pub fn suites_of_others_pass(site: &Site) -> Result<Outcome> {
    let [osd, _] = programs(site)?;
    let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let socket = folder.path().join("osd.sock");
    let mut outcome = Outcome::default();
    let server = Program::start(&osd, &socket)?;
    let address = format!("unix://{}", socket.display());
    let state = suite_of_states_passes(site, "state-suite", &address, &mut outcome)?;
    drop(server);
    // Both start one `osd` for each test.
    let server = [("OSD", osd.as_os_str())];
    let runtime = suite_of_runtimes_passes(site, server, &mut outcome)?;
    let plugins = suite_of_plugins_passes(site, "plugin-suite", &server, &mut outcome)?;
    outcome.summary = format!(
        "{state} tests of StateSuite, {runtime} of RuntimeSuite with osd as the state, {plugins} \
         with osd as the runtime"
    );
    Ok(outcome)
}

/// `RuntimeSuite` passes with the runtime of its own release, whose state is an `osd` that these
/// variables name. Returns the number of its tests that passed.
fn suite_of_runtimes_passes(
    site: &Site,
    osd: [(&str, &OsStr); 1],
    outcome: &mut Outcome,
) -> Result<usize> {
    let mut program = Command::new(STATE.compile(site)?);
    let program = program.args(["-test.run", "^TestRuntime$"]).envs(osd);
    let report = Report::of(site, "runtime-suite", program)?;
    report.check(outcome, "RuntimeSuite over a state", PASS_RUNTIME, &[]);
    Ok(report.passed)
}

/// `StateSuite` passes with the `osd` at this address, a target of gRPC. `log` is the name of the
/// suite's log. Returns the number of its tests that passed.
pub fn suite_of_states_passes(
    site: &Site,
    log: &str,
    address: &str,
    outcome: &mut Outcome,
) -> Result<usize> {
    let mut program = Command::new(STATE.compile(site)?);
    let program = program.args(["-test.run", "^TestState$"]).env("OSD_STATE", address);
    let report = Report::of(site, log, program)?;
    report.check(outcome, "StateSuite", PASS_STATE, &[]);
    Ok(report.passed)
}

/// The same for `RuntimeSuite` with the `osd` that these variables name as the runtime.
pub fn suite_of_plugins_passes(
    site: &Site,
    log: &str,
    osd: &[(&str, &OsStr)],
    outcome: &mut Outcome,
) -> Result<usize> {
    let mut program = Command::new(PLUGINS.compile(site)?);
    let report = Report::of(site, log, program.envs(osd.iter().copied()))?;
    report.check(outcome, "RuntimeSuite", PASS_PLUGINS, &SKIPPED);
    Ok(report.passed)
}

/// The outcome of the tests of a suite.
#[derive(Debug, Default, PartialEq, Eq)]
struct Report {
    passed: usize,
    /// The names of the others, after the word for their outcome.
    others: Vec<String>,
}

impl Report {
    /// Runs a suite. Its program fails if a test does.
    fn of(site: &Site, name: &str, program: &mut Command) -> Result<Self> {
        Self::read(&site.finish(name, program.arg("-test.v"))?.output)
    }

    /// Reads what `go test -v` prints: a line for each test of a suite is indented once, and one
    /// for a part of it further.
    fn read(output: &str) -> Result<Self> {
        let mut report = Self::default();
        for line in output.lines().filter_map(|line| line.strip_prefix("    --- ")) {
            let words: Vec<&str> = line.split([' ', '/']).collect();
            match words[..] {
                ["PASS:", _, _, _] => report.passed += 1,
                [word, _, test, _] => report.others.push(format!("{word} {test}")),
                _ => return Err(Error::build(format!("cannot read `{line}`"))),
            }
        }
        Ok(report)
    }

    fn check(&self, outcome: &mut Outcome, suite: &str, passed: usize, skipped: &[&str]) {
        let skipped = skipped.iter().map(|test| format!("SKIP: {test}")).collect();
        let expected = Report { passed, others: skipped };
        outcome.check(suite, *self == expected, || format!("{suite}: {self:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_of_a_suite_counts_once() {
        let output = "=== RUN   TestState\n--- PASS: TestState (7.70s)\n    \
                      --- PASS: TestState/TestCRD (0.04s)\n        \
                      --- PASS: TestState/TestCRD/aggregated=false (0.01s)\n    \
                      --- SKIP: TestState/TestWatch (0.00s)\nPASS\n";
        let report = Report { passed: 1, others: vec!["SKIP: TestWatch".to_owned()] };
        assert_eq!(Report::read(output).unwrap(), report);
        assert!(Report::read("    --- PASS: x\n").is_err());
    }
}
