//! AppArmor: the files of a node whose kernel has it, and the rules of its profile of pods.

use crate::{TODAY, changed, locks, refusal, resolve, shipped};
use osbuild::plan::{self, Content, Locked, Plan, Project, RootFile, Strictness};
use osbuild_abi::paths::APPARMOR_PROFILE;
use osbuild_abi::program_names::APPARMOR_PARSER;
use std::path::PathBuf;
use std::process::Command;

/// containerd's name for the profile.
const NAME: &str = "cri-containerd.apparmor.d";

/// The small project with this line in the kernel's options.
fn with_option(line: &str) -> Project {
    let options = "[kernel.options]";
    changed(&[("recipes/small.toml", options, &format!("{options}\n{line}"))])
}

fn files(plan: &Plan) -> Vec<&RootFile> {
    let ours = [APPARMOR_PARSER.path, APPARMOR_PROFILE];
    plan.files.iter().filter(|file| ours.contains(&file.path.as_str())).collect()
}

#[test]
fn a_node_has_the_files_for_apparmor_only_if_its_kernel_has_it() {
    for line in ["", "SECURITY_APPARMOR = false"] {
        let plan = resolve(&with_option(line));
        assert_eq!(files(&plan), Vec::<&RootFile>::new(), "{line}");
        assert!(plan.requirements.files.iter().all(|file| file.package != "apparmor"), "{line}");
    }
    let plan = resolve(&with_option("SECURITY_APPARMOR = true"));
    let [parser, profile] = files(&plan)[..] else { panic!("{:?}", files(&plan)) };
    assert_eq!(parser.content, Content::Text(APPARMOR_PARSER.text.to_owned()));
    assert_eq!(parser.mode & 0o333, 0, "nobody can write to it or execute it");
    assert!(matches!(profile.content, Content::AppArmorProfile { .. }), "{profile:?}");
    let required = plan.requirements.files.iter().find(|file| file.package == "apparmor").unwrap();
    assert_eq!(required.architecture, "amd64", "it runs on the build machine");
    assert_eq!(plan.architecture.debian(), "arm64");
}

#[test]
fn a_file_of_the_compilers_package_does_not_change_the_compiler() {
    let mut project = with_option("SECURITY_APPARMOR = true");
    let recipe = project.files.get_mut("recipes/small.toml").unwrap();
    // The last section is `[files]`.
    recipe.extend(b"\"/etc/x\" = { debian = \"apparmor\", path = \"etc/x\", mode = 0o644 }\n");
    let plan = resolve(&project);
    let lock = locks::lock(&plan);
    let locked = plan.lock(lock).unwrap_or_else(|error| panic!("{error}"));
    let architecture = |file: &RootFile<Locked>| match &file.content {
        Content::AppArmorProfile { parser, .. } => Some(parser.lock.architecture.clone()),
        Content::Debian { package, .. } if package.name == "apparmor" => {
            Some(package.lock.architecture.clone())
        }
        _ => None,
    };
    let both: Vec<String> = locked.files.iter().filter_map(architecture).collect();
    assert_eq!(both, ["arm64", "amd64"], "the file is the node's, the compiler the build's");
}

#[test]
fn a_recipe_cannot_put_a_program_where_containerd_looks_for_one() {
    let line = "[files]\n\"/sbin/apparmor_parser\" = { text = \"\", mode = 0o644 }";
    let project = changed(&[("recipes/base.toml", "[files]", line)]);
    let error = refusal(&project).to_string();
    assert!(error.contains("`/sbin/apparmor_parser` cannot be listed in `[files]`"), "{error}");
}

#[test]
fn the_rules_of_pods_are_those_of_containerd() {
    let project = shipped();
    let plan = plan::resolve(&project, "probe-apparmor", TODAY, Strictness::Lock).unwrap();
    let all = files(&plan);
    let profile = all.iter().find_map(|file| match &file.content {
        Content::AppArmorProfile { source, .. } => Some(source),
        _ => None,
    });
    let ours = String::from_utf8(project.files[profile.unwrap()].clone()).unwrap();
    let go: Vec<_> = plan.components.iter().filter_map(|component| component.go()).collect();
    let containerd = go.iter().find(|go| go.name == "containerd").unwrap();
    let source = module(&format!("{}@v{}", containerd.module, containerd.version))
        .join("contrib/apparmor/template.go");
    let source = std::fs::read_to_string(source).unwrap();
    let template = source.split('`').nth(1).unwrap();
    assert!(source.contains("\"@{PROC}=/proc/\""));
    let theirs = format!("@{{PROC}}=/proc/\n{}", made(template));
    assert_eq!(rules(&ours), rules(&theirs));
    assert!(source.contains("p.DaemonProfile") && ours.contains(&format!("profile {NAME} ")));
}

/// The text that the template becomes on a machine that has no parts of profiles, and no
/// rootlesskit, for a daemon without a profile.
fn made(template: &str) -> String {
    let mut text = template.to_owned();
    while let Some(start) = text.find("{{if ").or_else(|| text.find("{{range ")) {
        let end = start + text[start..].find("{{end}}").unwrap() + "{{end}}".len();
        text.replace_range(start..end, "");
    }
    let text = text.replace("{{.Name}}", NAME).replace("{{.DaemonProfile}}", "unconfined");
    assert!(!text.contains("{{"), "{text}");
    text
}

/// The lines without comments, each once.
fn rules(text: &str) -> Vec<&str> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let mut rules: Vec<&str> = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        if !rules.contains(&line) {
            rules.push(line);
        }
    }
    rules
}

/// The folder of a Go module.
fn module(module: &str) -> PathBuf {
    let arguments = ["mod", "download", "-json", module];
    let output = Command::new("go").args(arguments).output().expect("`go` runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "go mod download {module}: {text}");
    let download: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    PathBuf::from(download["Dir"].as_str().unwrap())
}
