//! The changes that `osbuild update` makes in locks, recipes and the table of releases.

use crate::archive::Archive;
use crate::goproxy::GoProxy;
use crate::scratch::{RECIPE, Ran, Scratch};
use osbuild::plan::{Lock, Releases};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

const KUBERNETES: &str = "k8s.io/kubernetes";
const KUBELET: (&str, &str) = ("cmd/kubelet/main.go", "package main\n\nfunc main() {}\n");
const BASE: &str = "recipes/base.toml";

/// A project whose Go modules come from a proxy of the test, which has one patch after the locked
/// kubelet.
fn with_proxy() -> (Scratch, GoProxy) {
    let mut scratch = Scratch::new();
    let proxy = GoProxy::start();
    proxy.serve(&mut scratch);
    proxy.add(KUBERNETES, "v1.35.9", "", &[KUBELET]);
    (scratch, proxy)
}

/// An archive that has every package of the lock in these versions.
fn with_archive(scratch: &mut Scratch, versions: &[&str]) -> Archive {
    let archive = Archive::serve(scratch);
    publish(scratch, &archive, versions);
    archive
}

fn publish(scratch: &Scratch, archive: &Archive, versions: &[&str]) {
    let lock = scratch.lock();
    let mut packages =
        lock.debian_packages().map(|package| package.package.as_str()).collect::<Vec<_>>();
    packages.sort();
    packages.dedup();
    let all = packages
        .iter()
        .flat_map(|package| versions.iter().map(move |version| (*package, *version, "")));
    archive.publish(&all.collect::<Vec<_>>());
}

#[track_caller]
fn ran(scratch: &Scratch, code: i32, args: &[&str]) -> Ran {
    let ran = scratch.osbuild(args);
    assert_eq!(ran.code, Some(code), "{}", ran.stderr);
    ran
}

fn kubelet(scratch: &Scratch) -> String {
    scratch.lock().go.into_iter().find(|go| go.component == "kubelet").unwrap().version
}

fn releases(scratch: &Scratch) -> Releases {
    Releases::parse(&scratch.read(Releases::PATH)).unwrap()
}

#[test]
fn update_moves_only_the_kubelet_to_the_newest_served_patch() {
    let (scratch, proxy) = with_proxy();
    for refused in ["v1.35.10", "v1.35.11"] {
        proxy.list(KUBERNETES, refused);
        proxy.refuse(KUBERNETES, refused, 403);
    }
    let (before, recipe) = (scratch.lock(), scratch.read(BASE));
    let output = ran(&scratch, 0, &["update", "kubelet"]);
    assert!(
        output.stderr.contains("note: kubelet: v1.35.8 → v1.35.9 (small)\n"),
        "{}",
        output.stderr
    );
    assert!(
        output.stderr.contains("note: Kubernetes 1.35: 1.35.8 → 1.35.9\n"),
        "{}",
        output.stderr
    );
    let after = scratch.lock();
    assert_eq!(kubelet(&scratch), "v1.35.9");
    assert_eq!(scratch.read(BASE), recipe.replace("1.35.8", "1.35.9"));
    let others = |lock: &Lock| {
        lock.go.iter().filter(|go| go.component != "kubelet").cloned().collect::<Vec<_>>()
    };
    assert_eq!(others(&after), others(&before));
    assert_eq!(
        Lock {
            go: before.go.clone(),
            requirements: before.requirements.clone(),
            epoch: before.epoch,
            ..after.clone()
        },
        before
    );
    assert!(after.epoch > before.epoch && after.epoch % 86_400 == 0);
    let paths = ["components/kubelet/releases.toml", "recipes/base.toml", "recipes/small.lock"];
    let paths = paths.map(|path| scratch.project().join(path).display().to_string());
    assert_eq!(output.stdout, paths.join("\n") + "\n");
}

#[test]
fn a_patch_that_is_served_but_not_listed_is_found() {
    let (scratch, proxy) = with_proxy();
    proxy.add(KUBERNETES, "v1.35.10", "", &[KUBELET]);
    proxy.add(KUBERNETES, "v1.35.13", "", &[KUBELET]);
    proxy.forget_list(KUBERNETES);
    proxy.list(KUBERNETES, "v1.35.4");
    ran(&scratch, 0, &["update", "kubelet"]);
    assert_eq!(kubelet(&scratch), "v1.35.13");
}

