//! The steps of a build: which of them ran, and which results came from elsewhere.

use crate::engine::action::Origin;
use crate::engine::digest::Digest;
use crate::report::Outcome;
use std::collections::{BTreeMap, BTreeSet};

/// The steps of a build by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Those that ran.
    pub ran: BTreeSet<String>,
    /// Those whose results came from the store.
    pub stored: BTreeSet<String>,
    /// Those whose results came from a shared cache.
    pub fetched: BTreeSet<String>,
    /// Those that a service executed.
    pub executed: BTreeSet<String>,
    /// Where the result of each of them was made.
    pub made: BTreeMap<String, Made>,
}

/// Where the result of a step was made, by this build or by an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The digest of the action.
    pub action: Digest,
    /// Where the result came from; `None` if the step ran on this machine.
    pub origin: Option<Origin>,
    /// Whether the store had its files. A build needs none of a step whose result was enough.
    pub has_files: bool,
}

impl Made {
    /// Where the result was made, as [`Steps::places`] has it.
    pub fn place(&self) -> String {
        self.origin.as_ref().map_or_else(|| "here".to_owned(), Origin::to_string)
    }
}

impl Steps {
    /// Adds a step with its outcome.
    pub(super) fn add(&mut self, name: &str, made: Made, outcome: Outcome) {
        let steps = match outcome {
            Outcome::Ran => &mut self.ran,
            Outcome::Stored => &mut self.stored,
            Outcome::Fetched => &mut self.fetched,
            Outcome::Executed => &mut self.executed,
        };
        steps.insert(name.to_owned());
        self.made.insert(name.to_owned(), made);
    }

    /// The names of all steps.
    pub fn names(&self) -> BTreeSet<String> {
        &(&self.ran | &self.stored) | &(&self.fetched | &self.executed)
    }

    /// Where the result of each step was made: `here`, the address of a cache, or `executed by` and
    /// that of a service.
    pub fn places(&self) -> BTreeMap<&str, String> {
        self.made.iter().map(|(name, made)| (name.as_str(), made.place())).collect()
    }

    /// These steps and those of another recipe's build, with the name of that recipe in front.
    pub fn with(mut self, recipe: &str, other: Steps) -> Self {
        let named = |name: String| format!("{recipe}: {name}");
        self.ran.extend(other.ran.into_iter().map(named));
        self.stored.extend(other.stored.into_iter().map(named));
        self.fetched.extend(other.fetched.into_iter().map(named));
        self.executed.extend(other.executed.into_iter().map(named));
        self.made.extend(other.made.into_iter().map(|(name, made)| (named(name), made)));
        self
    }
}
