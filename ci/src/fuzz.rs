//! Runs each fuzz target of `ci/fuzz` with its corpus, its seeds and its regressions.
//!
//! Corpora stay in `out/ci/fuzz` for the next run. A target runs in a sandbox that can read the
//! host and write only to the target's corpus and findings.

use crate::check::Outcome;
use crate::site::{Ran, Site};
use osbuild::error::{Context, Error, Kind, Problem, Result};
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread::available_parallelism;

/// Seconds for which the check runs each target.
const SECONDS: u32 = 120;

/// Seconds that one input may take. The slowest takes one second on a busy host.
const INPUT_TIMEOUT: u32 = 10;

/// Memory of a target in MiB: its own, and that of decoders in C for one input.
const MEMORY: u32 = 1024;

/// LLVM's instrumentation for libFuzzer: coverage, and the operands of comparisons.
const FLAGS: [&str; 6] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// libFuzzer's label of the number of inputs that it has run.
const EXECUTIONS: &str = "stat::number_of_executed_units:";

/// libFuzzer's label of the path of an input that breaks a property.
const WRITTEN: &str = "Test unit written to ";

/// Runs every target for [`SECONDS`]; no input breaks a property.
pub fn no_input_breaks_a_property(site: &Site) -> Result<Outcome> {
    Fuzzer::ready(site)?.run(&[], SECONDS)
}

/// `cargo ci fuzz [SECONDS] [TARGET…]`: runs all or some targets, for longer or shorter.
///
/// # Errors
/// An input breaks a property.
pub fn run_targets(site: &Site, words: &[String]) -> Result<()> {
    let (mut names, mut seconds) = (Vec::new(), SECONDS);
    for word in words {
        match word.parse() {
            Ok(number) => seconds = number,
            Err(_) => names.push(word.as_str()),
        }
    }
    let outcome = Fuzzer::ready(site)?.run(&names, seconds)?;
    site.report.data(&outcome.summary);
    if outcome.problems.is_empty() {
        Ok(())
    } else {
        Err(Error::many(Kind::Build, outcome.problems))
    }
}

/// The compiled targets and their seeds.
struct Fuzzer<'a> {
    site: &'a Site<'a>,
    program: PathBuf,
    /// Holds `seeds`, `corpus` and `found`, each with a folder for each target.
    folder: PathBuf,
    targets: Vec<String>,
}

impl<'a> Fuzzer<'a> {
    fn ready(site: &'a Site<'a>) -> Result<Self> {
        let folder = site.root.join("out/ci/fuzz");
        let seeds = folder.join("seeds");
        if seeds.exists() {
            fs::remove_dir_all(&seeds)
                .or_build(|| format!("cannot remove `{}`", seeds.display()))?;
        }
        let targets = seeded(site, &seeds)?;
        Ok(Fuzzer { site, program: compiled(site)?, folder, targets })
    }

    /// Runs the targets with these names, or all of them without a name, one on each processor.
    fn run(&self, names: &[&str], seconds: u32) -> Result<Outcome> {
        if let Some(name) =
            names.iter().find(|name| !self.targets.iter().any(|target| target == *name))
        {
            return Err(Error::usage(format!("there is no fuzz target `{name}`"))
                .hint(format!("the targets are: {}", self.targets.join(", "))));
        }
        let chosen = self
            .targets
            .iter()
            .filter(|target| names.is_empty() || names.contains(&target.as_str()));
        let (chosen, found) = (Mutex::new(chosen), Mutex::new(Vec::new()));
        let next = || chosen.lock().expect("no thread panics with the lock").next();
        let work = || {
            while let Some(target) = next() {
                let ran = self.one(target, seconds);
                found.lock().expect("no thread panics with the lock").push(ran);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..available_parallelism().map_or(1, NonZero::get) {
                scope.spawn(work);
            }
        });
        let (mut executions, mut outcome) = (0, Outcome::default());
        for ran in found.into_inner().expect("no thread panics with the lock") {
            let (more, problem) = ran?;
            executions += more;
            outcome.passed += usize::from(problem.is_none());
            outcome.problems.extend(problem);
        }
        outcome.summary =
            format!("{} targets, {executions} executions", outcome.passed + outcome.problems.len());
        Ok(outcome)
    }

    /// Runs a target, and returns the number of its inputs and the finding.
    fn one(&self, target: &str, seconds: u32) -> Result<(u64, Option<Problem>)> {
        let ran = self.site.run(&format!("fuzz-{target}"), &mut self.command(target, seconds)?)?;
        Ok((executions(&ran.output), self.problem(target, &ran)))
    }