#[test]
fn a_patch_without_its_module_is_skipped() {
    let (scratch, proxy) = with_proxy();
    proxy.add(KUBERNETES, "v1.35.10", "", &[KUBELET]);
    proxy.refuse_file(KUBERNETES, "v1.35.10.zip", 403);
    ran(&scratch, 0, &["update", "kubelet"]);
    assert_eq!(kubelet(&scratch), "v1.35.9");
}

#[test]
fn a_new_minor_moves_the_peg_and_keeps_known_ends_of_life() {
    let (scratch, proxy) = with_proxy();
    proxy.add(KUBERNETES, "v1.38.0", "", &[KUBELET]);
    proxy.add(KUBERNETES, "v1.36.6", "", &[KUBELET]);
    let before = [BASE, "recipes/small.lock", Releases::PATH].map(|path| scratch.read(path));
    let refused = ran(&scratch, 2, &["update", "kubelet"]);
    assert!(
        refused.stderr.contains("kubelet 1.36.6 cannot join an API server 1.35"),
        "{}",
        refused.stderr
    );
    assert_eq!([BASE, "recipes/small.lock", Releases::PATH].map(|path| scratch.read(path)), before);

    scratch.edit("recipes/small.toml", "[\"1.35\", \"1.36\"]", "[\"1.36\"]");
    let known = releases(&scratch);
    let output = ran(&scratch, 0, &["update", "kubelet"]).stderr;
    assert!(output.contains("note: Kubernetes 1.38: nothing → 1.38.0\n"), "{output}");
    assert_eq!(kubelet(&scratch), "v1.36.6");
    let table = releases(&scratch);
    assert_eq!(table.minors.last_key_value().unwrap().1.end_of_life.to_string(), "2027-12-28");
    for (minor, release) in known.minors {
        assert_eq!(table.minors[&minor].end_of_life, release.end_of_life);
    }
}

#[test]
fn a_new_minor_moves_the_control_plane_that_a_node_makes() {
    let (scratch, proxy) = with_proxy();
    component(&scratch, "kubeadm", "kubeadm");
    scratch.edit(
        "components/pods/dhcp/component.toml",
        "program = \"pod-dhcp\"",
        "program = \"pod-dhcp\"\n\n[image.payload]\ncomponent = \"kubeadm\"",
    );
    let pod = "dhcp = { component = \"dhcp\", version = \"1.35.8\" }";
    scratch.edit(BASE, "dhcp = { component = \"dhcp\" }", pod);
    scratch.edit("recipes/small.toml", "[\"1.35\", \"1.36\"]", "[\"1.36\"]");
    scratch.relock();
    proxy.add(KUBERNETES, "v1.38.0", "", &[KUBELET]);
    proxy.add(KUBERNETES, "v1.36.6", "", &[KUBELET]);
    ran(&scratch, 0, &["update", "kubelet"]);
    assert_eq!(kubelet(&scratch), "v1.36.6");
    assert!(scratch.read(BASE).contains(&pod.replace("1.35.8", "1.36.6")));
}

#[test]
fn programs_of_the_lab_stay_on_one_minor_after_the_update_of_one() {
    let (mut scratch, proxy) = with_proxy();
    let recipe = |version: &str| {
        format!(
            "[programs]\nkube-apiserver = {{ component = \"kubernetes\", version = \
             \"{version}\" }}\nkubeadm = {{ component = \"kubeadm\", version = \"{version}\" }}\n\n\
             [sandbox]\npackages = [\"bash\"]\n\n[toolchains]\n"
        )
    };
    component(&scratch, "lab/kubernetes", "kube-apiserver");
    component(&scratch, "lab/kubeadm", "kubeadm");
    let go = scratch.read(BASE);
    let go = go.lines().find(|line| line.starts_with("go = ")).unwrap();
    scratch.add_programs("lab", &format!("{}{go}\n", recipe("1.37.2")));
    scratch.edit("recipes/small.toml", "[\"1.35\", \"1.36\"]", "[\"1.36\"]");
    proxy.add(KUBERNETES, "v1.38.0", "", &[KUBELET]);
    proxy.add(KUBERNETES, "v1.36.6", "", &[KUBELET]);
    with_archive(&mut scratch, &["1"]);
    ran(&scratch, 0, &["update", "kubernetes"]);
    ran(&scratch, 0, &["update"]);
    assert!(scratch.read("recipes/lab.toml").starts_with(&recipe("1.38.0")));
}

