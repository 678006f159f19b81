//! The configuration of the control plane that runs on the node.

use super::escape::{escaped, unescape};
use crate::Refusal;

/// The maximum bytes of a value, so that it fits in the line of a request.
const MAX_LENGTH: usize = 12 << 10;

/// The kind of the object, and the start of its version.
const KIND: &str = "ClusterConfiguration";
const GROUP: &str = "kubeadm.k8s.io/";

/// A `ClusterConfiguration` of kubeadm: one YAML document in block style
/// (`https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4/`). Its fields are
/// kubeadm's to check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlPlane(String);

impl ControlPlane {
    /// The value on the host once kubeadm has made the control plane with the configuration.
    pub const MADE: &str = "made";

    /// Reads a text. Spaces at the ends of its lines, and empty lines at its end, are left out.
    ///
    /// # Errors
    /// It is too long, has a control character, has several documents, or is of another kind.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let lines: Vec<&str> = text.lines().map(|line| line.trim_end_matches(' ')).collect();
        let text = format!("{}\n", lines.join("\n").trim_end_matches('\n'));
        if let Some(wrong) = text.chars().find(|one| one.is_control() && *one != '\n') {
            let code = u32::from(wrong);
            return Err(Refusal::malformed(format!(
                "the configuration of the control plane has the character U+{code:04X}"
            )));
        }
        if escaped(&text).len() > MAX_LENGTH {
            return Err(Refusal::malformed(format!(
                "the configuration of the control plane takes more than {MAX_LENGTH} bytes, where \
                 a space and a line break count three"
            )));
        }
        let is_marker = |line: &&str| *line == "---" || line.starts_with("--- ");
        let markers = lines.iter().filter(|line| is_marker(line)).count();
        let is_first = lines.iter().find(|line| !is_ignored(line)).is_some_and(is_marker);
        if markers > usize::from(is_first) {
            return Err(Refusal::malformed(format!(
                "the configuration of the control plane is one document, a `{KIND}`: the other \
                 objects of kubeadm are in its file on DATA"
            )));
        }
        if field(&lines, "kind") != Some(KIND)
            || !field(&lines, "apiVersion").is_some_and(|version| version.starts_with(GROUP))
        {
            return Err(Refusal::malformed(format!(
                "the configuration of the control plane has no lines `apiVersion: {GROUP}v1beta4` \
                 and `kind: {KIND}`"
            )));
        }
        Ok(Self(text))
    }

    /// Reads what [`Self::word`] writes.
    pub(super) fn parse_word(word: &str) -> Result<Self, Refusal> {
        let text = unescape(word).filter(|_| !word.contains(' '));
        let malformed =
            || Refusal::malformed("the configuration of the control plane is not one escaped word");
        Self::parse(&text.ok_or_else(malformed)?)
    }

    /// The text, which ends with a line feed.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text as one word.
    pub(super) fn word(&self) -> String {
        escaped(&self.0)
    }
}

/// Whether a line is empty or a comment.
fn is_ignored(line: &&&str) -> bool {
    line.is_empty() || line.starts_with('#')
}

/// The value of a field of the object.
fn field<'a>(lines: &[&'a str], name: &str) -> Option<&'a str> {
    let value = |line: &&'a str| line.strip_prefix(name)?.strip_prefix(':');
    let value = lines.iter().find_map(value)?;
    let value = value.split(" #").next().unwrap_or_default().trim();
    Some(value.trim_matches(['"', '\'']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMALLEST: &str = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n";

    #[test]
    fn a_configuration_is_read_as_it_was_written() {
        for (text, expected) in [
            (SMALLEST, SMALLEST),
            (
                "# 50%, ours \n---\nkind: \"ClusterConfiguration\" # of all\r\n\
              apiVersion: 'kubeadm.k8s.io/v1beta4'\n\n\n",
                "# 50%, ours\n---\nkind: \"ClusterConfiguration\" # of all\n\
              apiVersion: 'kubeadm.k8s.io/v1beta4'\n",
            ),
        ] {
            let plane = ControlPlane::parse(text).unwrap();
            assert_eq!(plane.as_str(), expected);
            assert!(plane.word().bytes().all(|byte| byte.is_ascii_graphic()));
            assert_eq!(ControlPlane::parse_word(&plane.word()), Ok(plane));
        }
    }

    #[test]
    fn what_is_not_one_such_object_is_refused_with_the_reason() {
        let join = SMALLEST.replace("Cluster", "Join");
        for (text, reason) in [
            (String::new(), "has no lines `apiVersion"),
            ("kind: ClusterConfiguration\n".to_owned(), "has no lines `apiVersion"),
            (SMALLEST.replace("kubeadm.", "kubelet."), "has no lines `apiVersion"),
            (join.clone(), "has no lines `apiVersion"),
            (format!(" {SMALLEST}"), "has no lines `apiVersion"),
            (format!("{SMALLEST}---\n{join}"), "is one document"),
            (format!("---\n{SMALLEST}--- # more\n{join}"), "is one document"),
            (format!("{SMALLEST}clusterName: a\u{7}\n"), "has the character U+0007"),
            (format!("{SMALLEST}clusterName:\ta\n"), "has the character U+0009"),
            (format!("{SMALLEST}clusterName: {}\n", "a".repeat(12 << 10)), "takes more than 12288"),
        ] {
            let refusal = ControlPlane::parse(&text).unwrap_err();
            assert!(refusal.reason.contains(reason), "{text:.99}: {refusal}");
        }
        for word in ["a b", "%", "%ff", ""] {
            assert!(ControlPlane::parse_word(word).is_err(), "{word}");
        }
    }

    proptest! {
        #[test]
        fn every_text_that_is_accepted_is_stable(end in "([ -~]{0,9}|\\PC|\n){0,6}") {
            if let Ok(plane) = ControlPlane::parse(&format!("{SMALLEST}{end}")) {
                prop_assert_eq!(ControlPlane::parse(plane.as_str()), Ok(plane.clone()));
                prop_assert_eq!(ControlPlane::parse_word(&plane.word()), Ok(plane));
            }
        }
    }
}
