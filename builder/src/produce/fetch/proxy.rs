//! Finds the versions of a module on the Go module proxy with `go`. The proxy's list may lack
//! versions that it serves, and may have versions that it refuses. So a few versions after the
//! newest known one are tried, and a version counts only if it can be downloaded.

use super::go::Go;
use crate::engine::store::{Scratch, Store};
use crate::error::{Context, Error, Result};
use crate::plan::{Date, Minor, Version};
use crate::report::Step;
use std::collections::BTreeSet;

/// How many patch numbers after the newest known one are tried.
const AHEAD: u32 = 3;

/// A module, and how its versions encode releases.
pub struct Line {
    /// The module's path.
    pub module: String,
    before: &'static str,
    after: &'static str,
}

impl Line {
    /// A module whose versions are its releases.
    pub fn of(module: &str) -> Self {
        Line { module: module.to_owned(), before: "v", after: "" }
    }

    /// The Go toolchain for the build machine.
    pub fn toolchain() -> Self {
        Line { module: super::go::TOOLCHAIN.to_owned(), before: "v0.0.1-go", after: ".linux-amd64" }
    }

    /// A release as an argument of `go`: `k8s.io/kubernetes@v1.35.8`.
    pub fn argument(&self, version: Version) -> String {
        format!("{}@{}{version}{}", self.module, self.before, self.after)
    }

    fn read(&self, text: &str) -> Option<Version> {
        text.strip_prefix(self.before)?.strip_suffix(self.after)?.parse().ok()
    }
}

/// The proxy. A temporary module cache avoids stale responses from the user's cache.
pub struct Proxy<'a> {
    go: Go,
    /// The folder of `go`.
    _scratch: Scratch,
    step: &'a Step,
}

impl<'a> Proxy<'a> {
    /// The user's proxy.
    pub fn open(store: &Store, step: &'a Step) -> Result<Self> {
        let scratch = store.scratch()?;
        Ok(Proxy { go: Go::local(scratch.path())?, _scratch: scratch, step })
    }

    /// The releases that the proxy lists, without candidates and retracted versions.
    pub fn listed(&self, line: &Line) -> Result<BTreeSet<Version>> {
        // Retractions are in the go.mod of the newest version. If the proxy refuses that one, list
        // without them.
        for flags in
            [["list", "-m", "-versions"].as_slice(), &["list", "-m", "-retracted", "-versions"]]
        {
            let client = self.go.client().args(flags).args(["-json", &line.module]);
            let ended = client.shown(self.step).finish()?;
            match ended.failure {
                Some(error) if is_absent(&error.to_string()) => continue,
                Some(error) => return Err(error),
                None => {
                    let response = parse(&ended.text)?;
                    let versions = response["Versions"].as_array().into_iter().flatten();
                    return Ok(versions
                        .filter_map(|version| line.read(version.as_str()?))
                        .collect());
                }
            }
        }
        Ok(BTreeSet::new())
    }

    /// The day of a release; `None` if the version does not exist.
    pub fn released(&self, line: &Line, version: Version) -> Result<Option<Date>> {
        let client = self.go.client().args(["list", "-m", "-json", &line.argument(version)]);
        let ended = client.shown(self.step).finish()?;
        match ended.failure {
            Some(error) if is_absent(&error.to_string()) => Ok(None),
            Some(error) => Err(error),
            None => {
                let response = parse(&ended.text)?;
                let day = response["Time"].as_str().and_then(day);
                day.map(Some).ok_or_else(|| {
                    Error::build(format!(
                        "the Go module proxy gave no time for `{}`",
                        line.argument(version)
                    ))
                })
            }
        }
    }

    /// The known releases of a minor, and newer ones that exist.
    pub fn releases(
        &self,
        line: &Line,
        minor: Minor,
        known: impl IntoIterator<Item = Version>,
    ) -> Result<BTreeSet<Version>> {
        let mut releases: BTreeSet<Version> =
            known.into_iter().filter(|version| version.minor == minor).collect();
        let mut tried = releases.last().map_or(0, |newest| newest.patch + 1);
        let mut last = tried + AHEAD;
        while tried < last {
            let version = Version { minor, patch: tried };
            tried += 1;
            if self.released(line, version)?.is_some() {
                releases.insert(version);
                last = tried + AHEAD;
            }
        }
        Ok(releases)
    }

    /// The newest release of a minor that can be downloaded. `current`, which is in use, is not
    /// downloaded again.
    ///
    /// # Errors
    /// There is none, of kind [`crate::error::Kind::Lock`].
    pub fn newest(
        &self,
        line: &Line,
        minor: Minor,
        known: Option<Version>,
        current: Version,
    ) -> Result<Version> {
        let known = self.listed(line)?.into_iter().chain(known).chain([current]);
        for version in self.releases(line, minor, known)?.into_iter().rev() {
            if version == current || self.serves(line, version)? {
                return Ok(version);
            }
        }
        Err(Error::lock(format!("the Go module proxy serves no {minor} of `{}`", line.module)))
    }

