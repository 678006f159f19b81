//! Each way in which a recipe, a board or a component can be wrong, with the whole message.

use crate::{changed, expect, project, refusal, resolve};
use osbuild::error::Kind;
use osbuild::plan::{self, Content, Strictness};
use osbuild_abi::paths;

const SMALL: &str = "recipes/small.toml";
const BASE: &str = "recipes/base.toml";
const BENCH: &str = "boards/bench.toml";

/// The message after these changes is the expected one, and its exit code that of a wrong recipe.
#[track_caller]
fn refused(name: &str, changes: &[(&str, &str, &str)]) {
    let error = refusal(&changed(changes));
    assert_eq!(error.kind, Kind::Usage);
    expect(&format!("{name}.txt"), &format!("{error}\n"));
}

#[test]
fn unknown_key_suggests_the_nearest() {
    refused("unknown-key", &[(SMALL, "[kernel.options]", "[kernal.options]")]);
}

#[test]
fn a_wrong_type_says_what_was_expected_and_what_is_there() {
    refused(
        "wrong-type",
        &[
            (BENCH, "min-ram-mib = 256", "min-ram-mib = \"256\""),
            (BENCH, "= 512", "= 520"),
            (SMALL, "0o600", "600"),
        ],
    );
}

#[test]
fn an_unknown_component_suggests_the_nearest() {
    refused(
        "unknown-component",
        &[
            (BASE, "component = \"runc\"", "component = \"rnc\""),
            (SMALL, "inherit", "pause = \"dchp\"\ninherit"),
        ],
    );
}

#[test]
fn a_component_of_the_wrong_kind_says_what_it_lacks() {
    refused("wrong-kind-of-component", &[(BASE, "component = \"linux\"", "component = \"runc\"")]);
}

#[test]
fn an_esp_that_is_too_small_for_large_sectors_says_how_large_it_has_to_be() {
    refused("small-esp", &[(BENCH, "sector-size = 512", "sector-size = 4096")]);
}

#[test]
fn a_deadline_that_no_node_could_keep_is_refused() {
    refused("deadline", &[(BENCH, "gate-hold-s = 30", "gate-hold-s = 600")]);
}

#[test]
fn an_inheritance_cycle_shows_its_way() {
    refused(
        "inheritance-cycle",
        &[(BASE, "pause = \"pause\"", "pause = \"pause\"\ninherit = \"small\"")],
    );
}

#[test]
fn an_unknown_parent_and_an_unknown_board_suggest_the_nearest() {
    refused("unknown-parent", &[(SMALL, "\"base\"", "\"bas\"")]);
    refused("unknown-board", &[(SMALL, "\"bench\"", "\"bensch\"")]);
}

#[test]
fn an_eighth_binary_is_refused() {
    refused(
        "eighth-binary",
        &[(BASE, "[kernel]", "curl = { component = \"curl\", version = \"8.0.0\" }\n\n[kernel]")],
    );
}

#[test]
fn a_missing_binary_is_named() {
    refused(
        "missing-binary",
        &[(BASE, "runc = { component = \"runc\", version = \"1.4.3\" }\n", "")],
    );
}

#[test]
fn binaries_have_the_versions_and_components_that_they_need() {
    let changes = [
        (
            BASE,
            "init = { component = \"init\" }",
            "init = { component = \"init\", version = \"1.0.0\" }",
        ),
        (BASE, "component = \"runc\", version = \"1.4.3\"", "component = \"runc\""),
        (BASE, "umount = { component = \"mount\" }", "umount = { component = \"init\" }"),
    ];
    refused("binaries", &changes);
    refused(
        "two-versions",
        &[(
            BASE,
            "containerd = { component = \"containerd\", version = \"2.2.9\" }",
            "containerd = { component = \"containerd\", version = \"2.2.8\" }",
        )],
    );
}

