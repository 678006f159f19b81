//! Whole builds: products, output, and reproducibility.

use crate::scratch::{RECIPE, Ran, Scratch};
use crate::workshop::{open, open_with, products};
use osbuild::engine::digest::Digest;
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[track_caller]
pub fn done(ran: &Ran) {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn stdout_of_a_build_is_only_the_path_of_the_image() {
    let scratch = open();
    let ran = scratch.osbuild(&["build", RECIPE]);
    done(&ran);
    let image = scratch.project().join("out").join(RECIPE).join("image.raw");
    assert_eq!(ran.stdout, format!("{}\n", image.display()));
    assert!(image.is_file());
    for step in ["kernel arm64", "layer base", "initramfs", "uki", "image"] {
        assert!(
            ran.stderr.lines().any(|line| line.starts_with(&format!("{step} "))),
            "{step}: {}",
            ran.stderr
        );
    }
    let again = scratch.osbuild(&["build", RECIPE, "--json"]);
    done(&again);
    let json: serde_json::Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(
        (json["image"].as_str(), json["was-current"].as_bool()),
        (image.to_str(), Some(true))
    );
}

#[test]
fn a_new_version_changes_the_image() {
    let scratch = open();
    done(&scratch.osbuild(&["build", RECIPE]));
    scratch.edit("recipes/small.toml", "inherit", "version = \"1.35.8-2\"\ninherit");
    let ran = scratch.osbuild(&["build", RECIPE, "--json"]);
    done(&ran);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["was-current"].as_bool(), Some(false), "{}", ran.stderr);
    let uki = fs::read(json["uki"].as_str().unwrap()).unwrap();
    let parts = osbuild_formats::uki::read(&uki).unwrap();
    assert_eq!(
        parts.os_release,
        "ID=osbuild\nPRETTY_NAME=\"osbuild small\"\nVERSION_ID=1.35.8-2\n"
    );
    // The header of the first slot, whose version the node shows on its console.
    let image = fs::read(json["image"].as_str().unwrap()).unwrap();
    let header = memchr::memmem::find(&image, b"OSBSLOT\0").unwrap();
    assert!(memchr::memmem::find(&image[header..header + 4096], b"1.35.8-2").is_some());
}

/// Adds a recipe `second`, which differs from the small one in its version alone.
pub fn with_second(scratch: &Scratch) {
    let recipes = scratch.project().join("recipes");
    let second = format!("version = \"1.35.8-2\"\ninherit = \"{RECIPE}\"\n");
    fs::write(recipes.join("second.toml"), second).unwrap();
    let lock =
        scratch.read("recipes/small.lock").replace("recipe = \"small\"", "recipe = \"second\"");
    fs::write(recipes.join("second.lock"), lock).unwrap();
}

#[test]
fn recipes_that_are_built_together_share_their_steps() {
    let scratch = open();
    with_second(&scratch);
    let image = |recipe| scratch.project().join("out").join(recipe).join("image.raw");
    let expected = format!("{}\n{}\n", image("second").display(), image(RECIPE).display());

    let ran = scratch.osbuild(&["build", "second", RECIPE, "second"]);
    done(&ran);
    assert_eq!(ran.stdout, expected);
    let lines = |step: &str| ran.stderr.lines().filter(|line| line.starts_with(step)).count();
    let both = (lines("kernel arm64 "), lines("runc arm64 "), lines("image "));
    assert_eq!(both, (1, 1, 2), "{}", ran.stderr);

    let alone = products(&scratch);
    fs::remove_dir_all(scratch.project().join("out")).unwrap();
    done(&scratch.osbuild(&["build", RECIPE]));
    assert_eq!(products(&scratch), alone);

    let all = scratch.osbuild(&["build", "--all", "--json"]);
    done(&all);
    let json = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let built: Vec<_> = all.stdout.lines().map(json).collect();
    let of = |index: usize, key: &str| built[index][key].clone();
    assert_eq!((of(0, "recipe"), of(0, "was-current")), ("second".into(), false.into()));
    assert_eq!((of(1, "recipe"), of(1, "was-current")), ("small".into(), true.into()));
}