/// Adds a component of Kubernetes that makes one program.
fn component(scratch: &Scratch, path: &str, program: &str) {
    let text = format!(
        "about = \"A program of Kubernetes\"\n\n[go]\nmodule = \"{KUBERNETES}\"\nwrapper = true\n\n\
         [go.programs]\n{program} = \"{KUBERNETES}/cmd/kubelet\"\n"
    );
    let folder = scratch.project().join("components").join(path);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("component.toml"), text).unwrap();
}

#[test]
fn an_exception_keeps_the_kubelet_on_its_minor() {
    let (scratch, proxy) = with_proxy();
    proxy.add(KUBERNETES, "v1.38.0", "", &[KUBELET]);
    let exception = "[kubernetes]\nexception = { reason = \"the cluster moves in spring\", until \
                     = 2999-03-31 }\n";
    scratch.edit("recipes/small.toml", "[kubernetes]\n", exception);
    ran(&scratch, 0, &["update", "kubelet"]);
    assert_eq!(kubelet(&scratch), "v1.35.9");
}

#[test]
fn an_exception_does_not_move_an_inherited_kubelet() {
    let (scratch, proxy) = with_proxy();
    proxy.add(KUBERNETES, "v1.38.0", "", &[KUBELET]);
    proxy.add(KUBERNETES, "v1.36.6", "", &[KUBELET]);
    let edge = "inherit = \"small\"\n\n[kubernetes]\n\
                exception = { reason = \"the cluster moves in spring\", until = 2999-03-31 }\n";
    fs::write(scratch.project().join("recipes/edge.toml"), edge).unwrap();
    let lock = Lock { recipe: "edge".into(), ..scratch.lock() };
    scratch.write_lock(&lock);
    scratch.edit("recipes/small.toml", "[\"1.35\", \"1.36\"]", "[\"1.36\"]");
    let before = scratch.read(BASE);
    let output = ran(&scratch, 2, &["update", "kubelet"]).stderr;
    let error = "error: recipes/base.toml:9: `edge` needs `kubelet` 1.35.9, and `small` needs \
                 1.36.6\n  caused by: both inherit this line\n\
                 hint: give `edge` its own `kubelet` in `[binaries]`\n";
    assert!(output.ends_with(error), "{output}");
    assert_eq!(scratch.read(BASE), before);

    let own = "[binaries]\nkubelet = { component = \"kubelet\", version = \"1.35.8\" }\n\n\
               [kubernetes]";
    scratch.edit("recipes/edge.toml", "[kubernetes]", own);
    ran(&scratch, 0, &["update", "kubelet"]);
    assert_eq!(kubelet(&scratch), "v1.36.6");
    assert!(scratch.read("recipes/edge.toml").contains("version = \"1.35.9\""));
    assert_eq!(scratch.read(BASE), before.replace("1.35.8", "1.36.6"));
}

#[test]
fn a_missing_releases_table_is_written() {
    let (scratch, proxy) = with_proxy();
    for minor in 30..=37 {
        proxy.add(KUBERNETES, &format!("v1.{minor}.0"), "", &[KUBELET]);
    }
    fs::remove_file(scratch.project().join(Releases::PATH)).unwrap();
    ran(&scratch, 0, &["update", "kubelet"]);
    let minors = releases(&scratch).minors.keys().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(minors, ["1.32", "1.33", "1.34", "1.35", "1.36", "1.37"]);
}

#[test]
fn updating_one_package_keeps_the_others_while_the_archive_has_them() {
    let mut scratch = Scratch::new();
    let archive = with_archive(&mut scratch, &["1", "2"]);
    let before = scratch.lock();
    let output = ran(&scratch, 0, &["update", "ca-certificates"]).stderr;
    assert!(output.contains("note: ca-certificates for arm64: 1 → nothing (small)\n"), "{output}");
    assert!(output.contains("note: ca-certificates for all: nothing → 2 (small)\n"), "{output}");
    let after = scratch.lock();
    assert_eq!(after.files.packages[0].version, "2");
    assert_eq!(Lock { files: before.files.clone(), epoch: before.epoch, ..after }, before);

    let version = |package: &str| {
        scratch
            .lock()
            .sandbox
            .packages
            .into_iter()
            .find(|found| found.package == package)
            .unwrap()
            .version
    };
    ran(&scratch, 0, &["update", "flex"]);
    assert_eq!(["flex", "bash", "gcc"].map(version), ["2", "1", "1"]);
    publish(&scratch, &archive, &["3"]);
    ran(&scratch, 0, &["update", "gcc"]);
    assert_eq!(["flex", "bash", "gcc"].map(version), ["3", "3", "3"]);
    assert_eq!(scratch.lock().sandbox.asked, before.sandbox.asked);
}

