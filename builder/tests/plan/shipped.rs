//! Every recipe, board and component of this checkout.

use crate::{TODAY, shipped};
use osbuild::plan::{self, Architecture, Strictness};

#[test]
fn every_file_is_right() {
    let shown: Vec<String> = plan::check(&shipped(), TODAY).iter().map(ToString::to_string).collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}

#[test]
fn every_recipe_that_names_a_board_is_a_plan() {
    let project = shipped();
    let recipes = plan::buildable(&project);
    assert_eq!(recipes, ["aws-amd64", "aws-arm64", "qemu-amd64", "qemu-arm64"]);
    for recipe in recipes {
        let plan = plan::resolve(&project, &recipe, TODAY, Strictness::Lock).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(plan.architecture, Architecture::named(recipe.rsplit_once('-').unwrap().1).unwrap());
    }
}

#[test]
fn boards_of_one_architecture_share_a_kernel() {
    let project = shipped();
    for architecture in ["amd64", "arm64"] {
        let kernel = |board: &str| plan::resolve(&project, &format!("{board}-{architecture}"), TODAY, Strictness::Build).unwrap().kernel;
        assert_eq!(kernel("qemu").fragment(), kernel("aws").fragment());
    }
}
