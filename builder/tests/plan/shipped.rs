//! Every recipe, board and component of this checkout.

use crate::{TODAY, shipped};
use osbuild::plan::{self, Architecture, Content, Strictness};
use osbuild_abi::{paths, writable};

#[test]
fn every_file_is_right() {
    let shown: Vec<String> = plan::check(&shipped(), TODAY).iter().map(ToString::to_string).collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}

#[test]
fn every_recipe_that_names_a_board_is_a_plan() {
    let project = shipped();
    let recipes = plan::buildable(&project);
    assert_eq!(recipes, ["aws-amd64", "aws-arm64", "probe", "qemu-amd64", "qemu-arm64"]);
    for recipe in recipes {
        let plan = plan::resolve(&project, &recipe, TODAY, Strictness::Lock).unwrap_or_else(|error| panic!("{error}"));
        let named = recipe.rsplit_once('-').map(|(_, architecture)| Architecture::named(architecture).unwrap());
        assert!(named.is_none_or(|named| named == plan.architecture), "{recipe}");
    }
}

#[test]
fn boards_of_one_architecture_share_a_kernel() {
    let project = shipped();
    for architecture in ["amd64", "arm64"] {
        let kernel = |board: &str| {
            plan::resolve(&project, &format!("{board}-{architecture}"), TODAY, Strictness::Build).unwrap().resolved.kernel
        };
        assert_eq!(kernel("qemu").fragment(), kernel("aws").fragment());
    }
}

#[test]
fn everything_that_init_reads_or_mounts_on_is_in_the_root() {
    let plan = plan::resolve(&shipped(), "qemu-amd64", TODAY, Strictness::Build).unwrap();
    let content = |path: &str| plan.files.iter().find(|file| file.path == path).map(|file| &file.content);
    for path in [paths::KUBELET_CONFIG, paths::CONTAINERD_CONFIG, paths::SYSCTL] {
        assert!(matches!(content(path), Some(Content::File(_))), "{path}");
    }
    for path in writable::WRITABLE.iter().map(|one| one.path).chain([paths::DATA, "/proc", "/sys", "/dev"]) {
        assert!(content(path).is_some(), "{path}");
    }
    assert_eq!(content("/etc/resolv.conf"), Some(&Content::Symlink(paths::RESOLV_CONF.to_owned())));
}