#[test]
fn every_problem_of_every_file_comes_at_once() {
    let changes = [
        (SMALL, "inherit = \"base\"", "inherit = \"base\"\nbord = \"bench\""),
        (BASE, "stub = \"systemd-boot-efi\"", "stub = \"Systemd\""),
        (BENCH, "architecture = \"arm64\"", "architecture = \"arm\""),
        ("components/runc/component.toml", "module = ", "modul = "),
        ("components/linux/fragments/base.config", "CONFIG_64BIT=y", "CONFIG_64BIT=m"),
        ("recipes/hello.yaml", "kind: Pod", "kind: Job"),
    ];
    refused("all-at-once", &changes);
}

#[test]
fn broken_syntax_is_shown_where_it_is() {
    refused(
        "syntax",
        &[
            (SMALL, "EROFS_FS = true", "EROFS_FS = = true"),
            (SMALL, "api-servers = [", "api-servers = [\""),
        ],
    );
}

#[test]
fn a_file_that_cannot_be_on_the_node_is_refused() {
    let files = [
        "\"/bin/sh\" = { text = \"\", mode = 0o644 }",
        "\"/run/x\" = { text = \"\", mode = 0o644 }",
        "\"/etc/tool\" = { text = \"#!/bin/sh\", mode = 0o755 }",
        "\"/etc/hosts/more\" = { text = \"\", mode = 0o644 }",
        "\"/etc/../x\" = { text = \"\", mode = 0o644 }",
        "\"/etc/a\" = { source = \"recipes/helo.txt\", mode = 0o644 }",
        "\"/etc/b\" = { text = \"\", source = \"x\", mode = 0o644 }",
        "\"/etc/c\" = { mode = 0o644 }",
        "\"/etc/d\" = { text = \"\" }",
        "\"/etc/e\" = { text = \"\", mode = 0o4755 }",
        "\"/etc/f\" = false",
    ];
    refused("files", &[(SMALL, "[files]\n", &format!("[files]\n{}\n", files.join("\n")))]);
}

#[test]
fn a_pod_must_fit_its_manifest() {
    refused("pod-name", &[("recipes/hello.yaml", "  name: hello", "  name: hallo")]);
    refused("pod-without-digest", &[(SMALL, "digest = ", "# digest = ")]);
    let several = "  initContainers: [{name: first, image: localhost/first:1}]\n  containers:";
    refused("pod-with-two-images", &[("recipes/hello.yaml", "  containers:", several)]);
    refused(
        "pod-image-without-provider",
        &[("components/pods/dhcp/pod.yaml", "localhost/dhcp:1", "localhost/dhcpd:1")],
    );
    refused("pod-image-absent", &[(SMALL, "image = \"hello.tar\"", "image = \"helo.tar\"")]);
    refused("pod-manifest-absent", &[(SMALL, "hello.yaml", "goodbye.yaml")]);
}

#[test]
fn two_pods_may_not_call_different_images_by_one_name() {
    refused("pod-images-clash", &[("recipes/hello.yaml", "localhost/hello:1", "localhost/dhcp:1")]);
}

#[test]
fn the_archive_of_a_pod_may_be_too_big_to_be_read_for_a_plan() {
    let mut project = project();
    project.files.remove("recipes/hello.tar").unwrap();
    project.big.insert("recipes/hello.tar".into());
    assert!(resolve(&project).pods.iter().any(|pod| pod.name == "hello"));
    // A layout is a folder, and all that is in it may be big.
    project.big = ["recipes/hello.tar/index.json".to_owned()].into();
    assert!(resolve(&project).pods.iter().any(|pod| pod.name == "hello"));
    project.big = ["recipes/hallo.tar".to_owned()].into();
    let error = refusal(&project);
    assert_eq!(error.problems[0].hint.as_deref(), Some("did you mean `recipes/hallo.tar`?"));
}

