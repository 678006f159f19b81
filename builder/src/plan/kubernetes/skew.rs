//! Which versions fit each other: Kubernetes' version-skew policy, our peg, and the versions of
//! Kubernetes that containerd supports.

use super::releases::Releases;
use super::{Date, Kubernetes, Minor, Version};
use crate::error::Problem;
use std::collections::BTreeMap;

/// The official policy.
const POLICY: &str = "https://kubernetes.io/releases/version-skew-policy/#kubelet";
/// The official dates.
const SUPPORT: &str = "https://kubernetes.io/releases/patch-releases/";
/// containerd's own table.
const CONTAINERD: &str = "https://containerd.io/releases/#kubernetes-support";
/// The peg: how many minors the kubelet is behind the newest, so that it can join every supported
/// API server.
const PEG: u32 = 2;

impl Releases {
    /// The minor that the kubelet is pegged to.
    pub fn pegged(&self) -> Minor {
        self.newest().behind(PEG)
    }

    /// The minor that is as far behind the newest one as `current` was when that was `before`.
    pub fn as_far_behind(&self, before: Minor, current: Minor) -> Minor {
        self.newest().behind(before.minor.saturating_sub(current.minor))
    }
}

/// Which findings that only time causes are errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// None: an old lock always rebuilds.
    Build,
    /// The end of life, and exceptions that have expired.
    Lock,
}

/// For each minor of the kubelet, the first containerd version of each release line that supports
/// it.
pub(in crate::plan) type Supported = BTreeMap<Minor, Vec<Version>>;

/// The subject of a finding, which is shown where the recipe names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::plan) enum Subject {
    Kubelet,
    Containerd,
    ApiServer(Minor),
    Exception,
}

/// How severe a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::plan) enum Severity {
    /// Never built.
    Refused,
    /// Only time causes it: [`Strictness`] decides.
    Dated,
    /// Information.
    Advice,
}

/// A rule's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::plan) struct Finding {
    pub subject: Subject,
    pub severity: Severity,
    pub problem: Problem,
}

/// A minor of the API server, compared with a plan's kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The API server's minor.
    pub api_server: Minor,
    /// Why the node cannot join it; `None` if it can.
    pub obstacle: Option<String>,
    /// The last day on which the minors of both the kubelet and the API server are supported, if
    /// both are known.
    pub until: Option<Date>,
    /// Whether that day has not passed.
    pub supported: bool,
}

/// Applies all rules, in a fixed order.
pub(in crate::plan) fn check(
    kubernetes: &Kubernetes,
    releases: &Releases,
    supported: &Supported,
    today: Date,
) -> Vec<Finding> {
    let api_servers = kubernetes.api_servers.iter().filter_map(|&api_server| {
        let obstacle = obstacle(kubernetes.kubelet.minor, api_server)?;
        let problem = Problem::new(format!(
            "kubelet {} cannot join an API server {api_server}",
            kubernetes.kubelet
        ));
        Some(finding(Subject::ApiServer(api_server), Severity::Refused, problem.cause(obstacle)))
    });
    let mut findings: Vec<Finding> = api_servers.collect();
    findings.extend(newest(kubernetes.kubelet, releases));
    findings.extend(peg(kubernetes, releases, today));
    findings.extend(end_of_life(kubernetes.kubelet, releases, today));
    findings.extend(runtime(kubernetes, supported));
    findings
}

/// The table of `osbuild skew`: every known minor and those in the recipe, oldest first.
pub fn table(kubernetes: &Kubernetes, releases: &Releases, today: Date) -> Vec<Row> {
    let known = releases.minors.keys().chain(&kubernetes.api_servers).copied();
    let minors: std::collections::BTreeSet<Minor> = known.collect();
    let end = |minor: Minor| releases.minors.get(&minor).map(|release| release.end_of_life);
    let row = |api_server: Minor| {
        let until =
            end(api_server).zip(end(kubernetes.kubelet.minor)).map(|(one, other)| one.min(other));
        let supported = until.is_some_and(|until| today <= until);
        Row {
            api_server,
            obstacle: obstacle(kubernetes.kubelet.minor, api_server),
            until,
            supported,
        }
    };
    minors.into_iter().map(row).collect()
}

/// Why a kubelet cannot join an API server; `None` if it can.
pub(in crate::plan) fn obstacle(kubelet: Minor, api_server: Minor) -> Option<String> {
    let max = if kubelet < (Minor { major: 1, minor: 25 }) { 2 } else { 3 };
    if kubelet > api_server {
        Some(format!("a kubelet must not be newer than its API server ({POLICY})"))
    } else if kubelet.major != api_server.major || kubelet < api_server.behind(max) {
        let since = if max == 2 { " before 1.25" } else { "" };
        Some(format!(
            "a kubelet{since} may be at most {max} minors older than its API server ({POLICY})"
        ))
    } else {
        None
    }
}

