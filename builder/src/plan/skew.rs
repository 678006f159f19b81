//! Which versions may meet: Kubernetes' version-skew policy, our peg, and what containerd was
//! tested with.

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
/// How many minors the kubelet is behind the newest, so that it can join every supported API
/// server.
pub(super) const PEG: u32 = 2;

/// What the passing of time turns into an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Nothing: an old lock always rebuilds.
    Build,
    /// End of life and exceptions that have run out.
    Lock,
}

/// Kubelet minors and the first containerd versions of each line of releases that fit them.
pub(super) type Fits = BTreeMap<Minor, Vec<Version>>;

/// What a finding is about, and so where it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    Kubelet,
    Containerd,
    ApiServer(Minor),
    Exception,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    /// Never built.
    Refused,
    /// Only time made it wrong: [`Strictness`] decides.
    Dated,
    /// Worth knowing.
    Advice,
}

/// What a rule has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub about: About,
    pub severity: Severity,
    pub problem: Problem,
}

/// One API-server minor against a plan's kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The API server's minor.
    pub api_server: Minor,
    /// Why the node cannot join; none where it can.
    pub obstacle: Option<String>,
    /// The last day on which both the kubelet's and the API server's minor are supported, where
    /// both are known.
    pub until: Option<Date>,
    /// Whether that day has not passed.
    pub supported: bool,
}

/// All that the rules find. The order is that of the rules.
pub(super) fn judge(
    kubernetes: &Kubernetes,
    releases: &Releases,
    fits: &Fits,
    today: Date,
) -> Vec<Finding> {
    let api_servers = kubernetes.api_servers.iter().filter_map(|&api_server| {
        let obstacle = obstacle(kubernetes.kubelet.minor, api_server)?;
        let problem = Problem::new(format!(
            "kubelet {} cannot join an API server {api_server}",
            kubernetes.kubelet
        ));
        Some(finding(About::ApiServer(api_server), Severity::Refused, problem.cause(obstacle)))
    });
    let mut findings: Vec<Finding> = api_servers.collect();
    findings.extend(newest(kubernetes.kubelet, releases));
    findings.extend(peg(kubernetes, releases, today));
    findings.extend(end_of_life(kubernetes.kubelet, releases, today));
    findings.extend(runtime(kubernetes, fits));
    findings
}

/// The table of `osbuild skew`: every known minor and those that the recipe lists, oldest first.
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

/// Why this kubelet cannot join that API server; none where it can.
fn obstacle(kubelet: Minor, api_server: Minor) -> Option<String> {
    let reach = if kubelet < (Minor { major: 1, minor: 25 }) { 2 } else { 3 };
    if kubelet > api_server {
        Some(format!("a kubelet must not be newer than its API server ({POLICY})"))
    } else if kubelet.major != api_server.major || kubelet < api_server.behind(reach) {
        let since = if reach == 2 { " before 1.25" } else { "" };
        Some(format!(
            "a kubelet{since} may be at most {reach} minors older than its API server ({POLICY})"
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
            About::Kubelet,
            Severity::Refused,
            problem.hint("bring the table up to date with `cargo osbuild update kubelet`"),
        ));
    }
    let problem =
        Problem::new(format!("kubelet {kubelet} is not the newest patch, which is {newest}"));
    (kubelet < newest).then(|| finding(About::Kubelet, Severity::Advice, problem))
}

fn peg(kubernetes: &Kubernetes, releases: &Releases, today: Date) -> Option<Finding> {
    let kubelet = kubernetes.kubelet;
    let pegged = releases.pegged();
    let off = kubelet.minor != pegged;
    match &kubernetes.exception {
        None if off => {
            let problem = Problem::new(format!("kubelet {kubelet} is off its peg, {pegged}"));
            let problem = problem.cause(format!(
                "our rule: {PEG} minors behind the newest, {}, so that the node joins every supported API server ({POLICY})",
                releases.newest()
            ));
            let hint = "take a version on the peg, or give `[kubernetes.exception]` a `reason` and the last day, `until`";
            Some(finding(About::Kubelet, Severity::Refused, problem.hint(hint)))
        }
        Some(_) if !off => {
            let problem = Problem::new(format!(
                "the exception is not needed: kubelet {kubelet} is on its peg"
            ));
            Some(finding(About::Exception, Severity::Advice, problem))
        }
        Some(exception) if exception.until < today => {
            let problem = Problem::new(format!(
                "the exception for kubelet {kubelet} ran out on {}",
                exception.until
            ));
            Some(finding(
                About::Exception,
                Severity::Dated,
                problem.cause(format!("its reason was: {}", exception.reason)),
            ))
        }
        _ => None,
    }
}

fn end_of_life(kubelet: Version, releases: &Releases, today: Date) -> Option<Finding> {
    let problem = match releases.minors.get(&kubelet.minor) {
        Some(release) if release.end_of_life < today => Problem::new(format!(
            "kubelet {kubelet} is without support since {}",
            release.end_of_life
        ))
        .cause(format!("see {SUPPORT}")),
        None if kubelet.minor < releases.newest() => {
            Problem::new(format!("nothing is known of Kubernetes {}", kubelet.minor))
                .cause(format!("it is not in `{}`", Releases::PATH))
        }
        _ => return None,
    };
    Some(finding(About::Kubelet, Severity::Dated, problem))
}

/// A version fits when its own line of releases has reached the first that fits, or when its line
/// is newer than any that was listed.
fn runtime(kubernetes: &Kubernetes, fits: &Fits) -> Option<Finding> {
    let (kubelet, containerd) = (kubernetes.kubelet, kubernetes.containerd);
    let problem = Problem::new(format!(
        "containerd {containerd} and kubelet {kubelet} do not fit each other"
    ));
    let refused = |cause: String| {
        Some(finding(
            About::Containerd,
            Severity::Refused,
            problem.cause(format!("{cause} ({CONTAINERD})")),
        ))
    };
    let Some(firsts) = fits.get(&kubelet.minor) else {
        return refused(format!("containerd's table has no row for Kubernetes {}", kubelet.minor));
    };
    let same_line = firsts.iter().find(|first| first.minor == containerd.minor);
    let fit = match same_line {
        Some(first) => containerd >= *first,
        None => firsts.iter().max().is_some_and(|newest| containerd > *newest),
    };
    let listed = || firsts.iter().map(|first| format!("{first}+")).collect::<Vec<_>>().join(", ");
    if fit {
        None
    } else {
        refused(format!("Kubernetes {} needs containerd {}", kubelet.minor, listed()))
    }
}

fn finding(about: About, severity: Severity, problem: Problem) -> Finding {
    Finding { about, severity, problem }
}
