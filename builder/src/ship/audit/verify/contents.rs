//! Checks of a root: its files are those that its inventory lists, and `/bin` has exactly the seven
//! binaries of a node.

use super::Check;
use crate::error::Result;
use crate::plan::BinaryName;
use crate::ship::audit::inspect::{Binary, Inspection};
use osbuild_abi::paths::BIN;

/// Checks the contents of an inspected file.
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