#[test]
fn a_default_release_and_suggestions_of_the_host_do_not_change_a_lock() {
    let mut scratch = Scratch::new();
    let archive = Archive::serve(&mut scratch);
    let config = scratch.path("apt.conf");
    let text = fs::read_to_string(&config).unwrap();
    let more = "\nAPT::Default-Release \"trixie\";\nAPT::Install-Suggests \"true\";\n";
    fs::write(config, text + more).unwrap();
    let lock = scratch.lock();
    let names: BTreeSet<_> = lock.sandbox.packages.iter().map(|found| &found.package).collect();
    let suggests = "bash\nSuggests: suggested";
    let packages = names.iter().map(|name| (name.as_str(), "2", suggests));
    archive.publish(&packages.chain([("suggested", "2", "")]).collect::<Vec<_>>());
    ran(&scratch, 0, &["update", "flex"]);
    let after = scratch.lock();
    let locked: BTreeSet<_> = after.sandbox.packages.iter().map(|found| &found.package).collect();
    assert_eq!(locked, names);
    assert!(after.sandbox.packages.iter().all(|package| package.version == "2"));
}

#[test]
fn the_kernel_is_updated_under_its_components_name() {
    let mut scratch = Scratch::new();
    with_archive(&mut scratch, &["1", "2"]);
    ran(&scratch, 0, &["update", "linux"]);
    let lock = scratch.lock();
    assert_eq!([lock.kernel_source, lock.stub].map(|package| package.unwrap().version), ["2", "1"]);
}

#[test]
fn a_second_update_moves_nothing() {
    let (mut scratch, _proxy) = with_proxy();
    with_archive(&mut scratch, &["1", "2"]);
    ran(&scratch, 0, &["update"]);
    let lock = scratch.lock();
    assert!(lock.debian_packages().all(|package| package.version == "2"));
    assert_eq!(kubelet(&scratch), "v1.35.9");
    assert!(ran(&scratch, 0, &["update"]).stderr.contains("note: everything is up to date\n"));
    assert_eq!(scratch.lock(), lock);
    assert_eq!(ran(&scratch, 0, &["plan", RECIPE]).stderr, "");
}

#[test]
fn every_recipe_with_a_lock_is_locked_again() {
    let (scratch, _proxy) = with_proxy();
    fs::write(scratch.project().join("recipes/other.toml"), "inherit = \"small\"\n").unwrap();
    fs::write(
        scratch.project().join("recipes/other.lock"),
        Lock { recipe: "other".into(), ..scratch.lock() }.print(),
    )
    .unwrap();
    fs::write(scratch.project().join("recipes/unlocked.toml"), "inherit = \"small\"\n").unwrap();
    let output = ran(&scratch, 0, &["update", "kubelet"]).stderr;
    assert!(output.contains("note: kubelet: v1.35.8 → v1.35.9 (other, small)\n"), "{output}");
    assert!(scratch.read("recipes/other.lock").contains("v1.35.9"));
    assert!(!scratch.project().join("recipes/unlocked.lock").exists());
}

#[test]
fn an_unknown_name_suggests_the_nearest_and_lists_all() {
    let scratch = Scratch::new();
    let output = ran(&scratch, 2, &["update", "kubelt"]).stderr;
    assert_eq!(
        output,
        "error: no lock has an input named `kubelt`\n  caused by: updates exist for `containerd`, \
         `crates`, `kubelet`, `linux`, `runc`, \
         `toolchain`, and each of 13 Debian packages\nhint: did you mean `kubelet`?\n"
    );
    let output = ran(&scratch, 2, &["update", "ca-certificate"]).stderr;
    assert!(output.ends_with("hint: did you mean `ca-certificates`?\n"), "{output}");
    let output = ran(&scratch, 2, &["update", "dhcp"]).stderr;
    assert!(output.starts_with("error: `dhcp` has no version to update"), "{output}");
}

