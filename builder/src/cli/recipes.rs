//! Flags of verbs that work on several recipes.

use super::recipe_name;
use clap::Args;

/// The recipes of a verb.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Recipes {
    /// The recipes
    #[arg(value_name = "RECIPE", value_parser = recipe_name)]
    pub names: Vec<String>,
    /// All recipes that have a lock
    #[arg(long)]
    pub all: bool,
}
