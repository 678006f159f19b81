//! Sets the kernel's settings from a file of `KEY = VALUE` lines.

use std::path::{Path, PathBuf};

use osbuild_abi::paths::SYSCTL;
use osbuild_failure::{Explain, Failure, Outcome};

use crate::node::Node;

/// Sets them all. One that this kernel does not have is said and passed over.
pub fn apply(node: &mut Node) -> Outcome {
    let text = std::fs::read_to_string(SYSCTL).explain(format_args!("read {SYSCTL}"))?;
    for setting in text.lines().enumerate().filter_map(|(index, line)| parse(line, index + 1).transpose()) {
        let written =
            setting.and_then(|(key, value)| std::fs::write(path(&key), &value).explain(format_args!("set `{key}` to `{value}`")));
        if let Err(failure) = written {
            node.console.say("sysctl", failure);
        }
    }
    Ok(())
}

/// Reads one line. Empty ones and comments are nothing.
fn parse(line: &str, number: usize) -> Outcome<Option<(String, String)>> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let malformed = || Failure::new(format!("{SYSCTL}:{number}: `{line}` is not `KEY = VALUE`"));
    let (key, value) = line.split_once('=').ok_or_else(malformed)?;
    let (key, value) = (key.trim(), value.trim());
    let known = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    if key.is_empty() || value.is_empty() || !key.chars().all(known) || key.split('.').any(str::is_empty) {
        return Err(malformed());
    }
    Ok(Some((key.to_owned(), value.to_owned())))
}

/// The file behind a key.
fn path(key: &str) -> PathBuf {
    Path::new("/proc/sys").join(key.replace('.', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_we_ship_is_well_formed_and_sets_nothing_twice() {
        let text = include_str!("../sysctl.conf");
        let keys: Vec<String> =
            text.lines().enumerate().filter_map(|(index, line)| parse(line, index + 1).unwrap()).map(|(key, _)| key).collect();
        assert!(keys.len() > 10);
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(key), "{key}");
        }
    }

    #[test]
    fn the_file_that_we_ship_gives_a_reason_for_each_setting() {
        let mut reasoned = false;
        for line in include_str!("../sysctl.conf").lines() {
            match line {
                "" => reasoned = false,
                comment if comment.starts_with('#') => reasoned = true,
                setting => assert!(reasoned, "{setting}"),
            }
        }
    }

    #[test]
    fn a_key_is_a_file_below_proc_sys() {
        assert_eq!(path("net.ipv4.ip_forward"), Path::new("/proc/sys/net/ipv4/ip_forward"));
    }

    #[test]
    fn a_key_cannot_lead_out_of_proc_sys() {
        for line in ["../../etc/x = 1", "net/ipv4 = 1", "a..b = 1", "= 1", "a =", "a"] {
            assert!(parse(line, 1).is_err(), "{line}");
        }
    }

    #[test]
    fn comments_and_empty_lines_are_nothing() {
        assert_eq!(parse("  # why", 1), Ok(None));
        assert_eq!(parse("", 1), Ok(None));
        assert_eq!(parse(" kernel.panic = 10 ", 1), Ok(Some(("kernel.panic".to_owned(), "10".to_owned()))));
    }
}
