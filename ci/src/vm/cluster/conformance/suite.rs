//! Runs the suite, and reads its report.

use super::images::SUITE_BIN;
use super::page::Page;
use crate::site::Site;
use crate::vm::cluster::control_plane::BIN;
use crate::vm::cluster::kubectl::Kubectl;
use osbuild::error::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// The label of the cases.
const LABEL: &str = "NodeConformance";

/// How many cases run at a time. Most of them wait for a pod most of the time.
const PROCESSES: usize = 6;

/// The result of a case, as the suite reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseResult {
    /// It passed.
    Passed,
    /// The suite found that it does not apply, for this reason.
    Skipped(String),
    /// It failed, for this reason.
    Failed(String),
}

/// The results, by the name of the case.
pub type Results = BTreeMap<String, CaseResult>;

/// Runs all cases but those that the page lists as not shown.
///
/// # Errors
/// The suite did not start, or wrote no report.
pub fn run(site: &Site, kubectl: &Kubectl, page: &Page) -> Result<Results> {
    let (project, folder) = (site.project(), kubectl.file("suite"));
    // ginkgo takes a file for a compiled suite by its name.
    let suite = folder.join("e2e.test");
    fs::create_dir_all(&folder)
        .and_then(|()| std::os::unix::fs::symlink(project.join(SUITE_BIN).join("e2e"), &suite))
        .or_build(|| format!("cannot make `{}`", suite.display()))?;
    let mut ginkgo = Command::new("setpriv");
    ginkgo.args(["--pdeathsig", "KILL"]).arg(project.join(SUITE_BIN).join("ginkgo"));
    ginkgo.args(["--no-color", "--silence-skips", "--timeout=4h", "--json-report=report.json"]);
    ginkgo.arg(format!("--procs={PROCESSES}")).arg("--output-dir").arg(&folder);
    ginkgo.arg(format!("--label-filter={LABEL}"));
    ginkgo.args(page.not_shown().map(|case| format!("--skip={}", pattern(case))));
    // The suite runs in another folder than the one that the kubeconfig's paths start from.
    let kubeconfig = kubectl.output(&["config", "view", "--raw", "--flatten"])?;
    kubectl.write("suite/kubeconfig", &kubeconfig)?;
    ginkgo.arg(&suite).arg("--").arg("-kubeconfig").arg(folder.join("kubeconfig"));
    ginkgo.args(["-provider=skeleton", "-kubectl-path"]).arg(project.join(BIN).join("kubectl"));
    let ran = site.run("conformance-suite", &mut ginkgo)?;
    let report = fs::read(folder.join("report.json"));
    let report = report.ok().and_then(|report| serde_json::from_slice::<Value>(&report).ok());
    match report.map(|report| results(&report)) {
        Some(results) if !results.is_empty() => Ok(results),
        _ => Err(ran.failure("the suite did not report a case")),
    }
}

/// How many cases passed, and how many did not.
pub fn summary(results: &Results) -> String {
    let count =
        |wanted: fn(&CaseResult) -> bool| results.values().filter(|&case| wanted(case)).count();
    let passed = count(|case| *case == CaseResult::Passed);
    let skipped = count(|case| matches!(case, CaseResult::Skipped(_)));
    let failed = results.len() - passed - skipped;
    format!("{passed} cases passed, {failed} failed, {skipped} do not apply")
}

/// The results in ginkgo's report (`types.Report`) of the cases with the label.
fn results(report: &Value) -> Results {
    let suites = report.as_array().into_iter().flatten();
    let cases = suites.flat_map(|suite| suite["SpecReports"].as_array().into_iter().flatten());
    cases.filter(|case| has_label(case)).filter_map(result).collect()
}

/// The name of a case and its result; `None` for one that a filter has left out.
fn result(case: &Value) -> Option<(String, CaseResult)> {
    let reason = || {
        let message = case["Failure"]["Message"].as_str().unwrap_or_default();
        message.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let result = match case["State"].as_str()? {
        "passed" => CaseResult::Passed,
        "skipped" if reason().is_empty() => return None,
        "skipped" => CaseResult::Skipped(reason()),
        state => CaseResult::Failed(format!("{state}: {}", reason())),
    };
    let texts = case["ContainerHierarchyTexts"].as_array().into_iter().flatten();
    let texts = texts.chain([&case["LeafNodeText"]]).filter_map(Value::as_str);
    Some((texts.collect::<Vec<_>>().join(" "), result))
}

fn has_label(case: &Value) -> bool {
    let above = case["ContainerHierarchyLabels"].as_array().into_iter().flatten();
    let lists = above.chain([&case["LeafNodeLabels"]]).filter_map(Value::as_array);
    lists.flatten().any(|label| label == LABEL)
}

/// A regular expression (RE2) for this text.
fn pattern(text: &str) -> String {
    let mut pattern = String::new();
    for letter in text.chars() {
        if letter.is_ascii_punctuation() {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}
