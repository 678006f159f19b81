//! The suites of COSI's implementation in Go pass against `osd`, unmodified: that for everything
//! that claims to be a state, and that for runtimes of controllers.

use super::{Program, programs};
use crate::check::Outcome;
use crate::go_module::GoModule;
use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use std::process::Command;

/// `StateSuite`.
const STATE: GoModule = GoModule {
    name: "state-suite",
    words: TESTS,
    files: [
        ("state_test.go", include_str!("state/state_test.go")),
        ("go.mod", include_str!("state/go.mod")),
        ("go.sum", include_str!("state/go.sum")),
    ],
};

/// `RuntimeSuite`, of the last release in which it could run over gRPC.
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
const PASS_PLUGINS: usize = 9;

/// The tests that skip themselves over gRPC: its client has no tracking of outputs and no metrics.
const SKIPPED: [&str; 2] = ["TestControllerRuntimeMetrics", "TestIntDoublerController"];

/// Both suites pass: each test, but two that the second one skips over gRPC.
pub fn suites_of_others_pass(site: &Site) -> Result<Outcome> {
    let [osd, _] = programs(site)?;
    let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let socket = folder.path().join("osd.sock");
    let mut outcome = Outcome::default();
    let server = Program::start(&osd, &socket)?;
    let mut state = Command::new(STATE.compile(site)?);
    let state = Report::of(site, "state-suite", state.env("OSD_SOCKET", &socket))?;
    drop(server);
    state.check(&mut outcome, "StateSuite", PASS_STATE, &[]);
    // It starts one `osd` for each test.
    let mut plugins = Command::new(PLUGINS.compile(site)?);
    let plugins = Report::of(site, "plugin-suite", plugins.env("OSD", &osd))?;
    plugins.check(&mut outcome, "RuntimeSuite", PASS_PLUGINS, &SKIPPED);
    outcome.summary =
        format!("{} tests of StateSuite, {} of RuntimeSuite", state.passed, plugins.passed);
    Ok(outcome)
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
