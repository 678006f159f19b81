//! The steps of a build: which of them ran, and which results came from the store.

use crate::report::Outcome;
use std::collections::BTreeSet;

/// The steps of a build by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Those that ran.
    pub ran: BTreeSet<String>,
    /// Those whose results came from the store.
    pub stored: BTreeSet<String>,
}

impl Steps {
    /// Adds a step with its outcome.
    pub(super) fn add(&mut self, name: &str, outcome: Outcome) {
        let steps = if outcome == Outcome::Stored { &mut self.stored } else { &mut self.ran };
        steps.insert(name.to_owned());
    }

    /// The names of all steps.
    pub fn names(&self) -> BTreeSet<String> {
        &self.ran | &self.stored
    }

    /// These steps and those of another recipe's build, with the name of that recipe in front.
    pub fn with(mut self, recipe: &str, other: Steps) -> Self {
        let named = |names: BTreeSet<String>| {
            names.into_iter().map(|name| format!("{recipe}: {name}")).collect::<Vec<_>>()
        };
        self.ran.extend(named(other.ran));
        self.stored.extend(named(other.stored));
        self
    }
}
