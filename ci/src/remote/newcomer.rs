//! A machine with an empty store, in a copy of the checkout.

use crate::site::Site;
use osbuild::error::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The machine. Dropping it removes its store and its copy.
pub struct Newcomer<'a> {
    site: &'a Site<'a>,
    folder: TempDir,
}

/// A build of it.
pub struct Built {
    /// The time of the whole command.
    pub time: Duration,
    /// Where the result of each step was made, as `steps` of `osbuild build --json` has it.
    pub steps: BTreeMap<String, String>,
    /// The use of the cache, as `remote` of `osbuild build --json` has it.
    pub remote: Value,
}

impl<'a> Newcomer<'a> {
    /// A new machine.
    ///
    /// # Errors
    /// The checkout cannot be copied.
    pub fn new(site: &'a Site<'a>) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("osbuild-").tempdir_in("/var/tmp");
        let folder = folder.or_build(|| "cannot make a folder".to_owned())?;
        let newcomer = Newcomer { site, folder };
        site.copy_to(&newcomer.project())?;
        Ok(newcomer)
    }

    /// Its copy of the checkout.
    pub fn project(&self) -> PathBuf {
        self.folder.path().join("checkout")
    }

    /// The folder of its store.
    pub fn store(&self) -> PathBuf {
        self.folder.path().join("cache/osbuild")
    }

    /// Its `osbuild`. Only this host answers: every registry, also Debian's archive, is behind a
    /// proxy that is not there. Programs that read none of the usual variables are not stopped.
    ///
    /// # Errors
    /// There is no `osbuild`.
    pub fn osbuild(&self) -> Result<Command> {
        let mut osbuild = self.site.osbuild()?;
        osbuild.current_dir(self.project()).env("XDG_CACHE_HOME", self.folder.path().join("cache"));
        keep_on_this_host(&mut osbuild);
        Ok(osbuild)
    }

    /// Builds `recipe` with these flags.
    ///
    /// # Errors
    /// The build fails.
    pub fn build(&self, recipe: &str, flags: &[&str]) -> Result<Built> {
        let mut osbuild = self.osbuild()?;
        osbuild.args(["build", recipe, "--yes", "--json"]).args(flags);
        let started = Instant::now();
        let ran = self.site.finish(&format!("remote-{recipe}"), &mut osbuild)?;
        let time = started.elapsed();
        let json = ran.output.lines().find_map(|line| serde_json::from_str::<Value>(line).ok());
        let json = json.ok_or_else(|| ran.failure("`osbuild build --json` printed no JSON"))?;
        let steps = serde_json::from_value(json["steps"].clone());
        let steps = steps.or_build(|| "`osbuild build --json` names no steps".to_owned())?;
        Ok(Built { time, steps, remote: json["remote"].clone() })
    }
}

/// Leads each request for another host to a proxy that is not there. Most registries are asked by
/// HTTPS, and Debian's archive by plain HTTP.
fn keep_on_this_host(command: &mut Command) {
    const NOWHERE: &str = "http://127.0.0.1:9";
    for (name, value) in
        [("HTTP_PROXY", NOWHERE), ("HTTPS_PROXY", NOWHERE), ("NO_PROXY", "127.0.0.1")]
    {
        command.env(name, value).env(name.to_lowercase(), value);
    }
}

/// Whether a folder has no file and no folder; one that does not exist has none.
pub fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newcomer_reaches_no_registry_by_either_scheme() {
        let mut command = Command::new("true");
        keep_on_this_host(&mut command);
        let set: BTreeMap<_, _> = command.get_envs().collect();
        for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"] {
            let value = set.get(std::ffi::OsStr::new(name)).copied().flatten();
            assert_eq!(
                value.and_then(|value| value.to_str()),
                Some("http://127.0.0.1:9"),
                "{name}"
            );
        }
    }
}
