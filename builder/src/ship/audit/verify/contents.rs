//! What is looked at of a root: whether its files are those that its inventory lists, and exactly
//! the seven of a node.

use super::Check;
use crate::error::Result;
use crate::plan::BinaryName;
use crate::ship::audit::inspect::{Binary, Inspection};
use osbuild_abi::paths::BIN;

/// Judges what was read of a file.
pub(super) fn contents(found: Result<Inspection>) -> Vec<Check> {
    let found = match found {
        Ok(found) => found,
        Err(error) => return vec![Check::fails("contents", error.problems[0].message.clone())],
    };
    let root = found.root;
    let (files, pods, lock) = (root.files.len(), root.pods.len(), &root.lock);
    let epoch = found.uki.map(|uki| Check::holds("security epoch", uki.security_epoch.to_string()));
    let mut checks: Vec<Check> = epoch.into_iter().chain([seven(&root.binaries)]).collect();
    checks.extend(root.binaries.iter().map(|binary| {
        let Binary { name, version, sha256, .. } = binary;
        Check::holds("binary", format!("{BIN}/{name} {version} sha256:{sha256}"))
    }));
    checks.push(Check::holds(
        "contents",
        format!("{files} files and {pods} pods, as listed; lock sha256:{lock}"),
    ));
    checks
}

/// Whether these are the seven, each of them once.
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
            format!(
                "the {} files of {BIN} are those of a node, and no other is there",
                names.len()
            ),
        ),
        false => Check::fails(
            "binaries",
            format!("{BIN} is not that of a node: it has {}", wrong.join(", ")),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_seven_are_exactly_there() {
        let mut names = BinaryName::ALL.map(BinaryName::file_name).to_vec();
        assert!(seven(&binaries(&names)).holds);
        names[6] = "sh";
        let check = seven(&binaries(&names));
        let found = format!(
            "/bin is not that of a node: it has no `{}`, `sh`",
            BinaryName::ALL[6].file_name()
        );
        assert_eq!((check.holds, check.found), (false, found));
        assert!(!seven(&[binaries(&names[..6]), binaries(&names[..1])].concat()).holds);
    }
}