fn newest(kubelet: Version, releases: &Releases) -> Option<Finding> {
    let checked = releases.checked;
    let newest = match releases.minors.get(&kubelet.minor) {
        Some(release) => release.newest,
        None if kubelet.minor > releases.newest() => {
            releases.minors.get(&releases.newest())?.newest
        }
        None => return None,
    };
    if kubelet > newest {
        let problem =
            Problem::new(format!("kubelet {kubelet} is newer than the newest release, {newest}"));
        let problem = problem.cause(format!("as of {checked}, in `{}`", Releases::PATH));
        return Some(finding(
            Subject::Kubelet,
            Severity::Refused,
            problem.hint("update the table with `cargo osbuild update kubelet`"),
        ));
    }
    let problem =
        Problem::new(format!("kubelet {kubelet} is not the newest patch, which is {newest}"));
    (kubelet < newest).then(|| finding(Subject::Kubelet, Severity::Advice, problem))
}

fn peg(kubernetes: &Kubernetes, releases: &Releases, today: Date) -> Option<Finding> {
    let kubelet = kubernetes.kubelet;
    let pegged = releases.pegged();
    let is_off = kubelet.minor != pegged;
    match &kubernetes.exception {
        None if is_off => {
            let problem = Problem::new(format!("kubelet {kubelet} is off its peg, {pegged}"));
            let problem = problem.cause(format!(
                "the rule is {PEG} minors behind the newest, {}, so that the node can join every \
                 supported API server ({POLICY})",
                releases.newest()
            ));
            let hint = "use a version on the peg, or give `[kubernetes.exception]` a `reason` and \
                        the last day, `until`";
            Some(finding(Subject::Kubelet, Severity::Refused, problem.hint(hint)))
        }
        Some(_) if !is_off => {
            let problem = Problem::new(format!(
                "the exception is not needed: kubelet {kubelet} is on its peg"
            ));
            Some(finding(Subject::Exception, Severity::Advice, problem))
        }
        Some(exception) if exception.until < today => {
            let problem = Problem::new(format!(
                "the exception for kubelet {kubelet} expired on {}",
                exception.until
            ));
            Some(finding(
                Subject::Exception,
                Severity::Dated,
                problem.cause(format!("its reason: {}", exception.reason)),
            ))
        }
        _ => None,
    }
}

fn end_of_life(kubelet: Version, releases: &Releases, today: Date) -> Option<Finding> {
    let problem = match releases.minors.get(&kubelet.minor) {
        Some(release) if release.end_of_life < today => Problem::new(format!(
            "the support of kubelet {kubelet} ended on {}",
            release.end_of_life
        ))
        .cause(format!("see {SUPPORT}")),
        None if kubelet.minor < releases.newest() => {
            Problem::new(format!("Kubernetes {} is unknown", kubelet.minor))
                .cause(format!("it is not in `{}`", Releases::PATH))
        }
        _ => return None,
    };
    Some(finding(Subject::Kubelet, Severity::Dated, problem))
}

/// A version fits if it is at or after the first one of its own release line, or if its line is
/// newer than all listed ones.
fn runtime(kubernetes: &Kubernetes, supported: &Supported) -> Option<Finding> {
    let (kubelet, containerd) = (kubernetes.kubelet, kubernetes.containerd);
    let problem = Problem::new(format!(
        "containerd {containerd} and kubelet {kubelet} do not fit each other"
    ));
    let refused = |cause: String| {
        Some(finding(
            Subject::Containerd,
            Severity::Refused,
            problem.cause(format!("{cause} ({CONTAINERD})")),
        ))
    };
    let Some(firsts) = supported.get(&kubelet.minor) else {
        return refused(format!("containerd's table has no row for Kubernetes {}", kubelet.minor));
    };
    let same_line = firsts.iter().find(|first| first.minor == containerd.minor);
    let fits = match same_line {
        Some(first) => containerd >= *first,
        None => firsts.iter().max().is_some_and(|newest| containerd > *newest),
    };
    let listed = || firsts.iter().map(|first| format!("{first}+")).collect::<Vec<_>>().join(", ");
    if fits {
        None
    } else {
        refused(format!("Kubernetes {} needs containerd {}", kubelet.minor, listed()))
    }
}

fn finding(subject: Subject, severity: Severity, problem: Problem) -> Finding {
    Finding { subject, severity, problem }
}
