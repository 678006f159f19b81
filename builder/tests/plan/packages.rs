//! The packages that a node is made of.

use crate::{TODAY, shipped};
use osbuild::plan::{
    self, CargoLock, Content, DebianPackage, Lock, Locked, Plan, Purl, SourceKind, Strictness,
};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn text(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

fn locked(recipe: &str) -> Plan<Locked> {
    let path = Lock::path(recipe);
    let lock = Lock::parse(&path, &text(&path)).unwrap();
    plan::resolve(&shipped(), recipe, TODAY, Strictness::Build).unwrap().lock(lock).unwrap()
}

#[test]
fn the_list_has_every_source_of_a_node_and_no_build_tool() {
    let workspace = CargoLock::parse(&text("Cargo.lock")).unwrap();
    for recipe in plan::buildable(&shipped()) {
        let plan = locked(&recipe);
        let lock = plan.lock.get();
        let tools = [&lock.sandbox, &lock.launcher, &lock.pahole];
        let is_parser = |package: &DebianPackage| {
            plan.files.iter().any(|file| match &file.content {
                Content::AppArmorProfile { parser, .. } => parser.lock == *package,
                _ => false,
            })
        };
        let is_in_node = |source: &SourceKind| match source {
            SourceKind::GoMod { .. } => false,
            SourceKind::Debian(package) => {
                plan.statically_linked().chain(plan.carried()).any(|held| held == package)
                    || !tools.iter().any(|list| list.has(package)) && !is_parser(package)
            }
            _ => true,
        };
        let sources = plan.sources();
        let expected: BTreeSet<String> = sources
            .iter()
            .filter(|source| is_in_node(&source.kind))
            .map(|source| Purl::of(&source.kind).url)
            .collect();
        let listed: BTreeSet<String> = plan.packages(&workspace).unwrap().into_keys().collect();
        assert_eq!(listed, expected, "{recipe}");
    }
}

#[test]
fn a_package_has_the_components_that_hold_it() {
    let workspace = CargoLock::parse(&text("Cargo.lock")).unwrap();
    let packages = locked("qemu-amd64").packages(&workspace).unwrap();
    let holders = |start: &str| -> Vec<&str> {
        let mut found = packages.iter().filter(|(url, _)| url.starts_with(start));
        let (_, components) = found.next().unwrap();
        components.iter().map(String::as_str).collect()
    };
    assert_eq!(holders("pkg:golang/k8s.io/kubernetes@"), ["kubelet"]);
    assert_eq!(holders("pkg:golang/github.com/containerd/containerd/v2@"), ["containerd"]);
    assert_eq!(holders("pkg:generic/go@"), ["containerd", "kubelet", "runc"]);
    assert_eq!(holders("pkg:deb/debian/linux-source-"), ["linux"]);
    assert_eq!(holders("pkg:deb/debian/systemd-boot-efi@"), ["stub"]);
    assert_eq!(holders("pkg:deb/debian/ca-certificates@"), ["files"]);
    assert_eq!(holders("pkg:deb/debian/libseccomp-dev@"), ["runc"]);
    assert!(holders("pkg:cargo/rustix@").contains(&"init"));
    assert!(holders("pkg:cargo/uefi@").contains(&"slotboot"));
}
