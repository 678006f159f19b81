//! What has been released: of Kubernetes for its table, of components and of the toolchain for
//! their next versions.

use super::proxy::{Line, Proxy};
use super::{Fetcher, crates};
use crate::error::{Error, Result};
use crate::plan::{Date, GoUpstream, KUBERNETES, Minor, Releases, Version};
use crate::report::Outcome;
use std::collections::{BTreeMap, BTreeSet};

/// How many minors behind the newest a new table begins.
const REACH: u32 = 5;

impl Fetcher<'_> {
    /// The table of Kubernetes' minors as of `today`. What is `known` stays, and so do days of end
    /// of life: the proxy does not have them. A minor whose life has ended is not asked for.
    pub fn releases(&self, known: Option<&Releases>, today: Date) -> Result<Releases> {
        let step = self.report.step("releases");
        let proxy = Proxy::open(self.store, &step)?;
        let line = Line::of(KUBERNETES);
        let listed = proxy.listed(&line)?;
        let mut table =
            known.cloned().unwrap_or(Releases { checked: today, minors: BTreeMap::new() });
        table.checked = today;
        for minor in minors(&table, &listed) {
            if let Some(released) = proxy.released(&line, Version { minor, patch: 0 })? {
                table.learn(Version { minor, patch: 0 }, released);
            }
        }
        while let Some((&newest, _)) = table.minors.last_key_value() {
            let first = Version { minor: Minor { minor: newest.minor + 1, ..newest }, patch: 0 };
            let Some(released) = proxy.released(&line, first)? else { break };
            table.learn(first, released);
        }
        for (minor, release) in table.minors.clone() {
            let known = listed.iter().copied().chain([release.newest]);
            let releases: BTreeSet<Version> = match release.end_of_life < today {
                true => known.filter(|version| version.minor == minor).collect(),
                false => proxy.releases(&line, minor, known)?,
            };
            // What is listed and refused was not released.
            for version in
                releases.into_iter().rev().take_while(|version| *version > release.newest)
            {
                if proxy.released(&line, version)?.is_some() {
                    table.learn(version, release.released);
                    break;
                }
            }
        }
        if table.minors.is_empty() {
            return Err(Error::lock(format!(
                "the Go module proxy has no release of `{KUBERNETES}`"
            )));
        }
        step.done(&format!("Kubernetes {}", table.newest()), None, Outcome::Ran);
        Ok(table)
    }

    /// The newest patch of `minor` that a component may move to: never a lower one than it has on
    /// the same minor. The list of the proxy may lack `known`.
    ///
    /// # Errors
    /// The proxy serves none.
    pub fn newest(
        &self,
        component: &GoUpstream,
        minor: Minor,
        known: Option<Version>,
    ) -> Result<Version> {
        let step = self.report.step(format!("versions {}", component.component));
        let proxy = Proxy::open(self.store, &step)?;
        let newest = proxy.newest(&Line::of(&component.module), minor, known, component.version)?;
        step.done(&newest.to_string(), None, Outcome::Ran);
        Ok(newest)
    }

    /// The newest patch of a Go toolchain.
    pub fn newest_go(&self, current: Version) -> Result<Version> {
        let step = self.report.step("versions toolchain");
        let newest = Proxy::open(self.store, &step)?.newest(
            &Line::toolchain(),
            current.minor,
            None,
            current,
        )?;
        step.done(&format!("go {newest}"), None, Outcome::Ran);
        Ok(newest)
    }

    /// Moves what `Cargo.lock` of the project pins to the newest that each `Cargo.toml` allows.
    pub fn update_crates(&self) -> Result<()> {
        let step = self.report.step("crates");
        crates::update(self.project, &step)?;
        step.done("Cargo.lock", None, Outcome::Ran);
        Ok(())
    }
}

/// Listed minors that a table lacks and should have.
fn minors(table: &Releases, listed: &BTreeSet<Version>) -> BTreeSet<Minor> {
    let newest = listed.last().map(|version| version.minor);
    let oldest = table.minors.keys().next().copied().or(newest.map(|newest| newest.behind(REACH)));
    let wanted = listed
        .iter()
        .map(|version| version.minor)
        .filter(|minor| oldest.is_some_and(|oldest| *minor >= oldest));
    wanted.filter(|minor| !table.minors.contains_key(minor)).collect()
}
