//! Each mistake in a recipe, a board or a component, with the whole message.

use crate::{changed, expect, project, refusal, resolve};
use osbuild::error::Kind;
use osbuild::plan::{self, Content, MAX_COMMAND_LINE, Strictness};
use osbuild_abi::paths;

const SMALL: &str = "recipes/small.toml";
const BASE: &str = "recipes/base.toml";
const BENCH: &str = "boards/bench.toml";

/// Checks the message after these changes, and that the exit code is that of a wrong recipe.
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
fn credentials_in_a_recipe_are_refused_with_the_reason() {
    let section = "[[registry-credentials]]";
    refused("credentials", &[(SMALL, "[kernel.options]", section)]);
}

#[test]
fn a_message_that_no_console_may_show_is_refused() {
    let entry = "[files]\n\"/etc/motd\" = { text = \"Rack 7\\u001b[2J\", mode = 0o644 }\n";
    refused("motd", &[(SMALL, "[files]\n", entry)]);
}

#[test]
fn a_wrong_type_is_reported_with_the_expected_one() {
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
fn a_component_of_the_wrong_kind_names_the_missing_section() {
    refused("wrong-kind-of-component", &[(BASE, "component = \"linux\"", "component = \"runc\"")]);
}

#[test]
fn a_too_small_esp_is_reported_with_the_minimum_size() {
    refused("small-esp", &[(BENCH, "sector-size = 512", "sector-size = 4096")]);
}

#[test]
fn a_deadline_that_no_node_can_meet_is_refused() {
    refused("deadline", &[(BENCH, "gate-hold-s = 30", "gate-hold-s = 600")]);
}

#[test]
fn an_inheritance_cycle_is_shown_as_a_chain() {
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
fn a_kubelet_of_this_workspace_is_refused() {
    let init = "programs = [\"init\"]";
    let changes = [
        ("components/init/component.toml", init, "programs = [\"init\", \"kubelet\"]"),
        (BASE, "component = \"kubelet\", version = \"1.35.8\"", "component = \"init\""),
    ];
    refused("kubelet-without-version", &changes);
    let (problems, _) = plan::check(&changed(&changes), crate::TODAY);
    assert_eq!(problems.len(), 1, "{problems:#?}");
}

#[test]
fn a_module_with_a_wrapper_cannot_have_empty_packages() {
    let both = "wrapper = true\nempty-packages = [\"pkg/cloud\"]";
    refused("empty-packages", &[("components/kubelet/component.toml", "wrapper = true", both)]);
}

#[test]
fn every_problem_of_every_file_is_reported_at_once() {
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
fn a_recipe_with_ten_mistakes_shows_ten() {
    let changes = [
        (
            SMALL,
            "inherit = \"base\"",
            "inherit = \"base\"\nversion = \"1.0 beta\"\nbord = \"bench\"",
        ),
        (SMALL, "EROFS_FS = true", "EROFS_FS = \"m\""),
        (SMALL, "LOG_BUF_SHIFT = 17", "LOG_BUF_SHIFT = 1.5"),
        (SMALL, "\"1.35\", \"1.36\"", "\"1.35.1\", \"1.36\""),
        (SMALL, "sha256:00", "sha256:0g"),
        (SMALL, "hello.txt\", mode = 0o600", "helo.txt\", mode = 600"),
        (SMALL, "debian = \"ca-certificates\"", "debian = \"CA\""),
        (SMALL, "[files]", "[files]\n\"/bin/sh\" = { text = \"\", mode = 0o644 }"),
    ];
    let error = refusal(&changed(&changes));
    assert_eq!(error.problems.len(), 10, "{error}");
    assert!(error.problems.iter().all(|problem| problem.place.is_some()), "{error}");
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
        "\"/opt\" = { symlink = \"/var/opt\" }",
        "\"/usr/share/osbuild/packages\" = { text = \"\", mode = 0o644 }",
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
fn an_image_needs_its_whole_name() {
    refused("pod-image-short", &[("recipes/hello.yaml", "localhost/hello:1", "nginx:1.29")]);
    let digest = format!("sha256:{}", "0".repeat(64));
    for (name, whole) in [
        ("grafana/agent:1", "docker.io/grafana/agent:1"),
        ("localhost/hello", "localhost/hello:latest"),
        (&format!("example.org/hello:1@{digest}"), &format!("example.org/hello@{digest}")),
    ] {
        let error = refusal(&changed(&[("recipes/hello.yaml", "localhost/hello:1", name)]));
        let hints: Vec<_> = error.problems.iter().map(|problem| problem.hint.clone()).collect();
        assert_eq!(hints, [Some(format!("write `{whole}` there"))]);
    }
    let pinned = format!("a.b/c@{digest}");
    for whole in ["docker.io/library/nginx:1.29", "localhost:5000/hello:1", &pinned] {
        resolve(&changed(&[("recipes/hello.yaml", "localhost/hello:1", whole)]));
    }
    let error = refusal(&changed(&[("recipes/hello.yaml", "localhost/hello:1", "a.b/c@sha256:0")]));
    assert_eq!(error.problems[0].causes, ["invalid reference format"]);
}

#[test]
fn a_pod_whose_component_has_no_image_is_refused() {
    let image =
        "[image]\nname = \"localhost/dhcp:1\"\npackage = \"pod-dhcp\"\nprogram = \"pod-dhcp\"\n";
    refused("pod-without-image", &[("components/pods/dhcp/component.toml", image, "")]);
}

#[test]
fn a_manifest_that_is_not_utf_8_is_not_called_absent() {
    let mut project = project();
    project.files.insert("components/pods/dhcp/pod.yaml".into(), vec![0xff]);
    let text = refusal(&project).to_string();
    assert!(text.contains("`components/pods/dhcp/pod.yaml` is not UTF-8"), "{text}");
    assert!(!text.contains("no manifest"), "{text}");
}

#[test]
fn a_pods_image_cannot_have_the_name_of_the_pause_image() {
    let image = "components/pods/dhcp/component.toml";
    let manifest = "components/pods/dhcp/pod.yaml";
    refused(
        "image-named-pause",
        &[
            (image, "localhost/dhcp:1", "localhost/pause:1"),
            (manifest, "localhost/dhcp:1", "localhost/pause:1"),
        ],
    );
}

#[test]
fn two_pods_cannot_use_one_name_for_different_images() {
    refused("pod-images-clash", &[("recipes/hello.yaml", "localhost/hello:1", "localhost/dhcp:1")]);
}

#[test]
fn the_archive_of_a_pod_can_be_too_big_to_read() {
    let mut project = project();
    project.files.remove("recipes/hello.tar").unwrap();
    project.big.insert("recipes/hello.tar".into());
    assert!(resolve(&project).pods.iter().any(|pod| pod.name == "hello"));
    // A layout is a folder, and each file in it can be too big.
    project.big = ["recipes/hello.tar/index.json".to_owned()].into();
    assert!(resolve(&project).pods.iter().any(|pod| pod.name == "hello"));
    project.big = ["recipes/hallo.tar".to_owned()].into();
    let error = refusal(&project);
    assert_eq!(error.problems[0].hint.as_deref(), Some("did you mean `recipes/hallo.tar`?"));
}

#[test]
fn a_pod_can_have_several_images() {
    let digest = format!("digest = \"sha256:{}\"", "0".repeat(64));
    let images = format!(
        "[pods.hello.images]\n\"localhost/hello:1\" = {{ archive = \"hello.tar\", {digest} }}\n\
         \"localhost/first:1\" = {{ archive = \"hello.tar\", {digest} }}"
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
fn a_wrong_kernel_section_is_refused() {
    let changes = [
        (SMALL, "EROFS_FS = true", "EROFS_FS = \"m\"\nCONFIG-X = true\nCONFIG_Y = true"),
        (
            SMALL,
            "[kernel.options]",
            "[kernel]\ncommand-line = [\"console=ttyAMA0\", \"osbuild.epoch=1\"]\n\n\
             [kernel.options]",
        ),
        ("components/linux/component.toml", "[\"base\"]", "[\"bse\"]"),
    ];
    refused("kernel", &changes);
}

/// The section with this word on the kernel's command line.
fn with_word(word: &str) -> String {
    format!("[kernel]\ncommand-line = [\"{word}\"]\n\n[kernel.options]")
}

#[test]
fn a_word_of_the_command_line_outside_printable_ascii_is_refused() {
    for word in ["caf\u{e9}", "quiet\u{a0}ro", "a\\u007f"] {
        let line = format!("command-line = [\"{word}\"]");
        let of_board = (BENCH, "command-line = [\"console=ttyAMA0\"]", line.as_str());
        for change in [(SMALL, "[kernel.options]", with_word(word).as_str()), of_board] {
            let error = refusal(&changed(&[change]));
            let expected = "must be a string of printable ASCII characters without white space";
            assert!(error.problems[0].message.contains(expected), "{error}");
        }
    }
}

#[test]
fn a_command_line_of_which_the_kernel_would_drop_the_end_is_refused() {
    let with =
        |length: usize| changed(&[(SMALL, "[kernel.options]", &with_word(&"x".repeat(length)))]);
    let room = MAX_COMMAND_LINE - resolve(&with(1)).command_line(u64::MAX).len();
    resolve(&with(1 + room));
    let error = refusal(&with(2 + room));
    let expected = "the kernel's command line can have 2048 bytes, and the kernel keeps 2047";
    assert_eq!(error.problems[0].message, expected);
    assert_eq!(error.problems[0].place.as_ref().unwrap().file, SMALL);
}

#[test]
fn a_mode_with_which_the_build_cannot_read_is_refused() {
    let files = [
        "\"/etc/shadow\" = { text = \"\", mode = 0o000 }",
        "\"/etc/closed\" = { directory = true, mode = 0o311 }",
        "\"/etc/open\" = { directory = true, mode = 0o500 }",
        "\"/etc/read\" = { text = \"\", mode = 0o400 }",
    ];
    let writable = "[writable]\n\"/srv\" = { memory-mib = 64, mode = 0o077 }";
    let files = format!("{writable}\n\n[files]\n{}\n", files.join("\n"));
    refused("unreadable", &[(SMALL, "[files]\n", &files)]);
}

#[test]
fn false_removes_an_inherited_entry() {
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
fn a_recipe_can_replace_the_manifest_of_a_component() {
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
fn updates_and_the_updater_pod_need_each_other() {
    refused("updates-without-pod", &[(SMALL, "[files]", UPDATES)]);
    refused(
        "updater-without-updates",
        &[(BASE, "[pods]", "[pods]\nupdater = { component = \"updater\" }")],
    );
}

#[test]
fn updates_need_a_valid_url_channel_and_interval() {
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
fn consoles_are_read_if_the_recipe_permits_it() {
    for (value, count) in [("true", 1), ("false", 0)] {
        let section = format!("[console]\naddress = {value}\n\n[files]");
        let plan = resolve(&changed(&[(SMALL, "[files]", &section)]));
        let files = plan.files.iter().filter(|file| file.path == paths::CONSOLE_ADDRESS);
        assert_eq!(files.count(), count);
        let printed = plan.print();
        assert_eq!(
            printed.contains("[console]\naddress = true  # recipes/small.toml:"),
            count == 1
        );
    }
}

/// The change that adds the pod that reads volumes.
const VOLUME_POD: (&str, &str, &str) =
    (BASE, "[pods]", "[pods]\nbootstrap = { component = \"bootstrap-volume\" }");

#[test]
fn volumes_and_the_pod_that_reads_them_need_each_other() {
    refused("volumes-without-pod", &[(SMALL, "[files]", "[volumes]\nunsigned = true\n\n[files]")]);
    refused("volume-pod-without-volumes", &[VOLUME_POD]);
}

#[test]
fn documents_on_volumes_are_either_signed_or_not() {
    let both = "[volumes]\nroot = \"keys/own/root.json\"\nunsigned = true\n\n[files]";
    refused("volumes-both", &[(SMALL, "[files]", both), VOLUME_POD]);
    let neither = "[volumes]\nunsigned = false\n\n[files]";
    refused("volumes-neither", &[(SMALL, "[files]", neither), VOLUME_POD]);
}

#[test]
fn a_node_with_volumes_has_their_root_of_trust_or_accepts_any_with_a_warning() {
    let signed = "[volumes]\nroot = \"keys/own/root.json\"\n\n[files]";
    let unsigned = "[volumes]\nunsigned = true\n\n[files]";
    for (section, path, content, printed, warnings) in [
        (
            signed,
            paths::VOLUMES_ROOT,
            Content::File("keys/own/root.json".to_owned()),
            "root = \"keys/own/root.json\"  # recipes/small.toml:",
            0,
        ),
        (
            unsigned,
            paths::VOLUMES_UNSIGNED,
            Content::Text(String::new()),
            "unsigned = true  # recipes/small.toml:",
            1,
        ),
    ] {
        let plan = resolve(&changed(&[(SMALL, "[files]", section), VOLUME_POD]));
        let own: Vec<(&str, &Content)> = plan
            .files
            .iter()
            .filter(|file| file.path.starts_with(paths::VOLUMES))
            .map(|file| (file.path.as_str(), &file.content))
            .collect();
        assert_eq!(own, [(path, &content)]);
        assert!(plan.print().contains(printed), "{}", plan.print());
        let warned = plan.warnings.iter().filter(|warning| warning.contains("no signature"));
        assert_eq!(warned.count(), warnings, "{:?}", plan.warnings);
    }
}

#[test]
fn a_node_with_updates_has_its_root_of_trust_and_settings() {
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
    let settings = "url https://updates.example/nodes\nchannel stable\nrecipe small\n\
                    interval-s 3600\nwaits-for-grant true\nsecurity-epoch 1\n";
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

const API: &str = "[api]\nclients = \"keys/own/api.crt\"\n\n[files]";
const OSD: (&str, &str, &str) = (BASE, "[pods]", "[pods]\nosd = { component = \"osd\" }");

#[test]
fn the_api_needs_the_pod_that_serves_it() {
    refused("api-without-pod", &[(SMALL, "[files]", API)]);
}

#[test]
fn a_node_has_the_ca_of_the_clients_of_its_api() {
    let files = |changes: &[_]| {
        let files = resolve(&changed(changes)).files.clone();
        let of_api = files.into_iter().filter(|file| file.path.starts_with(paths::API));
        of_api.map(|file| (file.path, file.content)).collect::<Vec<_>>()
    };
    assert_eq!(files(&[]), []);
    assert_eq!(files(&[OSD]), [(paths::API.to_owned(), Content::Directory)]);
    let clients = Content::File("keys/own/api.crt".to_owned());
    let open = [(SMALL, "[files]", API), OSD];
    assert_eq!(files(&open), [(paths::API_CLIENTS.to_owned(), clients)]);
    let printed = resolve(&changed(&open)).print();
    assert!(
        printed.contains("[api]\nclients = \"keys/own/api.crt\"  # recipes/small.toml:1"),
        "{printed}"
    );
}

#[test]
fn a_node_has_the_word_of_its_recipe_about_debug_containers() {
    let debug = |word: &str| API.replace("clients = \"keys/own/api.crt\"", word);
    for (word, text) in [("off", "off\n"), ("restricted", "restricted\n"), ("node", "node\n")] {
        let section = debug(&format!("debug = \"{word}\""));
        let plan = resolve(&changed(&[(SMALL, "[files]", &section), OSD]));
        let of_api = plan.files.iter().filter(|file| file.path.starts_with(paths::API));
        let of_api: Vec<_> = of_api.map(|file| (file.path.as_str(), &file.content)).collect();
        assert_eq!(of_api, [(paths::API_DEBUG, &Content::Text(text.to_owned()))]);
        let printed = plan.print();
        assert!(printed.contains(&format!("[api]\ndebug = \"{word}\"  # recipes/small.toml:1")));
    }
    let wrong = debug("debug = \"nod\"");
    let refused = refusal(&changed(&[(SMALL, "[files]", &wrong), OSD])).to_string();
    assert!(refused.contains("did you mean `\"node\"`?"), "{refused}");
}

#[test]
fn a_setting_names_the_cluster_only_if_the_recipe_allows_it() {
    let plan = |word: &str| {
        let line = format!("cluster-join = {word}");
        let section = API.replace("clients = \"keys/own/api.crt\"", &line);
        resolve(&changed(&[(SMALL, "[files]", &section), OSD]))
    };
    for (word, allows) in [("true", true), ("false", false)] {
        let plan = plan(word);
        let is_there = plan.files.iter().any(|file| file.path == paths::API_CLUSTER_JOIN);
        let line = "[api]\ncluster-join = true  # recipes/small.toml:1";
        assert_eq!((is_there, plan.print().contains(line)), (allows, allows), "{word}");
    }
}

#[test]
fn a_setting_configures_the_control_plane_only_if_there_is_its_pod() {
    let section = API.replace("clients = \"keys/own/api.crt\"", "control-plane = true");
    let refused = refusal(&changed(&[(SMALL, "[files]", &section), OSD])).to_string();
    assert!(refused.contains("no effect without the pod `control-plane`"), "{refused}");
}

#[test]
fn a_node_has_the_rights_of_static_pods_that_its_recipe_names() {
    let pods = |rights: &str| {
        let section = API.replace("clients = \"keys/own/api.crt\"", rights);
        changed(&[(SMALL, "[files]", &section), OSD])
    };
    let rights = "static-pods = [\"host-network\", \"host-path=/srv/films\"]";
    let plan = resolve(&pods(rights));
    let of_api = plan.files.iter().filter(|file| file.path.starts_with(paths::API));
    let of_api: Vec<_> = of_api.map(|file| (file.path.as_str(), &file.content)).collect();
    let text = Content::Text("host-network\nhost-path=/srv/films\n".to_owned());
    assert_eq!(of_api, [(paths::API_STATIC_PODS, &text)]);
    let printed = plan.print();
    assert!(printed.contains(&format!("[api]\n{rights}  # recipes/small.toml:1")), "{printed}");
    for (wrong, reason) in [
        ("[\"hostNetwork\"]", "`\"host-network\"`, `\"host-pid\"`"),
        ("[\"host-path=/srv/../etc\"]", "`\"host-path=/PATH\"`"),
        ("[\"capability=CAP_NET_ADMIN\"]", "without `CAP_`: `capability=NET_ADMIN`"),
        ("[\"capability=ALL\"]", "`privileged` has all of them"),
        ("[\"off\", \"privileged\"]", "`off` is alone"),
    ] {
        let refused = refusal(&pods(&format!("static-pods = {wrong}"))).to_string();
        assert!(refused.contains(reason), "{refused}");
    }
}

const INSTALLS: &str =
    "[installs]\nrecipe = \"base\"\nsettings = \"recipes/absent.toml\"\n\n[files]";

#[test]
fn an_installer_needs_its_pod_a_buildable_recipe_and_settings() {
    refused("installs", &[(SMALL, "[files]", INSTALLS)]);
}

#[test]
fn an_installer_reads_the_consoles_itself() {
    let both = format!("[console]\naddress = true\n\n{INSTALLS}");
    refused("console-with-installs", &[(SMALL, "[files]", &both)]);
}

#[test]
fn the_settings_of_an_installer_are_checked_with_its_recipe() {
    let installs = INSTALLS.replace("recipes/absent.toml", "recipes/rack/installer.toml");
    let message = |settings: &[u8]| {
        let mut project = changed(&[(SMALL, "[files]", &installs)]);
        project.files.insert("recipes/rack/installer.toml".to_owned(), settings.to_owned());
        refusal(&project).to_string()
    };
    // The installer's own tests read this file, too.
    let every = message(include_bytes!("../../../components/pods/installer/tests/every-key.toml"));
    assert!(!every.contains("installer.toml"), "{every}");
    let misspelt = message(b"unattended = true\n\n[disk]\nbuss = \"nvme\"\nbus = \"nvmee\"\n");
    assert!(
        misspelt.contains("error: recipes/rack/installer.toml:4: unknown key `buss`"),
        "{misspelt}"
    );
    assert!(misspelt.contains("error: recipes/rack/installer.toml:5: "), "{misspelt}");
}

#[test]
fn a_recipe_that_does_not_exist_suggests_the_nearest() {
    let error = plan::resolve(&crate::project(), "smal", crate::TODAY, Strictness::Build)
        .map(|_| ())
        .unwrap_err();
    expect("unknown-recipe.txt", &format!("{error}\n"));
}

#[test]
fn a_pod_that_waits_for_a_network_plugin_is_a_warning() {
    assert_eq!(resolve(&changed(&[])).warnings, [""; 0]);
    let waits = changed(&[("recipes/hello.yaml", "  hostNetwork: true\n", "")]);
    assert_eq!(
        resolve(&waits).warnings,
        ["pod `hello` has no `hostNetwork: true` in `recipes/hello.yaml`: it waits until a \
             cluster gives the node a network plugin, and READY waits with it"]
    );
}

#[test]
fn check_covers_files_that_no_recipe_names() {
    let mut project = crate::project();
    project.files.insert("boards/spare.toml".into(), b"architecture = \"amd64\"\n".to_vec());
    project
        .files
        .insert("components/spare/component.toml".into(), b"abut = \"a misspelling\"\n".to_vec());
    let (problems, _) = plan::check(&project, crate::TODAY);
    assert!(problems.iter().any(|problem| problem.message.contains("`abut`")), "{problems:#?}");
    assert!(
        problems.iter().any(|problem| problem.message.contains("`sector-size` is missing")),
        "{problems:#?}"
    );
}
