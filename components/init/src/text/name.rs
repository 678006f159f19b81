//! Host names and node names.

use std::path::Path;

use osbuild_failure::{Failure, Outcome};

/// The maximum length of a name in bytes: it is also the value of a Kubernetes label
/// (`kubernetes.io/hostname`).
const MAX_LENGTH: usize = 63;

/// Returns the name in lower case if it follows RFC 1123 and Kubernetes accepts it as the name of a
/// node.
pub fn check(name: &str) -> Outcome<String> {
    let name = name.to_ascii_lowercase();
    let is_letter = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(is_letter)
            && bytes.last().is_some_and(is_letter)
            && bytes.iter().all(|byte| is_letter(byte) || *byte == b'-')
    };
    if name.len() > MAX_LENGTH || !name.split('.').all(label) {
        return Err(Failure::new(format!(
            "`{name}` is not a host name of at most {MAX_LENGTH} letters, digits, `-` and `.`"
        )));
    }
    Ok(name)
}

/// The name in a file that `init` has written, if it has one.
pub fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().and_then(|text| check(text.trim()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rfc_1123_are_accepted_in_lower_case() {
        for (given, taken) in
            [("node", "node"), ("Node-1.Example.ORG", "node-1.example.org"), ("7", "7")]
        {
            assert_eq!(check(given).as_deref(), Ok(taken));
        }
    }

    #[test]
    fn a_malformed_name_is_refused() {
        let long = "a".repeat(64);
        for name in
            ["", ".", "a..b", "-a", "a-", "a.", "a b", "a\nb", "a_b", "ä", "a/../b", long.as_str()]
        {
            assert!(check(name).is_err(), "{name:?}");
        }
    }
}