#[test]
fn a_pod_may_have_several_images() {
    let digest = format!("digest = \"sha256:{}\"", "0".repeat(64));
    let images = format!(
        "[pods.hello.images]\n\"localhost/hello:1\" = {{ archive = \"hello.tar\", {digest} }}\n\"localhost/first:1\" = {{ archive = \"hello.tar\", {digest} }}"
    );
    let several = "  initContainers: [{name: first, image: localhost/first:1}]\n  containers:";
    let project = changed(&[
        (SMALL, &format!("image = \"hello.tar\"\n{digest}"), &images),
        ("recipes/hello.yaml", "  containers:", several),
    ]);
    let pod = resolve(&project).product.pods.pop().unwrap();
    assert_eq!(
        pod.images.iter().map(|image| image.name.as_str()).collect::<Vec<_>>(),
        ["localhost/first:1", "localhost/hello:1"]
    );
}

#[test]
fn the_kernel_is_asked_for_what_exists() {
    let changes = [
        (SMALL, "EROFS_FS = true", "EROFS_FS = \"m\"\nCONFIG-X = true\nCONFIG_Y = true"),
        (
            SMALL,
            "[kernel.options]",
            "[kernel]\ncommand-line = [\"console=ttyAMA0\", \"osbuild.epoch=1\"]\n\n[kernel.options]",
        ),
        ("components/linux/component.toml", "[\"base\"]", "[\"bse\"]"),
    ];
    refused("kernel", &changes);
}

#[test]
fn an_inherited_entry_is_taken_away_by_false() {
    let project = changed(&[
        (SMALL, "[pods.hello]", "[pods]\ndhcp = false\n\n[pods.hello]"),
        (SMALL, "[files]\n", "[files]\n\"/etc/hosts\" = false\n"),
    ]);
    let plan = resolve(&project);
    assert_eq!(plan.pods.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), ["hello"]);
    assert!(!plan.files.iter().any(|file| file.path == "/etc/hosts"));
    assert!(plan.files.iter().any(|file| file.path == "/etc/os-release"));
}

#[test]
fn a_component_runs_by_the_recipes_own_manifest_if_there_is_one() {
    let component = "dhcp = { component = \"dhcp\" }";
    let own = "dhcp = { component = \"dhcp\", manifest = \"own.yaml\" }";
    let mut project = changed(&[("recipes/base.toml", component, own)]);
    let shipped =
        String::from_utf8(project.files["components/pods/dhcp/pod.yaml"].clone()).unwrap();
    let manifest = format!("# Ours.\n{shipped}");
    project.files.insert("recipes/own.yaml".to_owned(), manifest.clone().into_bytes());
    let (before, after) = (resolve(&changed(&[])), resolve(&project));
    let dhcp = |plan: &osbuild::plan::Plan| {
        plan.pods.iter().find(|pod| pod.name == "dhcp").cloned().unwrap()
    };
    assert_eq!((dhcp(&before).manifest, dhcp(&after).manifest), (shipped, manifest));
    assert_eq!(dhcp(&before).images, dhcp(&after).images);
}

const UPDATES: &str =
    "[updates]\nurl = \"https://updates.example/nodes\"\nroot = \"keys/own/root.json\"\n\n[files]";

#[test]
fn updates_and_the_pod_that_gets_them_need_each_other() {
    refused("updates-without-pod", &[(SMALL, "[files]", UPDATES)]);
    refused(
        "updater-without-updates",
        &[(BASE, "[pods]", "[pods]\nupdater = { component = \"updater\" }")],
    );
}

#[test]
fn updates_come_from_a_url_by_a_channel_and_in_good_time() {
    let wrong = UPDATES
        .replace("https://", "ftp://")
        .replace("root =", "channel = \"stabel\"\ninterval-s = 1\nrot =");
    refused(
        "updates",
        &[
            (SMALL, "[files]", &wrong),
            (BASE, "[pods]", "[pods]\nupdater = { component = \"updater\" }"),
        ],
    );
}

