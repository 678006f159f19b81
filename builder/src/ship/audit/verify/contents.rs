//! Checks of a root: `/bin` has exactly the seven binaries of a node with the digests of its
//! inventory, each pod of the inventory has its manifest, the kubelet finds the binaries under no
//! names but the listed ones, and a file in the place of another program is text.

use super::Check;
use crate::engine::digest::Digest;
use crate::error::{Problem, Result};
use crate::plan::BinaryName;
use crate::ship::audit::inspect::{Binary, File, Inspection};
use osbuild_abi::paths::{BIN, KUBELET_PROGRAMS};
use osbuild_abi::program_names::{self, PLACEHOLDER_MODE, PLACEHOLDERS, Placeholder};

/// Checks the contents of an inspected file.
pub(super) fn contents(found: Result<Inspection>) -> Vec<Check> {
    let found = match found {
        Ok(found) => found,
        Err(error) => return error.problems.iter().map(unreadable).collect(),
    };
    let root = found.root;
    let (files, pods, lock) = (root.files.len(), root.pods.len(), &root.lock);
    let epoch = found.uki.map(|uki| Check::holds("security epoch", uki.security_epoch.to_string()));
    let mut checks: Vec<Check> = epoch.into_iter().chain([seven(&root.binaries)]).collect();
    checks.extend(root.binaries.iter().map(|binary| {
        let Binary { name, version, sha256, .. } = binary;
        Check::holds("binary", format!("{BIN}/{name} {version} sha256:{sha256}"))
    }));
    checks.extend(names(&root.files));
    checks.extend(placeholders(&root.files));
    checks.push(Check::holds(
        "contents",
        format!("{files} files; the inventory lists {pods} pods and the lock sha256:{lock}"),
    ));
    checks
}

/// The failed check of contents that cannot be read or contradict the inventory.
fn unreadable(problem: &Problem) -> Check {
    let lines: Vec<&str> =
        std::iter::once(&problem.message).chain(&problem.causes).map(String::as_str).collect();
    Check::fails("contents", lines.join(": "))
}

/// Checks that these are the seven binaries, each exactly once.
fn seven(binaries: &[Binary]) -> Check {
    let names = BinaryName::ALL.map(BinaryName::file_name);
    let has = |name: &&str| binaries.iter().any(|binary| binary.name == **name);
    let missing = names.iter().filter(|name| !has(name)).map(|name| format!("no `{name}`"));
    let more = binaries
        .iter()
        .filter(|binary| !names.contains(&binary.name.as_str()))
        .map(|binary| format!("`{}`", binary.name));
    let wrong: Vec<String> = missing.chain(more).collect();
    match wrong.is_empty() && binaries.len() == names.len() {
        true => Check::holds(
            "binaries",
            format!("{BIN} has the {} files of a node and no others", names.len()),
        ),
        false => Check::fails(
            "binaries",
            format!("{BIN} does not have exactly the files of a node: it has {}", wrong.join(", ")),
        ),
    }
}

/// Checks that the folder of the kubelet's names has a link for each listed name, and nothing else.
fn names(files: &[File]) -> Vec<Check> {
    let path = |name: &str| format!("{KUBELET_PROGRAMS}/{name}");
    let listed = program_names::KUBELET.iter().map(|listed| {
        let (path, program) = (path(listed.name), listed.program);
        let file = files.iter().find(|file| file.path == path);
        match file.and_then(|file| file.target.as_deref()) == Some(program) {
            true => Check::holds("name", format!("{path} is {program}: {}", listed.reason)),
            false => Check::fails("name", format!("{path} is not a link to {program}")),
        }
    });
    let is_listed = |name: &str| program_names::KUBELET.iter().any(|listed| listed.name == name);
    let other = files.iter().filter(|file| {
        let name = file.path.strip_prefix(KUBELET_PROGRAMS).and_then(|rest| rest.strip_prefix('/'));
        name.is_some_and(|name| !is_listed(name))
    });
    let other = other.map(|file| {
        Check::fails("name", format!("the kubelet finds {}, which is not a listed name", file.path))
    });
    listed.chain(other).collect()
}

/// Checks that each file in the place of a program is the listed text, and cannot be executed.
fn placeholders(files: &[File]) -> Vec<Check> {
    let check = |one: &Placeholder| {
        let file = files.iter().find(|file| file.path == one.path)?;
        let is_text = file.sha256 == Some(Digest::of(one.text.as_bytes()).hex());
        Some(match is_text && file.mode == format!("{PLACEHOLDER_MODE:04o}") {
            true => Check::holds("name", format!("{} is text: {}", one.path, one.reason)),
            false => Check::fails("name", format!("{} is not the listed text", one.path)),
        })
    };
    PLACEHOLDERS.iter().filter_map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ship::audit::inspect::FileKind;

    fn link(path: &str, target: &str) -> File {
        File {
            path: path.into(),
            kind: FileKind::Link,
            mode: "0777".into(),
            owner: "0:0".into(),
            size: 0,
            sha256: None,
            target: Some(target.into()),
        }
    }

    #[test]
    fn the_kubelet_finds_only_listed_names() {
        let losetup = link("/usr/libexec/kubelet/losetup", "/bin/mount");
        let holds = |files: &[File]| names(files).iter().all(|check| check.holds);
        assert!(holds(std::slice::from_ref(&losetup)));
        assert!(!holds(&[]));
        assert!(!holds(&[link(&losetup.path, "/bin/runc")]));
        assert!(!holds(&[losetup, link("/usr/libexec/kubelet/sh", "/bin/mount")]));
    }

    #[test]
    fn what_is_in_the_place_of_a_program_is_the_listed_text() {
        let one = program_names::APPARMOR_PARSER;
        let text = |text: &str, mode: &str| File {
            kind: FileKind::File,
            mode: mode.into(),
            sha256: Some(Digest::of(text.as_bytes()).hex()),
            target: None,
            ..link(one.path, "")
        };
        let holds = |file: File| placeholders(&[file]).iter().all(|check| check.holds);
        assert!(placeholders(&[]).is_empty());
        assert!(holds(text(one.text, "0444")));
        assert!(!holds(text(one.text, "0755")));
        assert!(!holds(text("\x7fELF", "0444")));
        assert!(!holds(link(one.path, "/bin/mount")));
    }

    fn binaries(names: &[&str]) -> Vec<Binary> {
        let binary = |name: &&str| Binary {
            name: (*name).to_owned(),
            component: "one".into(),
            version: "1".into(),
            size: 1,
            mode: "0755".into(),
            sha256: "ab".into(),
        };
        names.iter().map(binary).collect()
    }

    #[test]
    fn bin_must_have_exactly_the_seven_binaries() {
        let mut names = BinaryName::ALL.map(BinaryName::file_name).to_vec();
        assert!(seven(&binaries(&names)).holds);
        names[6] = "sh";
        let check = seven(&binaries(&names));
        let found = format!(
            "/bin does not have exactly the files of a node: it has no `{}`, `sh`",
            BinaryName::ALL[6].file_name()
        );
        assert_eq!((check.holds, check.found), (false, found));
        assert!(!seven(&[binaries(&names[..6]), binaries(&names[..1])].concat()).holds);
    }
}
