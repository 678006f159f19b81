//! Names in a pod: of itself, its namespace, its containers and its volumes.

use std::fmt;

use crate::Refusal;

/// The maximum bytes of a name (RFC 1123).
const MAX_LENGTH: usize = 63;
/// Namespaces of the cluster and of the node's own pods.
const RESERVED: [&str; 3] = ["kube-node-lease", "kube-public", "kube-system"];
/// The start of the names of debug containers' pods.
const DEBUG: &str = "debug-";

/// The name of a static pod, of a container, or of a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodName(String);

impl PodName {
    /// Reads a name.
    ///
    /// # Errors
    /// It is not 1 to 63 lower-case letters, digits and dashes, the first and the last of them a
    /// letter or a digit.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_name = (1..=MAX_LENGTH).contains(&text.len())
            && text.bytes().all(|byte| is_inside(byte) || byte == b'-')
            && !text.starts_with('-')
            && !text.ends_with('-');
        match is_name {
            true => Ok(Self(text.to_owned())),
            false => {
                let start: String = text.chars().take(MAX_LENGTH).collect();
                Err(Refusal::malformed(format!(
                    "`{start}` is not a name in a static pod: lower-case letters, digits and `-`"
                )))
            }
        }
    }

    /// Reads the name of a pod, which is no debug container's.
    ///
    /// # Errors
    /// It is no name, or begins with `debug-`.
    pub fn of_pod(text: &str) -> Result<Self, Refusal> {
        match Self::parse(text)? {
            name if name.0.starts_with(DEBUG) => Err(Refusal::malformed(format!(
                "`{name}` is the name of a debug container: a static pod has another one"
            ))),
            name => Ok(name),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The namespace of a static pod: `default`, or another one that is not the cluster's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodNamespace(PodName);

impl PodNamespace {
    /// Reads a namespace. Without a text it is `default`.
    ///
    /// # Errors
    /// It is no name, or is a namespace of the cluster and of the node's own pods.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        match PodName::parse(if text.is_empty() { "default" } else { text })? {
            name if RESERVED.contains(&name.as_str()) => Err(Refusal::malformed(format!(
                "the namespace `{name}` has the node's own pods: a static pod is in another one"
            ))),
            name => Ok(Self(name)),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Whether it is that of a pod which names none.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for PodNamespace {
    fn default() -> Self {
        Self(PodName("default".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_label_of_dns() {
        for text in ["web", "a", "7-a", &"a".repeat(63)] {
            assert_eq!(PodName::of_pod(text).map(|name| name.to_string()).as_deref(), Ok(text));
        }
        for text in ["", "-a", "a-", "A", "a.b", "../a", "a b", "a/b", "\u{e4}", &"a".repeat(64)] {
            assert!(PodName::parse(text).is_err(), "{text}");
        }
        assert!(PodName::of_pod("debug-07070707").is_err());
    }

    #[test]
    fn a_static_pod_is_not_among_the_nodes_own() {
        assert!(PodNamespace::parse("").unwrap().is_default());
        assert!(!PodNamespace::parse("media").unwrap().is_default());
        for text in ["kube-system", "kube-public", "kube-node-lease", "a/b"] {
            assert!(PodNamespace::parse(text).is_err(), "{text}");
        }
    }
}