#[test]
fn mistakes_in_all_recipes_of_a_build_are_one_error() {
    let scratch = open();
    with_second(&scratch);
    for (recipe, wrong) in [("second", "versio = 1"), ("third", "inherit = \"nobody\"")] {
        fs::write(scratch.project().join(format!("recipes/{recipe}.toml")), wrong).unwrap();
    }
    for verb in ["build", "check"] {
        let ran = scratch.osbuild(&[verb, RECIPE, "second", "third"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
        for problem in ["`versio`", "`nobody`"] {
            assert!(ran.stderr.contains(problem), "{verb}: {problem}: {}", ran.stderr);
        }
    }
    for (words, problem) in [
        (&["build"][..], "required arguments were not provided"),
        (&["build", "--all", RECIPE], "cannot be used with"),
        (&["build", RECIPE, "second", "--rebuild"], "`--rebuild` is for one recipe"),
    ] {
        let ran = scratch.osbuild(words);
        assert!(ran.code == Some(2) && ran.stderr.contains(problem), "{}", ran.stderr);
    }
}

/// Adds a recipe `stick`, which installs the small one.
fn with_stick(scratch: &Scratch) {
    let project = scratch.project();
    let (dhcp, installer) =
        (project.join("components/pods/dhcp"), project.join("components/pods/installer"));
    fs::create_dir(&installer).unwrap();
    for (name, before, after) in [
        ("component.toml", "localhost/dhcp:1", "localhost/installer:1"),
        ("pod.yaml", "dhcp", "installer"),
    ] {
        fs::write(
            installer.join(name),
            fs::read_to_string(dhcp.join(name)).unwrap().replace(before, after),
        )
        .unwrap();
    }
    let pod = "[pods]\ninstaller = { component = \"installer\" }\n";
    let installs =
        format!("[installs]\nrecipe = \"{RECIPE}\"\nsettings = \"recipes/stick/installer.toml\"\n");
    fs::write(
        project.join("recipes/stick.toml"),
        format!("inherit = \"{RECIPE}\"\n\n{pod}\n{installs}"),
    )
    .unwrap();
    fs::create_dir(project.join("recipes/stick")).unwrap();
    fs::write(project.join("recipes/stick/installer.toml"), "countdown-s = 3\n").unwrap();
    let lock =
        scratch.read("recipes/small.lock").replace("recipe = \"small\"", "recipe = \"stick\"");
    fs::write(project.join("recipes/stick.lock"), lock).unwrap();
}

#[test]
fn installer_settings_change_its_image_and_rebuild_covers_its_node() {
    let scratch = open();
    with_stick(&scratch);
    let build = || {
        let ran = scratch.osbuild(&["build", "stick", "--json"]);
        done(&ran);
        let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        (json["was-current"].as_bool().unwrap(), fs::read(json["image"].as_str().unwrap()).unwrap())
    };
    assert!(!build().0 && build().0);
    fs::write(scratch.project().join("recipes/stick/installer.toml"), "countdown-s = 4\n").unwrap();
    let (was_current, image) = build();
    assert!(!was_current && memchr::memmem::find(&image, b"countdown-s = 4").is_some());
    let image = scratch.project().join("out/stick/image.raw").display().to_string();
    let verify = ["verify", &image, "--unsigned", "--against", "stick"];
    let ran = scratch.osbuild(&verify);
    assert!(ran.stdout.contains("none ran: all "), "{}{}", ran.stdout, ran.stderr);
    let ran = scratch.osbuild(&[&verify[..], &["--rebuild"]].concat());
    assert!(ran.stdout.contains(" ran for this comparison"), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(
        ran.stderr.lines().filter(|line| line.starts_with("data ")).count(),
        2,
        "one for the stick and one for its node: {}",
        ran.stderr
    );
}

#[test]
fn an_installer_and_the_node_that_it_installs_are_built_together() {
    let (together, alone) = (open(), open());
    with_stick(&together);
    with_stick(&alone);
    let images = |scratch: &Scratch| {
        let image = |recipe| scratch.project().join("out").join(recipe).join("image.raw");
        [RECIPE, "stick"].map(|recipe| Digest::of_file(&image(recipe)).unwrap())
    };
    let ran = together.osbuild(&["build", "stick", RECIPE]);
    done(&ran);
    let lines = |step: &str| ran.stderr.lines().filter(|line| line.starts_with(step)).count();
    assert_eq!((lines("kernel arm64 "), lines("runc arm64 ")), (1, 1), "{}", ran.stderr);
    [RECIPE, "stick"].iter().for_each(|recipe| done(&alone.osbuild(&["build", recipe])));
    assert_eq!(images(&together), images(&alone));
}

#[test]
fn two_programs_of_a_package_are_two_steps_with_a_log_each() {
    let scratch = open();
    let pods = scratch.project().join("components/pods");
    fs::create_dir(pods.join("other")).unwrap();
    for name in ["component.toml", "pod.yaml"] {
        let text = fs::read_to_string(pods.join("dhcp").join(name)).unwrap();
        let text = text.replace("program = \"pod-dhcp\"", "program = \"other\"");
        let text = text.replace("localhost/dhcp", "localhost/other").replace(": dhcp", ": other");
        fs::write(pods.join("other").join(name), text).unwrap();
    }
    let both = "[pods]\nother = { component = \"other\" }\ndhcp";
    scratch.edit("recipes/base.toml", "[pods]\ndhcp", both);
    let ran = scratch.osbuild(&["build", RECIPE, "--json"]);
    done(&ran);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    for (step, log) in [
        ("pod-dhcp arm64", "pod-dhcp-arm64.log"),
        ("pod-dhcp other arm64", "pod-dhcp-other-arm64.log"),
    ] {
        assert_eq!(json["steps"][step], "here", "{}", json["steps"]);
        assert!(scratch.project().join(format!("out/{RECIPE}/logs")).join(log).is_file(), "{log}");
    }
}

#[test]
fn two_installers_of_a_node_carry_it_with_the_signatures_of_their_own_keys() {
    // The layer has the image that the installer carries.
    let scratch = open_with(
        "layer() { cat modes $(find root -type f | sort) $(find . -name image.raw.zst) \
         >layer.erofs; }\n",
    );
    with_stick(&scratch);
    let recipes = scratch.project().join("recipes");
    let stick = scratch.read("recipes/stick.toml");
    for (recipe, key) in [("stick", "mine"), ("other", "theirs")] {
        done(&scratch.osbuild(&["keys", "new", key, "--as-of", "2026-01-01"]));
        let signed = format!("{stick}\n[signing]\nkey = \"{key}\"\n");
        fs::write(recipes.join(format!("{recipe}.toml")), signed).unwrap();
    }
    let lock =
        scratch.read("recipes/stick.lock").replace("recipe = \"stick\"", "recipe = \"other\"");
    fs::write(recipes.join("other.lock"), lock).unwrap();
    let images = || {
        let image = |recipe| scratch.project().join("out").join(recipe).join("image.raw");
        ["stick", "other"].map(|recipe| Digest::of_file(&image(recipe)).unwrap())
    };
    done(&scratch.osbuild(&["build", "stick", "other"]));
    let together = images();
    fs::remove_dir_all(scratch.project().join("out")).unwrap();
    ["stick", "other"].iter().for_each(|recipe| done(&scratch.osbuild(&["build", recipe])));
    assert_eq!(together, images());
}

#[test]
fn a_quiet_build_prints_nothing_and_a_verbose_one_stored_steps() {
    let scratch = open();
    let quiet = scratch.osbuild(&["build", RECIPE, "-q"]);
    done(&quiet);
    assert_eq!(quiet.stderr, "");
    let usual = scratch.osbuild(&["build", RECIPE]);
    assert_eq!(usual.stderr.lines().count(), 1, "{}", usual.stderr);
    let verbose = scratch.osbuild(&["build", RECIPE, "-v"]);
    assert!(
        verbose
            .stderr
            .lines()
            .any(|line| line.starts_with("kernel arm64 ") && line.ends_with(" stored")),
        "{}",
        verbose.stderr
    );
}

#[test]
fn concurrent_builds_share_steps_and_have_the_same_result() {
    let one = open_with(
        "kernel() { cat /proc/sys/kernel/random/uuid >release; sleep 0.5; cp /usr/lib/image.efi \
         kernel; }\n",
    );
    let other = one.path("other project");
    copy(&one, &other);
    let project = other.display().to_string();
    let commands = [
        one.command(&[], &["build", RECIPE]),
        one.command(&[], &["build", RECIPE, "--project", &project]),
    ];
    let running = commands.map(|mut command| std::thread::spawn(move || Ran::of(&mut command)));
    for ran in running.map(|thread| thread.join().unwrap()) {
        done(&ran);
    }
    let files = ["image.raw", "node.efi"].map(|name| format!("out/{RECIPE}/{name}"));
    for file in files {
        // The UKI has the kernel's release, which differs each time that its step runs.
        assert!(
            fs::read(one.project().join(&file)).unwrap() == fs::read(other.join(&file)).unwrap(),
            "{file} differs"
        );
    }
}

#[test]
fn two_concurrent_builds_of_a_recipe_succeed_with_the_same_result() {
    let scratch = open();
    done(&scratch.osbuild(&["build", RECIPE]));
    let before = products(&scratch);
    for _ in 0..5 {
        fs::remove_dir_all(scratch.project().join("out")).unwrap();
        let running = [(); 2]
            .map(|()| scratch.command(&[], &["build", RECIPE]))
            .map(|mut command| std::thread::spawn(move || Ran::of(&mut command)));
        running.into_iter().for_each(|thread| done(&thread.join().unwrap()));
        assert_eq!(before, products(&scratch));
    }
}

fn copy(scratch: &Scratch, to: &std::path::Path) {
    let mut copy = std::process::Command::new("cp");
    assert!(copy.arg("-r").arg(scratch.project()).arg(to).status().unwrap().success());
}

#[test]
fn the_hosts_compilers_are_not_used() {
    let mut scratch = open();
    done(&scratch.osbuild(&["build", RECIPE]));
    let before = products(&scratch);
    let tools = scratch.path("tools");
    fs::create_dir(&tools).unwrap();
    for name in ["as", "bash", "cc", "gcc", "ld", "make", "sh"] {
        fs::write(tools.join(name), "#!/bin/false\n").unwrap();
        fs::set_permissions(tools.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    for (name, value) in [
        ("PATH", path.as_str()),
        ("CC", "/bin/false"),
        ("CFLAGS", "-O0"),
        ("TZ", "Pacific/Kiritimati"),
    ] {
        scratch.set(name, value);
    }
    fs::remove_dir_all(scratch.project().join("out")).unwrap();
    done(&scratch.osbuild(&["build", RECIPE, "--rebuild"]));
    assert_eq!(products(&scratch), before);
}

#[test]
fn rebuild_accepts_step_names_as_printed_or_as_in_log_names() {
    let scratch = open();
    done(&scratch.osbuild(&["build", RECIPE]));
    for name in ["layer base", "layer-base"] {
        let ran = scratch.osbuild(&["build", RECIPE, &format!("--rebuild={name}")]);
        done(&ran);
        assert!(ran.stderr.contains("layer base "), "{}", ran.stderr);
    }
    let ran = scratch.osbuild(&["build", RECIPE, "--rebuild=kernal"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("error: no step begins with `kernal`\nhint: there are `")
            && ran.stderr.contains("`layer base`"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_missing_sources_folder_is_an_error_even_if_nothing_is_built() {
    let scratch = open();
    done(&scratch.osbuild(&["build", RECIPE]));
    let ran = scratch.osbuild(&["build", RECIPE, "--sources", "missing"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("no folder `missing`"), "{}", ran.stderr);
}

#[test]
fn a_file_of_clients_with_a_key_or_without_a_whole_certificate_is_refused() {
    let scratch = open();
    scratch.edit("recipes/small.toml", "[files]", "[api]\nclients = \"clients.pem\"\n\n[files]");
    scratch.edit("recipes/base.toml", "[pods]", "[pods]\nosd = { component = \"osd\" }");
    scratch.relock();
    let block = |label| format!("-----BEGIN {label}-----\nMAA=\n-----END {label}-----\n");
    let (damaged, key) = (block("CERTIFICATE"), block("PRIVATE KEY"));
    let with_key = damaged.clone() + &key;
    let missing = scratch.osbuild(&["build", RECIPE]);
    let hint = "\nhint: `[api] clients` names the certificates of CAs: keys/NAME/api.crt";
    assert!(missing.code == Some(1) && missing.stderr.contains(hint), "{}", missing.stderr);
    for (text, cause) in [
        (with_key.as_str(), "it has a block `PRIVATE KEY`"),
        (damaged.as_str(), "a certificate in PEM is not a whole X.509 certificate"),
        ("no PEM\n", "there is no certificate in PEM"),
    ] {
        std::fs::write(scratch.project().join("clients.pem"), text).unwrap();
        let ran = scratch.osbuild(&["build", RECIPE]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains(cause), "{}", ran.stderr);
    }
}

#[test]
fn an_invalid_root_of_trust_is_refused() {
    let scratch = open();
    let updates = "[updates]\nurl = \"https://updates.example/nodes\"\nroot = \
                   \"recipes/hello.txt\"\n\n[files]";
    scratch.edit("recipes/small.toml", "[files]", updates);
    scratch.edit("recipes/base.toml", "[pods]", "[pods]\nupdater = { component = \"updater\" }");
    scratch.relock();
    let ran = scratch.osbuild(&["build", RECIPE]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("error: `recipes/hello.txt` is not a valid root of trust\n"),
        "{}",
        ran.stderr
    );
}
