//! The name of the node: the one that a pod told last, in this boot or an earlier one, or one made of the machine id.

use std::path::{Path, PathBuf};

use osbuild_abi::paths::DATA;
use rustix::system::sethostname;

use crate::failure::{Explain, Failure, Outcome};
use crate::machine_id;
use crate::node::Node;
use crate::whole_file;

/// The longest name in bytes: it is also a value of a Kubernetes label (`kubernetes.io/hostname`).
const LONGEST: usize = 63;

/// Sets the name that the node starts with, which is also the kubelet's until it is told to restart: the names and identities of
/// static pods have the node's name in them, so a change in between would start them all anew.
pub fn set_first(node: &mut Node) -> Outcome {
    let kept = std::fs::read_to_string(path()).ok().and_then(|text| check(text.trim()).ok());
    let name = kept.unwrap_or_else(|| machine_id::short().map_or("node".to_owned(), |short| format!("node-{short}")));
    node.node_name.clone_from(&name);
    apply(node, name)
}

/// Sets the name that a pod told, and keeps it for the next boot.
pub fn set(node: &mut Node, name: &str) -> Outcome {
    let name = check(name)?;
    let kept = whole_file::write(&path(), &format!("{name}\n"), 0o644);
    apply(node, name)?;
    kept
}

fn apply(node: &mut Node, name: String) -> Outcome {
    sethostname(name.as_bytes()).explain(format_args!("set the host name `{name}`"))?;
    node.host_name = name;
    Ok(())
}

fn path() -> PathBuf {
    Path::new(DATA).join("hostname")
}

/// Returns the name in lower case if it is one of RFC 1123 that Kubernetes takes as the name of a node.
pub fn check(name: &str) -> Outcome<String> {
    let name = name.to_ascii_lowercase();
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = |label: &str| {
        let bytes = label.as_bytes();
        matches!((bytes.first(), bytes.last()), (Some(first), Some(last)) if letter(*first) && letter(*last))
            && bytes.iter().all(|byte| letter(*byte) || *byte == b'-')
    };
    if name.len() > LONGEST || !name.split('.').all(label) {
        return Err(Failure::new(format!("`{name}` is not a host name of at most {LONGEST} letters, digits, `-` and `.`")));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rfc_1123_are_taken_in_lower_case() {
        for (given, taken) in [("node", "node"), ("Node-1.Example.ORG", "node-1.example.org"), ("7", "7")] {
            assert_eq!(check(given).as_deref(), Ok(taken));
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = "a".repeat(64);
        for name in ["", ".", "a..b", "-a", "a-", "a.", "a b", "a\nb", "a_b", "ä", "a/../b", long.as_str()] {
            assert!(check(name).is_err(), "{name:?}");
        }
    }
}