    fn serves(&self, line: &Line, version: Version) -> Result<bool> {
        match self.go.download(&line.argument(version), self.step) {
            Ok(_) => Ok(true),
            Err(error) if is_absent(&error.to_string()) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Parses an error of `go` for the module and the version that the proxy does not serve.
pub fn absent(error: &Error) -> Option<(String, String)> {
    let text = error.to_string();
    if is_unverified(&text) {
        return None;
    }
    let line = text.lines().find(|line| is_absent(line) && line.contains("@v"))?;
    // A file of another module, which has a version too, may precede it.
    let words = line
        .split(": reading ")
        .next()?
        .split_whitespace()
        .rev()
        .map(|word| word.trim_end_matches(':'));
    let (module, version) = words
        .filter_map(|word| word.split_once('@'))
        .find(|(_, version)| version.starts_with('v'))?;
    Some((module.to_owned(), version.to_owned()))
}

/// Whether `go`'s output means that the proxy does not have a version or refuses it. The text after
/// the status code depends on the server.
fn is_absent(output: &str) -> bool {
    let refused = |line: &str| {
        line.contains(": reading ")
            && [": 403", ": 404", ": 410"].iter().any(|sign| line.contains(sign))
    };
    !is_unverified(output)
        && output.lines().any(|line| refused(line) || line.contains("unknown revision"))
}

/// Whether `go`'s output means that it has a version but could not verify it. The checksum database
/// may refuse it with the same statuses as a proxy, and quote the same reasons.
fn is_unverified(output: &str) -> bool {
    output.lines().any(|line| line.contains(": verifying "))
}

fn parse(response: &str) -> Result<serde_json::Value> {
    serde_json::from_str(response).or_build(|| "`go list` did not write JSON".into())
}

/// The day of a time in RFC 3339 format.
fn day(time: &str) -> Option<Date> {
    let mut parts = time.split('T').next()?.splitn(3, '-');
    let (year, month, day) =
        (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(Date { year, month, day })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_module_is_parsed_from_gos_error() {
        let parsed =
            |cause: &str| absent(&Error::build("`go list` failed: exit status: 1").cause(cause));
        let some = |module: &str, version: &str| Some((module.to_owned(), version.to_owned()));
        let kubernetes = "go: k8s.io/kubernetes@v1.37.3: reading \
             https://m/k8s.io/kubernetes/@v/v1.37.3.info: 403 Forbidden";
        assert_eq!(parsed(kubernetes), some("k8s.io/kubernetes", "v1.37.3"));
        let import = "../k8s.io/kubernetes@v1.35.8/main.go:3:8: example.org/d@v1.0.0: reading \
             http://m/example.org/d/@v/v1.0.0.zip: 410 Gone";
        assert_eq!(parsed(import), some("example.org/d", "v1.0.0"));
        let revision = "go: example.org/d@v1.0.0: invalid version: unknown revision v1.0.0";
        assert_eq!(parsed(revision), some("example.org/d", "v1.0.0"));
        assert_eq!(parsed("go: example.org/d@v1.0.0: dial tcp: no such host"), None);
        for (kind, status) in [
            ("module", "403 Forbidden"),
            ("go.mod", "404 Not Found\n\tserver response: not found: unknown revision v1.0.0"),
        ] {
            let unverified = format!(
                "example.org/d@v1.0.0: verifying {kind}: example.org/d@v1.0.0: reading \
                 https://sum/lookup/example.org/d@v1.0.0: {status}"
            );
            assert_eq!(parsed(&unverified), None);
            assert!(!is_absent(&unverified), "{unverified}");
        }
    }

    #[test]
    fn a_toolchain_release_is_a_version_of_its_module() {
        let version = "1.26.11".parse().unwrap();
        assert_eq!(
            Line::toolchain().argument(version),
            "golang.org/toolchain@v0.0.1-go1.26.11.linux-amd64"
        );
        assert_eq!(Line::toolchain().read("v0.0.1-go1.26.11.linux-amd64"), Some(version));
        for other in ["v0.0.1-go1.26.11.linux-arm64", "v0.0.1-go1.26rc1.linux-amd64", "v1.26.11"] {
            assert_eq!(Line::toolchain().read(other), None, "{other}");
        }
    }

    #[test]
    fn the_day_of_a_time_is_parsed() {
        assert_eq!(day("2026-10-27T12:01:04Z"), Some(Date { year: 2026, month: 10, day: 27 }));
        assert_eq!(day("yesterday"), None);
    }
}
