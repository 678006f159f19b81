//! Flags of verbs that work on several recipes.

use super::recipe_name;
use clap::Args;

/// The recipes of a verb.
#[derive(Clone, Debug, Args)]
pub struct Recipes {
    /// The recipes
    #[arg(value_name = "RECIPE", value_parser = recipe_name, required_unless_present = "all")]
    pub names: Vec<String>,
    /// All recipes that have a lock
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
}
