//! Finds releases: Kubernetes' for its table, and the next versions of components and the
//! toolchain.

use super::proxy::{Line, Proxy};
use super::{Fetcher, crates};
use crate::error::{Error, Result};
use crate::plan::{Date, GoUpstream, KUBERNETES, Minor, Releases, Version};
use crate::report::Outcome;
use std::collections::{BTreeMap, BTreeSet};

/// How many minors before the newest a new table begins.
const TABLE_MINORS: u32 = 5;

impl Fetcher<'_> {
    /// Updates the table of Kubernetes' minors to `today`. Entries of `known` stay, with their end
    /// of life, which the proxy does not have. A minor past its end of life is not looked up.
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
            // A version that is listed but refused was not released.
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

    /// The newest patch of `minor` for a component, at least its current patch if that is of the
    /// same minor. The list of the proxy may lack `known`.
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

    /// Updates the project's `Cargo.lock` to the newest crates that each `Cargo.toml` allows.
    pub fn update_crates(&self) -> Result<()> {
        let step = self.report.step("crates");
        crates::update(self.project, &step)?;
        step.done("Cargo.lock", None, Outcome::Ran);
        Ok(())
    }
}

/// Listed minors to add to a table.
fn minors(table: &Releases, listed: &BTreeSet<Version>) -> BTreeSet<Minor> {
    let newest = listed.last().map(|version| version.minor);
    let oldest =
        table.minors.keys().next().copied().or(newest.map(|newest| newest.behind(TABLE_MINORS)));
    let recent = listed
        .iter()
        .map(|version| version.minor)
        .filter(|minor| oldest.is_some_and(|oldest| *minor >= oldest));
    recent.filter(|minor| !table.minors.contains_key(minor)).collect()
}
