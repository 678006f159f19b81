//! Fetches Debian packages with `apt-get`, from the host's mirrors and with its keyrings. Separate
//! lists, a separate cache and settings of our own make the choice of packages independent of the
//! host's installed packages and of its preferences.

use super::client::{Client, Ended};
use super::mirrors;
use crate::engine::store::{Lock, Store};
use crate::error::{Context, Error, Kind, Problem, Result};
use crate::plan::{Architecture, DebianPackage, DebianRelease};
use crate::report::Step;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The name of our list of sources. apt detects the format from its extension.
const LIST: &str = "mirrors.sources";

/// The packages of one release of Debian for one architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// The release.
    pub release: DebianRelease,
    /// The architecture.
    pub architecture: Architecture,
}

/// Debian's archive, seen for one architecture and one release.
pub struct Archive {
    folder: PathBuf,
    part: Part,
    _lock: Lock,
}

impl Part {
    /// The part that a package belongs to. A package for all architectures counts as one for the
    /// build machine's.
    pub fn of(architecture: &str, release: DebianRelease) -> Self {
        let architecture = Architecture::named(architecture).unwrap_or(Architecture::Amd64);
        Part { release, architecture }
    }

    /// The name of the folder with its lists.
    fn name(self) -> String {
        let architecture = self.architecture.debian();
        match self.release {
            DebianRelease::Bookworm => architecture.to_owned(),
            release => format!("{architecture}-{}", release.name()),
        }
    }
}

impl Archive {
    /// Opens the archive with the lists in the store, which may be those of an earlier call. Other
    /// builds wait here until it is dropped: apt fails if another process reads or writes the same
    /// lists.
    pub fn open(store: &Store, part: Part, step: &Step) -> Result<Self> {
        let name = part.name();
        let lock = store.lock(&format!("apt-{name}"), || {
            step.doing("waiting for another build that uses the archive");
            Ok(())
        })?;
        Ok(Archive { folder: store.state("apt")?.join(name), part, _lock: lock })
    }

    /// Fetches the archive's current lists.
    pub fn update(&self, step: &Step) -> Result<()> {
        for part in ["lists/partial", "cache/archives/partial"] {
            std::fs::create_dir_all(self.folder.join(part))
                .or_build(|| "cannot make a folder for apt's lists".into())?;
        }
        std::fs::write(self.folder.join("status"), "")
            .or_build(|| "cannot write apt's empty status".into())?;
        std::fs::write(self.folder.join(LIST), mirrors::of_host(self.part.release)?)
            .or_build(|| "cannot write apt's list of sources".into())?;
        self.apt("apt-get").args(["--error-on=any", "update"]).shown(step).run().map(drop)
    }

    /// Returns the newest version of each of `names` (`NAME`, `NAME=VERSION` or `NAME/SUITE`),
    /// without dependencies.
    ///
    /// # Errors
    /// The archive does not know a name.
    pub fn newest(&self, names: &[String]) -> Result<Vec<DebianPackage>> {
        in_order(
            names,
            self.show(["--no-all-versions"].into_iter().chain(names.iter().map(String::as_str)))?,
        )
    }