#[test]
fn an_update_needs_a_network_and_a_lock() {
    let scratch = Scratch::new();
    assert!(ran(&scratch, 2, &["update", "--offline"]).stderr.contains(
        "which `--offline` \
    forbids"
    ));
    fs::remove_file(scratch.project().join(Lock::path(RECIPE))).unwrap();
    assert!(
        ran(&scratch, 3, &["update"]).stderr.starts_with("error: no recipe has a lock to update\n")
    );
}

#[test]
fn a_kubelet_without_support_is_not_locked_again() {
    let mut scratch = Scratch::new();
    with_archive(&mut scratch, &["2"]);
    scratch.edit(Releases::PATH, "end-of-life = 2999", "end-of-life = 2020");
    let before = scratch.read(&Lock::path(RECIPE));
    for verb in [["update", "ca-certificates"], ["lock", RECIPE]] {
        let output = ran(&scratch, 2, &verb).stderr;
        assert!(output.contains("the support of kubelet 1.35.8 ended on 2020-02-28"), "{output}");
    }
    assert_eq!(scratch.read(&Lock::path(RECIPE)), before);
}

#[test]
fn crates_are_updated_with_cargo_and_only_when_named() {
    let mut scratch = Scratch::new();
    let cargo = std::env::var("CARGO").expect("cargo runs the tests");
    // The toolchain's own cargo: that of rustup looks for its settings in the home folder.
    let folder = Path::new(&cargo).parent().unwrap().display();
    scratch.set("PATH", format!("{folder}:{}", std::env::var("PATH").unwrap()));
    workspace(&scratch.project());
    vendor(&scratch.project(), "0.2.1");
    fs::remove_file(scratch.project().join("Cargo.lock")).unwrap();
    let made = Command::new(&cargo)
        .args(["generate-lockfile", "--offline", "--quiet"])
        .current_dir(scratch.project())
        .status();
    assert!(made.unwrap().success());
    scratch.relock();
    vendor(&scratch.project(), "0.2.2");
    let before = scratch.lock();
    let output = ran(&scratch, 0, &["update", "crates"]).stderr;
    assert!(output.contains("note: crate libc: 0.2.1 → 0.2.2\n"), "{output}");
    let after = scratch.lock();
    assert_ne!(after.crates, before.crates);
    assert_eq!(
        Lock { crates: before.crates.clone(), requirements: before.requirements.clone(), ..after },
        before
    );
}

/// Writes the workspace that matches the project's `Cargo.lock`, with crates from a folder.
fn workspace(project: &Path) {
    let members = ["init", "mount", "pod-dhcp", "pod-pause", "slotboot"];
    let write = |path: &str, text: &str| {
        let path = project.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "Cargo.toml",
        &format!(
            "[workspace]\nresolver = \"3\"\nmembers = {:?}\n",
            members.map(|name| format!("rust/{name}"))
        ),
    );
    write(
        ".cargo/config.toml",
        "[source.crates-io]\nreplace-with = \"folder\"\n[source.folder]\ndirectory = \
         \"vendored\"\n",
    );
    for name in members {
        let needs = if name == "init" { "[dependencies]\nlibc = \"0.2\"\n" } else { "" };
        write(
            &format!("rust/{name}/Cargo.toml"),
            &format!(
                "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{needs}"
            ),
        );
        write(&format!("rust/{name}/src/lib.rs"), "");
    }
}

/// Replaces the vendored crate by this version.
fn vendor(project: &Path, version: &str) {
    let folder = project.join("vendored/libc");
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(
        folder.join("Cargo.toml"),
        format!("[package]\nname = \"libc\"\nversion = \"{version}\"\nedition = \"2021\"\n"),
    )
    .unwrap();
    fs::write(folder.join("src/lib.rs"), "").unwrap();
    let checksum = version.replace('.', "").repeat(24)[..64].to_owned();
    fs::write(
        folder.join(".cargo-checksum.json"),
        format!("{{\"files\":{{}},\"package\":\"{checksum}\"}}"),
    )
    .unwrap();
}
