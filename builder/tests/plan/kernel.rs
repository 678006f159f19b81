//! The options of the kernel.

use crate::{changed, refusal, resolve};
use osbuild::plan::{DebianRelease, Plan, Project};

#[test]
fn false_switches_an_inherited_option_off() {
    let plan = resolve(&changed(&[
        ("recipes/base.toml", "[uki]", "[kernel.options]\nPRINTK = true\n\n[uki]"),
        (
            "recipes/small.toml",
            "[kernel.options]",
            "[kernel.options]\nPRINTK = false\nARM64_4K_PAGES = false",
        ),
    ]));
    for name in ["PRINTK", "ARM64_4K_PAGES"] {
        assert_eq!(plan.kernel.options[name].value.to_string(), "n", "{name}");
    }
}

/// The small project with two groups, one of which has a fragment for the recipe's architecture,
/// and with these lines in the recipe.
fn with_groups(lines: &str) -> Project {
    let mut project = changed(&[
        (
            "components/linux/component.toml",
            "[sandbox]",
            "[kernel.groups]\nvolumes = true\ntracing = false\n\n[sandbox]",
        ),
        ("recipes/small.toml", "[kernel.options]", &format!("{lines}\n[kernel.options]")),
    ]);
    for (name, text) in [
        ("volumes", "CONFIG_BLK_DEV_DM=y\n"),
        ("volumes-arm64", "CONFIG_CRYPTO_AES_ARM64_CE_BLK=y\n"),
        ("volumes-amd64", "CONFIG_CRYPTO_AES_NI_INTEL=y\n"),
        ("tracing", "CONFIG_KPROBES=y\n"),
    ] {
        let path = format!("components/linux/fragments/{name}.config");
        project.files.insert(path, text.into());
    }
    project
}

/// Those of the groups' options that a node has.
fn options_of_groups(plan: &Plan) -> Vec<&str> {
    let names = plan.kernel.options.keys().map(String::as_str);
    names.filter(|name| ["BLK_DEV_DM", "KPROBES"].contains(name) || name.contains("AES")).collect()
}

#[test]
fn a_node_has_the_groups_that_are_on_and_their_options_for_its_architecture() {
    let plan = resolve(&with_groups(""));
    assert_eq!(options_of_groups(&plan), ["BLK_DEV_DM", "CRYPTO_AES_ARM64_CE_BLK"]);
}

#[test]
fn a_recipe_adds_groups_and_leaves_others_out() {
    let plan = resolve(&with_groups("[kernel.groups]\nvolumes = false\ntracing = true\n"));
    assert_eq!(options_of_groups(&plan), ["KPROBES"]);
    let printed = plan.print();
    for line in ["volumes = false ", "tracing = true "] {
        let at = printed.lines().find(|printed| printed.starts_with(line));
        assert!(at.is_some_and(|line| line.contains("recipes/small.toml")), "{printed}");
    }
}

#[test]
fn a_group_that_the_kernel_does_not_have_is_refused_with_a_hint() {
    let error = refusal(&with_groups("[kernel.groups]\nvolume = false\n")).to_string();
    assert!(error.contains("the kernel has no group `volume`"), "{error}");
    assert!(error.contains("did you mean `volumes`?"), "{error}");
}

#[test]
fn a_node_whose_kernel_has_types_needs_a_newer_pahole_and_no_other_input() {
    let with_option = |line: &str| {
        let options = "[kernel.options]";
        resolve(&changed(&[("recipes/small.toml", options, &format!("{options}\n{line}"))]))
            .requirements
    };
    let without = with_option("");
    assert_eq!(without.pahole, []);
    assert_eq!(with_option("DEBUG_INFO_BTF = false"), without);
    let mut with = with_option("DEBUG_INFO_BTF = true");
    let pahole = with.pahole.pop().unwrap();
    assert_eq!((pahole.release, &pahole.architecture[..]), (DebianRelease::Trixie, "amd64"));
    assert_eq!(with, without);
}
