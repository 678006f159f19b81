//! The valid names of a node.

use std::fmt;

use crate::Refusal;

/// The maximum bytes of a name, which is also the value of a Kubernetes label
/// (`kubernetes.io/hostname`).
const MAX_LENGTH: usize = 63;

/// A host name in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(String);

impl HostName {
    /// Reads a name.
    ///
    /// # Errors
    /// It is not a name of RFC 1123 that Kubernetes accepts for a node.
    pub fn parse(name: &str) -> Result<Self, Refusal> {
        check(name).map(Self)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the name in lower case, if it is a name of RFC 1123 that Kubernetes accepts for a node.
pub fn check(name: &str) -> Result<String, Refusal> {
    let name = name.to_ascii_lowercase();
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = |label: &str| {
        let bytes = label.as_bytes();
        let is_letter = |byte: Option<&u8>| byte.is_some_and(|byte| letter(*byte));
        is_letter(bytes.first())
            && is_letter(bytes.last())
            && bytes.iter().all(|byte| letter(*byte) || *byte == b'-')
    };
    if name.len() > MAX_LENGTH || !name.split('.').all(label) {
        return Err(Refusal::malformed(format!(
            "`{name}` is not a host name of at most {MAX_LENGTH} letters, digits, `-` and `.`"
        )));
    }
    Ok(name)
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
    fn a_name_outside_rfc_1123_is_refused() {
        let long = "a".repeat(64);
        for name in
            ["", ".", "a..b", "-a", "a-", "a.", "a b", "a\nb", "a_b", "ä", "a/../b", long.as_str()]
        {
            assert!(check(name).is_err(), "{name:?}");
        }
    }
}