#[test]
fn a_node_that_updates_itself_has_its_root_of_trust_and_its_settings() {
    assert!(resolve(&changed(&[])).files.iter().all(|file| !file.path.starts_with(paths::UPDATE)));
    let plan = resolve(&changed(&[
        (SMALL, "[files]", UPDATES),
        (SMALL, "inherit", "version = \"7-rc.1\"\ninherit"),
        (BASE, "[pods]", "[pods]\nupdater = { component = \"updater\" }"),
    ]));
    let content = |path: &str| {
        plan.files
            .iter()
            .find(|file| file.path == path && file.mode == 0o644)
            .map(|file| &file.content)
    };
    assert_eq!(content(paths::UPDATE_ROOT), Some(&Content::File("keys/own/root.json".to_owned())));
    let settings = "url https://updates.example/nodes\nchannel stable\nrecipe small\ninterval-s 3600\nsecurity-epoch 1\n";
    assert_eq!(content(paths::UPDATE_SETTINGS), Some(&Content::Text(settings.to_owned())));
    assert_eq!(
        (plan.version.as_str(), resolve(&crate::project()).version.as_str()),
        ("7-rc.1", "1.35.8")
    );
    let printed = plan.print();
    assert!(printed.contains("version = \"7-rc.1\"  # recipes/small.toml:1"), "{printed}");
    assert!(
        printed.contains("url = \"https://updates.example/nodes\"  # recipes/small.toml:1"),
        "{printed}"
    );
}

const INSTALLS: &str =
    "[installs]\nrecipe = \"base\"\nsettings = \"recipes/absent.toml\"\n\n[files]";

#[test]
fn a_stick_has_the_pod_that_installs_a_node_that_can_be_built_and_settings() {
    refused("installs", &[(SMALL, "[files]", INSTALLS)]);
}

#[test]
fn the_settings_of_a_stick_are_read_with_its_recipe() {
    let installs = INSTALLS.replace("recipes/absent.toml", "recipes/rack/installer.toml");
    let said = |settings: &[u8]| {
        let mut project = changed(&[(SMALL, "[files]", &installs)]);
        project.files.insert("recipes/rack/installer.toml".to_owned(), settings.to_owned());
        refusal(&project).to_string()
    };
    // The installer's own tests read this file, too.
    let every = said(include_bytes!("../../../components/pods/installer/tests/every-key.toml"));
    assert!(!every.contains("installer.toml"), "{every}");
    let slip = said(b"unattended = true\n\n[disk]\nbuss = \"nvme\"\nbus = \"nvmee\"\n");
    assert!(slip.contains("error: recipes/rack/installer.toml:4: unknown key `buss`"), "{slip}");
    assert!(slip.contains("error: recipes/rack/installer.toml:5: "), "{slip}");
}

#[test]
fn a_recipe_that_does_not_exist_suggests_the_nearest() {
    let error = plan::resolve(&crate::project(), "smal", crate::TODAY, Strictness::Build)
        .map(|_| ())
        .unwrap_err();
    expect("unknown-recipe.txt", &format!("{error}\n"));
}

#[test]
fn a_pod_that_waits_for_a_network_plugin_is_warned_of() {
    assert_eq!(resolve(&changed(&[])).warnings, [""; 0]);
    let waits = changed(&[("recipes/hello.yaml", "  hostNetwork: true\n", "")]);
    assert_eq!(
        resolve(&waits).warnings,
        [
            "pod `hello` has no `hostNetwork: true` in `recipes/hello.yaml`: it waits until a cluster gives the node a network plugin, \
             and READY waits with it"
        ]
    );
}

#[test]
fn check_finds_what_no_recipe_uses() {
    let mut project = crate::project();
    project.files.insert("boards/spare.toml".into(), b"architecture = \"amd64\"\n".to_vec());
    project.files.insert("components/spare/component.toml".into(), b"abut = \"a slip\"\n".to_vec());
    let problems = plan::check(&project, crate::TODAY);
    assert!(problems.iter().any(|problem| problem.message.contains("`abut`")), "{problems:#?}");
    assert!(
        problems.iter().any(|problem| problem.message.contains("`sector-size` is missing")),
        "{problems:#?}"
    );
}
