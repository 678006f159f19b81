//! Checks that run cargo: format, lints, tests, and the node's crates for other targets.

use crate::check::Outcome;
use crate::site::{Ran, Site, tail};
use crate::workspace::{Member, members};
use osbuild::error::{Context, Error, Problem, Result};
use osbuild::plan::{Architecture, CargoLock};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

/// The feature with which packages have tests that need the node's kernel.
const NODE_KERNEL: &str = "node-kernel";

/// Those tests.
pub const NODE_KERNEL_TESTS: [NodeKernelTests; 2] = [
    NodeKernelTests { package: "pod-dhcp", target: "node_kernel", filter: "" },
    NodeKernelTests { package: "pod-osd", target: "state", filter: "node_kernel::" },
];

/// Tests that need the node's kernel.
pub struct NodeKernelTests {
    /// Their package.
    pub package: &'static str,
    /// Their target.
    pub target: &'static str,
    /// A part of their names that other tests of the target lack.
    pub filter: &'static str,
}

/// Compiled tests.
pub struct Compiled {
    /// The program that runs them.
    pub tests: PathBuf,
    /// The programs that they run.
    pub programs: Vec<PathBuf>,
}

/// The crate with which build scripts call a C compiler.
const C_COMPILER: &str = "cc";

/// The whole workspace is formatted.
pub fn format(site: &Site) -> Result<Outcome> {
    site.finish("format", site.cargo()?.args(["fmt", "--all", "--check"]))?;
    Ok(Outcome::holds(""))
}

/// The compiler and clippy have no warnings.
pub fn lints(site: &Site) -> Result<Outcome> {
    site.finish(
        "lints",
        site.cargo()?.args([
            "clippy",
            "--quiet",
            "--locked",
            "--workspace",
            "--all-targets",
            "--features",
            &NODE_KERNEL_TESTS.map(|tests| format!("{}/{NODE_KERNEL}", tests.package)).join(","),
            "--",
            "-D",
            "warnings",
        ]),
    )?;
    Ok(Outcome::holds(""))
}

/// Every test of the workspace passes, and none is ignored.
pub fn tests(site: &Site) -> Result<Outcome> {
    let ran = site
        .run("tests", site.cargo()?.args(["test", "--locked", "--workspace", "--no-fail-fast"]))?;
    Ok(outcome(&ran))
}

/// The outcome of tests, from the report of libtest and the exit code [`Ran::code`].
pub fn outcome(ran: &Ran) -> Outcome {
    let counted = count(&ran.output);
    let mut problems: Vec<Problem> =
        counted.names.iter().map(|name| failed_test(name, ran)).collect();
    problems.extend((problems.len()..counted.failed).map(|_| Problem::new("a test failed")));
    problems.extend((0..counted.ignored).map(|_| Problem::new("a test was ignored")));
    if problems.is_empty() && (ran.code != Some(0) || counted.passed == 0) {
        problems.push(Problem::new("the tests did not run to the end"));
    }
    if let Some(last) = problems.last_mut().filter(|last| last.log.is_none()) {
        last.log = Some(tail(&without_results(&ran.output), &ran.log));
    }
    let summary = format!("{} tests", counted.passed);
    Outcome { passed: counted.passed, problems, summary, ..Outcome::default() }
}

/// Compiles tests that need the node's kernel, and the programs of their package.
pub fn compile_for_node_kernel(site: &Site, tests: &NodeKernelTests) -> Result<Compiled> {
    let ran = site.finish(
        "node-kernel-tests",
        site.cargo()?.args([
            "test",
            "--no-run",
            "--quiet",
            "--locked",
            "--message-format=json",
            "--package",
            tests.package,
            "--features",
            NODE_KERNEL,
            "--test",
            tests.target,
        ]),
    )?;
    let mut compiled = Compiled { tests: PathBuf::new(), programs: Vec::new() };
    for message in ran.output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let Some(program) = message["executable"].as_str().map(PathBuf::from) else { continue };
        match message["target"]["kind"][0].as_str() {
            Some("test") => compiled.tests = program,
            _ => compiled.programs.push(program),
        }
    }
    Ok(compiled)
}

/// The failure of a test, with its output.
fn failed_test(name: &str, ran: &Ran) -> Problem {
    let log = printed_by(name, &ran.output).map(|printed| tail(&printed, &ran.log));
    Problem { log, ..Problem::new(format!("the test `{name}` failed")) }
}

/// The output of the failed test `name`, which libtest repeats after the results.
fn printed_by(name: &str, output: &str) -> Option<String> {
    let begin = format!("---- {name} stdout ----");
    let after = output.lines().skip_while(|line| *line != begin).skip(1);
    let ends = |line: &&str| line.starts_with("---- ") || *line == "failures:";
    let lines: Vec<&str> = after.take_while(|line| !ends(line)).collect();
    if lines.is_empty() { None } else { Some(lines.join("\n").trim_end().to_owned()) }
}

/// The output without the lists of passed tests and of compiled packages.
fn without_results(output: &str) -> String {
    let is_result = |line: &&str| {
        line.starts_with("test ") && line.ends_with(" ok")
            || line.trim_start().starts_with("Compiling ")
    };
    output.lines().filter(|line| !is_result(line)).collect::<Vec<_>>().join("\n")
}

/// libtest's results. Another thread may print into the line of a test, so the numbers are from the
/// summaries.
#[derive(Debug, Default, PartialEq)]
struct Counted {
    passed: usize,
    failed: usize,
    ignored: usize,
    names: Vec<String>,
}

