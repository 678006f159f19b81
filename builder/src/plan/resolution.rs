//! What the recipe of a node and the recipe of programs have in common: both are locked, fetched
//! and printed in the same way.

use super::{Architecture, HostPrograms, Origin, Resolved, Wanted};

/// What a recipe resolves to, whatever it makes.
pub trait Resolution {
    /// The recipe's name.
    fn recipe(&self) -> &str;
    /// The architecture of what is made.
    fn architecture(&self) -> Architecture;
    /// Everything that the lock has to pin.
    fn wanted(&self) -> &Wanted;
    /// What the user should know of.
    fn warnings(&self) -> &[String];
    /// Where each value was written, by its name in [`Resolution::text`].
    fn all_origins(&self) -> Vec<(String, &Origin)>;
    /// All of it as TOML, as `osbuild plan` shows it. Equal values give equal text.
    fn text(&self) -> String;
}

impl Resolution for Resolved {
    fn recipe(&self) -> &str {
        &self.recipe
    }

    fn architecture(&self) -> Architecture {
        self.architecture
    }

    fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn all_origins(&self) -> Vec<(String, &Origin)> {
        let options = self
            .kernel
            .options
            .iter()
            .map(|(name, option)| (format!("kernel.options.{name}"), &option.origin));
        self.origins.iter().map(|(name, origin)| (name.clone(), origin)).chain(options).collect()
    }

    fn text(&self) -> String {
        self.print()
    }
}

impl Resolution for HostPrograms {
    fn recipe(&self) -> &str {
        &self.recipe
    }

    fn architecture(&self) -> Architecture {
        self.architecture
    }

    fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    fn warnings(&self) -> &[String] {
        &[]
    }

    fn all_origins(&self) -> Vec<(String, &Origin)> {
        self.origins.iter().map(|(name, origin)| (name.clone(), origin)).collect()
    }

    fn text(&self) -> String {
        self.print()
    }
}
