//! Labels of the node
//! (`https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/`).

use serde::Deserialize;

/// The longest name and value, and the longest prefix of a key, in bytes.
const MAX_NAME: usize = 63;
const MAX_PREFIX: usize = 253;

/// Domains whose labels belong to Kubernetes.
const RESERVED: [&str; 2] = ["kubernetes.io", "k8s.io"];

/// The domains and the labels below [`RESERVED`] that a kubelet may set on its node: with any other
/// it does not start (`staging/src/k8s.io/kubelet/pkg/apis/well_known_labels.go`).
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct LabelKey(String);

impl LabelKey {
    /// The key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for LabelKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if !is_key(&text) {
            return Err(format!("`{text}` is not the key of a label"));
        }
        let (prefix, _) = text.split_once('/').unwrap_or(("", &text));
        let is_reserved = RESERVED.iter().any(|domain| is_within(prefix, domain));
        let is_own = OWN_DOMAINS.iter().any(|domain| is_within(prefix, domain))
            || OWN.contains(&text.as_str());
        match is_reserved && !is_own {
            true => Err(format!("a node may not give itself the label `{text}`")),
            false => Ok(Self(text)),
        }
    }
}

/// The value of a label.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct LabelValue(String);

impl LabelValue {
    /// The value, which may be empty.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for LabelValue {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.is_empty() || is_name(&text) {
            true => Ok(Self(text)),
            false => Err(format!("`{text}` is not the value of a label")),
        }
    }
}

/// Whether this is a key: a name, or a domain, a slash and a name.
pub(crate) fn is_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
        None => is_name(text),
    }
}

/// Whether this is a name, such as a label's value.
pub(crate) fn is_name(text: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= MAX_NAME
        && is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes.iter().all(|byte| is_inside(*byte))
}

/// Whether this is a DNS subdomain (RFC 1123) in lower case.
pub(crate) fn is_subdomain(text: &str) -> bool {
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
        LabelKey::try_from(key.to_owned()).is_ok()
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
            assert!(!is_accepted(key), "{key}");
        }
    }

    #[test]
    fn keys_and_values_have_the_form_of_kubernetes() {
        let long = "a".repeat(MAX_NAME);
        assert!(is_accepted(&long) && is_accepted(&format!("example.org/{long}")));
        for key in ["", "/a", "a/", "a/b/c", "-a", "a-", "A.org/a", "a b", &format!("{long}a")] {
            assert!(!is_accepted(key), "{key}");
        }
        for (value, is_valid) in [("", true), ("a_B.c-1", true), ("a b", false), ("é", false)] {
            assert_eq!(LabelValue::try_from(value.to_owned()).is_ok(), is_valid, "{value}");
        }
    }
}