    /// The command that runs libFuzzer on one target. libFuzzer adds new inputs to the first
    /// folder, the corpus.
    fn command(&self, target: &str, seconds: u32) -> Result<Command> {
        let [corpus, found] = ["corpus", "found"].map(|name| self.folder.join(name).join(target));
        for folder in [&corpus, &found] {
            fs::create_dir_all(folder)
                .or_build(|| format!("cannot make `{}`", folder.display()))?;
        }
        let regressions = self.site.root.join("ci/fuzz/regressions").join(target);
        let mut command = Command::new("bwrap");
        command.args([
            "--unshare-all",
            "--die-with-parent",
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
        ]);
        // Temporary files stay in memory.
        command.args(["--setenv", "TMPDIR", "/dev/shm", "--setenv", "FUZZ_TARGET", target]);
        for folder in [&corpus, &found] {
            command.arg("--bind").args([folder, folder]);
        }
        command
            .arg("--")
            .arg(&self.program)
            .arg(&corpus)
            .arg(self.folder.join("seeds").join(target));
        command.args(regressions.is_dir().then_some(regressions));
        command
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-artifact_prefix={}/", found.display()));
        command.args([
            format!("-timeout={INPUT_TIMEOUT}"),
            format!("-rss_limit_mb={MEMORY}"),
            "-print_final_stats=1".to_owned(),
        ]);
        Ok(command)
    }

    /// The finding of a run, with the command that reproduces it.
    fn problem(&self, target: &str, ran: &Ran) -> Option<Problem> {
        if ran.code == Some(0) {
            return None;
        }
        let mut problem =
            ran.failure(&format!("the fuzz target `{target}` failed")).problems.pop()?;
        if let Some(file) = written(&ran.output) {
            let file = file.strip_prefix(&self.site.root).unwrap_or(file).display();
            problem = problem.cause(format!("the input is in `{file}`"));
            problem = problem
                .hint(format!("cargo run --package fuzz --bin fuzz -- replay {target} {file}"));
        }
        Some(problem)
    }
}

/// Writes the targets' seeds to a folder, and returns the targets' names.
fn seeded(site: &Site, seeds: &Path) -> Result<Vec<String>> {
    let mut make = site.cargo()?;
    make.args(["run", "--quiet", "--locked", "--package", "fuzz", "--bin", "fuzz", "--", "seeds"])
        .arg(seeds);
    Ok(site.finish("fuzz-seeds", &mut make)?.output.lines().map(str::to_owned).collect())
}

/// Compiles the program with all targets. With an explicit target triple the flags do not apply to
/// build scripts.
fn compiled(site: &Site) -> Result<PathBuf> {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut cargo = site.cargo()?;
    cargo.args([
        "build",
        "--quiet",
        "--locked",
        "--package",
        "fuzz",
        "--bin",
        "libfuzzer",
        "--features",
        "libfuzzer",
    ]);
    cargo.args([
        "--profile",
        "fuzz",
        "--target",
        &triple,
        "--message-format",
        "json-render-diagnostics",
    ]);
    let output = site.finish("fuzz-build", cargo.env("RUSTFLAGS", FLAGS.join(" ")))?.output;
    let mut built =
        output.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let program = built.find_map(|message| message["executable"].as_str().map(PathBuf::from));
    program.ok_or_else(|| Error::build("cargo did not print the path of the fuzzer"))
}

/// The number of inputs that libFuzzer has run.
fn executions(output: &str) -> u64 {
    output.lines().find_map(|line| line.strip_prefix(EXECUTIONS)?.trim().parse().ok()).unwrap_or(0)
}

/// The file with the input that breaks a property.
fn written(output: &str) -> Option<&Path> {
    output.lines().find_map(|line| line.split_once(WRITTEN)).map(|(_, path)| Path::new(path.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_libfuzzer_is_read() {
        assert_eq!(
            executions(
                "Done 12 runs in 1 second(s)\nstat::number_of_executed_units: 12\n\
                 stat::new_units_added: 8\n"
            ),
            12
        );
        let crash = "==9==ERROR: libFuzzer: deadly signal\n\
                     artifact_prefix='/out/'; Test unit written to /out/crash-1e6\nBase64: AA==\n";
        assert_eq!((executions(crash), written(crash)), (0, Some(Path::new("/out/crash-1e6"))));
        assert_eq!(written("Done 12 runs in 1 second(s)\n"), None);
    }
}