    /// Returns `names` and all of their dependencies, as for an empty system. Prefers the versions
    /// of `preferred` if the archive still has them and they are compatible, or else the newest.
    /// `folder` is an empty scratch folder.
    pub fn closure<'p>(
        &self,
        names: &[String],
        preferred: impl Iterator<Item = &'p DebianPackage>,
        folder: &Path,
    ) -> Result<Vec<DebianPackage>> {
        let preferences = folder.join("preferences");
        let pin = |package: &DebianPackage| {
            format!(
                "Package: {}\nPin: version {}\nPin-Priority: 1001\n\n",
                package.package, package.version
            )
        };
        std::fs::write(&preferences, preferred.map(pin).collect::<String>())
            .or_build(|| "cannot write apt's preferences".into())?;
        let install = |client: Client| {
            client
                .args(["install", "--no-install-recommends", "--print-uris", "-qq", "-y"])
                .args(names)
                .run()
        };
        let preferring = || {
            self.apt("apt-get")
                .args(["-o", &format!("Dir::Etc::preferences={}", preferences.display())])
        };
        // Old versions of some packages may conflict with new ones of others: then use the newest
        // of all.
        let uris = install(preferring()).or_else(|_| install(self.apt("apt-get")))?;
        let required = uris.lines().filter_map(name_and_version).collect::<Vec<_>>();
        let mut packages = self.show(required.iter().map(String::as_str))?;
        packages.sort_by(|a, b| a.package.cmp(&b.package));
        packages.dedup();
        Ok(packages)
    }

    /// Downloads exact versions into `folder` and returns the files.
    ///
    /// # Errors
    /// The archive no longer has one. The error names the newest version and the command to update.
    pub fn download(
        &self,
        packages: &[&DebianPackage],
        folder: &Path,
        step: &Step,
    ) -> Result<Vec<PathBuf>> {
        self.still_there(packages)?;
        let required =
            packages.iter().map(|package| format!("{}={}", package.package, package.version));
        self.apt("apt-get").args(["download"]).args(required).within(folder).shown(step).run()?;
        let cannot = || "cannot read the download folder".to_owned();
        let entries = std::fs::read_dir(folder).or_build(cannot)?;
        entries.map(|entry| Ok(entry.or_build(cannot)?.path())).collect()
    }

    /// Refuses versions that the archive no longer has.
    fn still_there(&self, packages: &[&DebianPackage]) -> Result<()> {
        let versions = self.show(packages.iter().map(|package| package.package.as_str()))?;
        let is = |there: &DebianPackage, package: &DebianPackage| {
            there.package == package.package && there.version == package.version
        };
        let gone =
            packages.iter().filter(|package| !versions.iter().any(|there| is(there, package)));
        let problems = gone.map(|package| {
            let newest = versions.iter().find(|there| there.package == package.package);
            let problem = Problem::new(format!(
                "the archive no longer has `{}` {}",
                package.package, package.version
            ));
            let problem = newest.into_iter().fold(problem, |problem, newest| {
                problem.cause(format!("its newest version is {}", newest.version))
            });
            problem.hint(format!("cargo osbuild update {}", package.package))
        });
        let problems = problems.collect::<Vec<_>>();
        if problems.is_empty() { Ok(()) } else { Err(Error::many(Kind::Lock, problems)) }
    }

    /// The archive's versions of packages, the newest first, without unknown packages.
    fn show<'n>(&self, names: impl Iterator<Item = &'n str>) -> Result<Vec<DebianPackage>> {
        let Ended { text, failure } = self.apt("apt-cache").args(["show"]).args(names).finish()?;
        match failure {
            Some(error) if !error.to_string().contains("No packages found") => Err(error),
            _ => Ok(records(&text, self.part.release)),
        }
    }

    fn apt(&self, program: &str) -> Client<'static> {
        let at = |name: &str| self.folder.join(name).display().to_string();
        let architecture = self.part.architecture.debian();
        let settings = [
            format!("Dir::Etc::sourcelist={}", at(LIST)),
            "Dir::Etc::sourceparts=/dev/null".into(),
            "Dir::Etc::preferences=/dev/null".into(),
            "Dir::Etc::preferencesparts=/dev/null".into(),
            format!("Dir::State::lists={}", at("lists")),
            format!("Dir::State::status={}", at("status")),
            format!("Dir::Cache={}", at("cache")),
            format!("APT::Architecture={architecture}"),
            format!("APT::Architectures={architecture}"),
            // An empty value is none. The host's would prefer one suite to its security updates, or
            // name a release that our list lacks, which apt refuses.
            "APT::Default-Release=".into(),
            "APT::Install-Suggests=false".into(),
            "APT::Sandbox::User=root".into(),
            "Acquire::Languages=none".into(),
        ];
        Client::new(program)
            .env("LC_ALL", "C")
            .args(settings.iter().flat_map(|setting| ["-o", setting]))
    }
}

/// Reads `name=version` out of a line of `--print-uris`: `'URI' NAME_VERSION_ARCH.deb SIZE HASH`.
fn name_and_version(line: &str) -> Option<String> {
    let mut parts = line.split(' ').nth(1)?.split('_');
    Some(format!("{}={}", parts.next()?, parts.next()?.replace("%3a", ":")))
}

/// Parses the records of `apt-cache show` that have every field that a lock needs.
fn records(text: &str, release: DebianRelease) -> Vec<DebianPackage> {
    text.split("\n\n")
        .filter_map(|record| {
            let fields: BTreeMap<&str, &str> =
                record.lines().filter_map(|line| line.split_once(": ")).collect();
            Some(DebianPackage {
                package: fields.get("Package")?.to_string(),
                version: fields.get("Version")?.to_string(),
                architecture: fields.get("Architecture")?.to_string(),
                sha256: fields.get("SHA256")?.to_string(),
                size: fields.get("Size")?.parse().ok()?,
                release,
            })
        })
        .collect()
}

fn in_order(names: &[String], records: Vec<DebianPackage>) -> Result<Vec<DebianPackage>> {
    names
        .iter()
        .map(|name| {
            let bare = name.split(['=', '/']).next().unwrap_or(name);
            let found = records.iter().find(|record| record.package == bare);
            found.cloned().ok_or_else(|| {
                Error::usage(format!("the archive has no package `{name}`"))
                    .hint("search it with `apt-cache search`")
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_in_a_version_is_decoded() {
        let line = "'http://m/x.deb' gcc_4%3a12.2.0-3_amd64.deb 5216 MD5Sum:00";
        assert_eq!(name_and_version(line).as_deref(), Some("gcc=4:12.2.0-3"));
    }

    #[test]
    fn a_record_without_a_digest_is_skipped() {
        let text = "Package: a\nVersion: 1\nArchitecture: all\nSize: 5\nSHA256: 00\n\nPackage: b\n\
             Version: 1\nArchitecture: all\nSize: 5\n";
        let names = records(text, DebianRelease::default())
            .into_iter()
            .map(|package| package.package)
            .collect::<Vec<_>>();
        assert_eq!(names, ["a"]);
    }
}