fn count(output: &str) -> Counted {
    let mut counted = Counted::default();
    for line in output.lines() {
        if let Some((_, rest)) =
            line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        {
            let number = |word| {
                rest.split("; ")
                    .find_map(|part| part.strip_suffix(word)?.trim().parse().ok())
                    .unwrap_or(0)
            };
            counted.passed += number("passed");
            counted.failed += number("failed");
            counted.ignored += number("ignored");
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            counted.names.push(name.to_owned());
        }
    }
    counted
}

/// Compiles a program of the build machine for arm64, without dynamic libraries.
///
/// # Errors
/// It does not compile.
pub fn for_arm64(site: &Site, package: &str) -> Result<PathBuf> {
    const COMPILER: &str = "aarch64-linux-gnu-gcc";
    let target = Architecture::Arm64.rust_musl();
    let name = target.replace('-', "_");
    let mut cargo = site.cargo()?;
    cargo
        .args(["build", "--release", "--locked", "--message-format=json", "--target", target])
        .args(["--package", package])
        .env(format!("CARGO_TARGET_{}_LINKER", name.to_uppercase()), COMPILER)
        .env(format!("CC_{name}"), COMPILER);
    let ran = site.finish(&format!("{package}-for-arm64"), &mut cargo)?;
    let messages = ran.output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut program =
        messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    program.next_back().ok_or_else(|| ran.failure("cargo compiled no program"))
}

/// `osctl` compiles for the desks of people with arm64, into one static program.
pub fn osctl_for_arm64(site: &Site) -> Result<Outcome> {
    let program = for_arm64(site, "osctl")?;
    let mut readelf = Command::new("readelf");
    readelf.args(["--wide", "--file-header", "--program-headers"]).arg(&program);
    let read = site.finish("readelf-osctl", &mut readelf)?.output;
    let mut outcome = Outcome::default();
    outcome.check("the program is for arm64", read.contains("AArch64"), || read.clone());
    outcome.check("it needs no library", !read.contains("INTERP"), || read.clone());
    Ok(outcome)
}

/// The node's crates pass the compiler's checks for arm64, except crates that contain C: only
/// `osbuild`'s sandbox has a cross compiler. The image for arm64 has all of them.
pub fn node_for_arm64(site: &Site) -> Result<Outcome> {
    let packages = node_packages(site)?;
    let target = Architecture::Arm64.rust_musl();
    let mut cargo = site.cargo()?;
    cargo.args(["check", "--quiet", "--locked", "--target", target]);
    for package in &packages {
        cargo.args(["--package", package]);
    }
    site.finish("node-for-arm64", &mut cargo)?;
    Ok(Outcome::holds(packages.join(" ")))
}

/// slotboot compiles for the firmware of both architectures without warnings of the compiler and
/// clippy.
pub fn slotboot_for_uefi(site: &Site) -> Result<Outcome> {
    for architecture in Architecture::ALL {
        let target = architecture.rust_uefi();
        let mut cargo = site.cargo()?;
        cargo.args([
            "clippy",
            "--quiet",
            "--locked",
            "--package",
            "slotboot",
            "--target",
            target,
            "--",
            "-D",
            "warnings",
        ]);
        site.finish("slotboot-for-uefi", &mut cargo)?;
    }
    Ok(Outcome::holds(""))
}

/// The workspace's packages in `components/` that have a program and contain no C.
fn node_packages(site: &Site) -> Result<Vec<String>> {
    let components = site.root.join("components");
    let on_the_node = members(site)?
        .into_iter()
        .filter(|member| member.has_program && member.folder.starts_with(&components));
    let path = site.root.join("Cargo.lock");
    let lock =
        std::fs::read_to_string(&path).or_build(|| format!("cannot read `{}`", path.display()))?;
    let lock = CargoLock::parse(&lock)?;
    let mut names = Vec::new();
    for Member { name, .. } in on_the_node {
        if !lock.closure(&BTreeSet::from([name.as_str()]))?.has(C_COMPILER) {
            names.push(name);
        }
    }
    if names.is_empty() { Err(Error::build("the node has no crates")) } else { Ok(names) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_libtest_are_counted() {
        let output = "\
            running 3 tests\ntest a::b ... ok\ntest a::c ... FAILED\n\
            test a::d ... ignored, too slow\n\
            test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; \
            0 filtered out; finished in 0.00s\n\
            test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; \
            0 filtered out; finished in 0.00s\n";
        assert_eq!(
            count(output),
            Counted { passed: 13, failed: 1, ignored: 1, names: vec!["a::c".into()] }
        );
    }

    #[test]
    fn a_failed_test_is_shown_with_what_it_has_printed() {
        let output = "\
            test a::c ... FAILED\ntest a::d ... FAILED\n\nfailures:\n\n\
            ---- a::c stdout ----\nthread 'a::c' panicked at src/a.rs:1:1:\nleft: 1\n\n\
            ---- a::d stdout ----\nother\n\n\n\
            failures:\n    a::c\n    a::d\n";
        let printed = |name| printed_by(name, output);
        assert_eq!(
            printed("a::c").as_deref(),
            Some("thread 'a::c' panicked at src/a.rs:1:1:\nleft: 1")
        );
        assert_eq!(printed("a::d").as_deref(), Some("other"));
        assert_eq!(printed("a::e"), None);
    }
}
