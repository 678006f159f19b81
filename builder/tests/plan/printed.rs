//! The printed plan.

use crate::{TODAY, changed, expect, project, refusal, resolve, shipped};
use osbuild::plan::{self, Overrides, Project, Strictness};

#[test]
fn the_printed_plan_has_each_value_and_its_line() {
    expect("plan.toml", &resolve(&project()).print());
}

#[test]
fn the_printed_plan_is_toml() {
    let plan = resolve(&project());
    let table: toml::Table = plan.print().parse().unwrap();
    assert_eq!(table["kernel"]["options"].as_table().unwrap().len(), plan.kernel.options.len());
    assert_eq!(table["files"].as_table().unwrap().len(), plan.files.len());
    assert_eq!(table["binaries"].as_table().unwrap().len(), 7);
}

#[test]
fn the_kernel_fragment_has_the_merged_options() {
    let fragment = resolve(&project()).kernel.fragment();
    assert_eq!(
        fragment,
        "CONFIG_64BIT=n\nCONFIG_ARM64_4K_PAGES=y\nCONFIG_CMDLINE=\"quiet\"\n\
         CONFIG_EROFS_FS=y\nCONFIG_LOG_BUF_SHIFT=17\n"
    );
}

#[test]
fn time_servers_come_from_the_recipe_or_else_from_the_board() {
    let board = (
        "boards/bench.toml",
        "[kernel]",
        "time-servers = [\"169.254.169.123\", \"fd00:ec2::123\"]\n[kernel]",
    );
    let recipe =
        ("recipes/small.toml", "inherit", "time-servers = [\"time.example:124\"]\ninherit");
    assert_eq!(resolve(&project()).time_servers, [""; 0]);
    let plan = resolve(&changed(&[board]));
    assert_eq!(plan.time_servers, ["169.254.169.123", "fd00:ec2::123"]);
    assert!(plan.print().contains(
        "time-servers = [\"169.254.169.123\", \"fd00:ec2::123\"]  # boards/bench.toml:11"
    ));
    assert_eq!(resolve(&changed(&[board, recipe])).time_servers, ["time.example:124"]);
    let none = ("recipes/small.toml", "inherit", "time-servers = []\ninherit");
    assert_eq!(resolve(&changed(&[board, none])).time_servers, [""; 0], "an empty list is one");
}

#[test]
fn a_time_server_is_an_address_or_a_host_name() {
    for wrong in ["a,b", "a b", "http://a", "a:", ":123", "-a", "[fd00::1", "a:123456", ""] {
        let change = format!("time-servers = [\"{wrong}\"]\ninherit");
        let error = refusal(&changed(&[("recipes/small.toml", "inherit", &change)])).to_string();
        assert!(error.contains("an IP address or a host name"), "{wrong}: {error}");
    }
    for right in ["a", "10.0.0.1:123", "[fd00::1]:123", "[fd00::1]", "::1", "time.example"] {
        let change = format!("time-servers = [\"{right}\"]\ninherit");
        assert_eq!(
            resolve(&changed(&[("recipes/small.toml", "inherit", &change)])).time_servers,
            [right]
        );
    }
}

#[test]
fn values_of_the_command_line_override_recipes_and_have_their_own_origin() {
    let mut project = project();
    let words = ["version=1.35.8-9", "kernel.options.LOG_BUF_SHIFT=18", "security-epoch=7"];
    project.overrides = Overrides::parse(&words.map(str::to_owned)).unwrap();
    let printed = resolve(&project).print();
    for line in [
        "version = \"1.35.8-9\"  # --set",
        "security-epoch = 7  # --set",
        "LOG_BUF_SHIFT = 18  # --set",
        "name = \"bench\"  # recipes/small.toml:2",
    ] {
        assert!(printed.lines().any(|found| found == line), "{line}: {printed}");
    }

    let words = ["versio=1", "security-epoch=many"];
    project.overrides = Overrides::parse(&words.map(str::to_owned)).unwrap();
    let error = refusal(&project).to_string();
    for part in ["`versio`", "did you mean `version`?", "--set:1", "`security-epoch` must be"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// This checkout with values of the command line.
fn shipped_with(words: &[&str]) -> Project {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    Project { overrides: Overrides::parse(&words).unwrap(), ..shipped() }
}

#[test]
fn values_of_the_command_line_change_only_recipes_that_can_have_them() {
    let project = shipped_with(&["version=1.35.8-9", "toolchains.go=1.26.9"]);
    assert_eq!(plan::check(&project, TODAY).0, []);
    let lab = plan::resolve_programs(&project, "lab").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(lab.requirements.go_toolchain, "1.26.9");
    let node = plan::resolve(&project, "qemu-amd64", TODAY, Strictness::Build);
    assert_eq!(node.unwrap_or_else(|error| panic!("{error}")).version, "1.35.8-9");
}

#[test]
fn a_value_that_no_recipe_of_the_command_takes_is_found() {
    let untaken = |set: &str, recipes: &[&str]| {
        plan::untaken(&shipped_with(&[set]), recipes).map(str::to_owned)
    };
    assert_eq!(untaken("version=1", &["lab"]).unwrap(), "version");
    assert_eq!(untaken("version=1", &["lab", "qemu-amd64"]), None);
    assert_eq!(untaken("installs.settings=x", &["qemu-amd64"]).unwrap(), "installs.settings");
    assert_eq!(untaken("installs.settings=x", &["usb-installer-amd64"]), None);
    // Each recipe refuses it with its place.
    assert_eq!(untaken("toolchain.go=1.26.9", &["lab"]), None);
    let lab = plan::resolve_programs(&shipped_with(&["toolchain.go=1.26.9"]), "lab");
    assert!(lab.unwrap_err().to_string().contains("did you mean `toolchains`"));
}

#[test]
fn a_value_of_an_installer_is_not_one_of_the_recipe_that_it_carries() {
    let settings = "components/pods/installer/tests/every-key.toml";
    let project = shipped_with(&[&format!("installs.settings={settings}")]);
    let resolve = |recipe: &str| {
        let plan = plan::resolve(&project, recipe, TODAY, Strictness::Build);
        plan.unwrap_or_else(|error| panic!("{error}")).product.installs
    };
    assert_eq!(resolve("usb-installer-amd64").unwrap().settings, settings);
    assert_eq!(resolve("uefi-amd64"), None);
}
