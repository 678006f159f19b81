//! Labels of the node
//! (`https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/`).

use std::fmt;

use super::LabelValue;
use crate::Refusal;

/// The longest name and value, and the longest prefix of a key, in bytes.
const MAX_NAME: usize = 63;
const MAX_PREFIX: usize = 253;

/// Domains whose labels belong to Kubernetes.
const RESERVED: [&str; 2] = ["kubernetes.io", "k8s.io"];

/// The domains and the labels below [`RESERVED`] that a kubelet may set on its node: with any other
/// it does not start (`staging/src/k8s.io/kubelet/pkg/apis/well_known_labels.go`), and the API
/// server refuses it (`NodeRestriction`).
const OWN_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
const OWN: [&str; 10] = [
    "kubernetes.io/hostname",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/instance-type",
];

/// The key of a label that a kubelet may set on its node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabelKey(String);

/// A label that a kubelet may set on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLabel {
    /// Its key.
    pub key: LabelKey,
    /// Its value.
    pub value: LabelValue,
}

impl LabelKey {
    /// Reads a key.
    ///
    /// # Errors
    /// It has another form, or belongs to Kubernetes.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        if !is_key(text) {
            let start: String = text.chars().take(64).collect();
            return Err(Refusal::malformed(format!("`{start}` is not the key of a label")));
        }
        let (prefix, _) = text.split_once('/').unwrap_or(("", text));
        let is_reserved = RESERVED.iter().any(|domain| is_within(prefix, domain));
        let is_own =
            OWN_DOMAINS.iter().any(|domain| is_within(prefix, domain)) || OWN.contains(&text);
        match is_reserved && !is_own {
            true => Err(Refusal::malformed(format!(
                "a node may not give itself the label `{text}`: it belongs to Kubernetes \
                 (NodeRestriction)"
            ))),
            false => Ok(Self(text.to_owned())),
        }
    }

    /// The key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl NodeLabel {
    /// Reads both.
    ///
    /// # Errors
    /// One of them is malformed, or the label belongs to Kubernetes.
    pub fn parse(key: &str, value: &str) -> Result<Self, Refusal> {
        Ok(Self { key: LabelKey::parse(key)?, value: LabelValue::parse(value)? })
    }
}

impl fmt::Display for LabelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `KEY=VALUE`.
impl fmt::Display for NodeLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value.as_str())
    }
}

/// Whether this is a key: a name, or a domain, a slash and a name.
pub(super) fn is_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
        None => is_name(text),
    }
}

/// Whether this is a name, such as a label's value.
pub(super) fn is_name(text: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= MAX_NAME
        && is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes.iter().all(|byte| is_inside(*byte))
}

/// Whether this is a DNS subdomain (RFC 1123) in lower case.
pub fn is_subdomain(text: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.bytes().all(is_inside)
    };
    text.len() <= MAX_PREFIX && text.split('.').all(is_part)
}

/// Whether `domain` is `whole` or below it.
fn is_within(domain: &str, whole: &str) -> bool {
    domain.strip_suffix(whole).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_accepted(key: &str) -> bool {
        LabelKey::parse(key).is_ok()
    }

    #[test]
    fn a_node_gives_itself_labels_of_its_owner_and_some_of_kubernetes() {
        for key in [
            "rack",
            "example.org/rack",
            "topology.kubernetes.io/zone",
            "failure-domain.beta.kubernetes.io/region",
            "node.kubernetes.io/instance-type",
            "sub.node.kubernetes.io/a",
            "notkubernetes.io/a",
        ] {
            assert!(is_accepted(key), "{key}");
        }
        for key in [
            "node-role.kubernetes.io/control-plane",
            "node-restriction.kubernetes.io/a",
            "kubernetes.io/a",
            "k8s.io/a",
            "x.k8s.io/a",
        ] {
            let refusal = LabelKey::parse(key).unwrap_err();
            assert!(refusal.reason.contains("NodeRestriction"), "{key}");
        }
    }

    #[test]
    fn a_key_has_the_form_of_kubernetes() {
        let long = "a".repeat(MAX_NAME);
        assert!(is_accepted(&long) && is_accepted(&format!("example.org/{long}")));
        for key in ["", "/a", "a/", "a/b/c", "-a", "a-", "A.org/a", "a b", &format!("{long}a")] {
            assert!(!is_accepted(key), "{key}");
        }
    }
}
