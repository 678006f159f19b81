//! The rights on its node that a static pod can have. A recipe names those that there may be.

use std::collections::BTreeSet;
use std::fmt;

use crate::setting::MountPath;
use crate::{Refusal, RefusalCode};

/// The capabilities that every container of an ordinary pod has. They count in its own namespaces,
/// over its own files and processes.
const ORDINARY: [&str; 9] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETGID",
    "SETUID",
    "SYS_CHROOT",
];
/// The maximum bytes of the name of a capability.
const MAX_NAME: usize = 32;

/// A capability (capabilities(7)) without `CAP_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capability(String);

impl Capability {
    /// Reads a name.
    ///
    /// # Errors
    /// It is not upper-case letters, digits and `_`, or has `CAP_` in front. `ALL` is none.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let is_known =
            |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        let is_name = (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_known);
        match is_name && text != "ALL" && !text.starts_with("CAP_") {
            true => Ok(Self(text.to_owned())),
            false => {
                let start: String = text.chars().take(MAX_NAME).collect();
                Err(Refusal::malformed(format!(
                    "`{start}` is not a capability, such as `NET_ADMIN`, without `CAP_`"
                )))
            }
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is one that gives nothing on the node.
    pub(super) fn is_ordinary(&self) -> bool {
        ORDINARY.contains(&self.as_str())
    }
}

/// A right on the node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodRight {
    /// The network of the node.
    HostNetwork,
    /// The processes of the node.
    HostPid,
    /// All capabilities and all devices.
    Privileged,
    /// A capability beside those of ordinary pods.
    Capability(Capability),
    /// A folder of the node, of this path.
    HostPath(MountPath),
}

const HOST_NETWORK: &str = "host-network";
const HOST_PID: &str = "host-pid";
const PRIVILEGED: &str = "privileged";
const CAPABILITY: &str = "capability=";
const HOST_PATH: &str = "host-path=";

impl PodRight {
    /// Reads the word of a right.
    ///
    /// # Errors
    /// There is no such right.
    pub fn parse(word: &str) -> Result<Self, Refusal> {
        if let Some(name) = word.strip_prefix(CAPABILITY) {
            return Capability::parse(name).map(Self::Capability);
        }
        if let Some(path) = word.strip_prefix(HOST_PATH) {
            return MountPath::parse(path).map(Self::HostPath);
        }
        match word {
            HOST_NETWORK => Ok(Self::HostNetwork),
            HOST_PID => Ok(Self::HostPid),
            PRIVILEGED => Ok(Self::Privileged),
            _ => {
                let start: String = word.chars().take(MAX_NAME).collect();
                Err(Refusal::malformed(format!(
                    "`{start}` is not a right of static pods: `{HOST_NETWORK}`, `{HOST_PID}`, \
                     `{PRIVILEGED}`, `{CAPABILITY}NAME` and `{HOST_PATH}PATH` are"
                )))
            }
        }
    }
}

impl fmt::Display for PodRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostNetwork => f.write_str(HOST_NETWORK),
            Self::HostPid => f.write_str(HOST_PID),
            Self::Privileged => f.write_str(PRIVILEGED),
            Self::Capability(Capability(name)) => write!(f, "{CAPABILITY}{name}"),
            Self::HostPath(path) => write!(f, "{HOST_PATH}{path}"),
        }
    }
}

/// The rights that a recipe allows static pods of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodRights {
    /// There are no such pods.
    Off,
    /// Pods may have these.
    Some(BTreeSet<PodRight>),
}

impl PodRights {
    /// The word in a recipe with which there are no static pods of settings.
    pub const OFF: &'static str = "off";

    /// Reads the lines of the recipe's file. Without one, pods have no rights. A line that is no
    /// right gives none.
    pub fn of_lines(lines: Option<&str>) -> Self {
        let mut lines = lines.unwrap_or_default().lines().map(str::trim);
        if lines.clone().any(|line| line == Self::OFF) {
            return Self::Off;
        }
        Self::Some(lines.by_ref().filter_map(|line| PodRight::parse(line).ok()).collect())
    }

    /// Checks that a pod may have all of these.
    ///
    /// # Errors
    /// There are no static pods, or some rights are not allowed: the reason names all of them.
    pub fn permit(&self, wanted: &BTreeSet<PodRight>) -> Result<(), Refusal> {
        let reason = match self {
            Self::Off => {
                "the recipe of the node allows no static pods (`static-pods` of `[api]`)".to_owned()
            }
            Self::Some(allowed) => {
                let missing = wanted.difference(allowed).map(|right| format!("`{right}`"));
                let missing: Vec<String> = missing.collect();
                if missing.is_empty() {
                    return Ok(());
                }
                let missing = missing.join(", ");
                format!("the recipe of the node allows no {missing} (`static-pods` of `[api]`)")
            }
        };
        Err(Refusal::new(RefusalCode::NotAllowed, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&str; 5] =
        ["host-network", "host-pid", "privileged", "capability=NET_ADMIN", "host-path=/srv/media"];

    #[test]
    fn a_right_is_a_word() {
        for word in ALL {
            assert_eq!(PodRight::parse(word).unwrap().to_string(), word);
        }
        for word in [
            "",
            "hostNetwork",
            "off",
            "capability=",
            "capability=ALL",
            "capability=CAP_SYS_ADMIN",
            "capability=net_admin",
            "host-path=",
            "host-path=/",
            "host-path=srv",
            "host-path=/srv/../etc",
        ] {
            assert!(PodRight::parse(word).is_err(), "{word}");
        }
    }

    #[test]
    fn the_recipe_decides_which_rights_there_are() {
        let wanted = |words: &[&str]| {
            words.iter().map(|word| PodRight::parse(word).unwrap()).collect::<BTreeSet<_>>()
        };
        let allowed = |lines| PodRights::of_lines(lines);
        assert_eq!(allowed(None).permit(&wanted(&[])), Ok(()));
        assert_eq!(allowed(Some("host-network\n")).permit(&wanted(&["host-network"])), Ok(()));
        for lines in [None, Some(""), Some("all\nhost-path=/srv\ncapability=SYS_TIME\n")] {
            for word in ALL {
                let refusal = allowed(lines).permit(&wanted(&[word])).unwrap_err();
                assert_eq!(refusal.code, RefusalCode::NotAllowed, "{lines:?} {word}");
                assert!(refusal.reason.contains(word), "{refusal}");
            }
        }
        let both = allowed(None).permit(&wanted(&["privileged", "host-pid"])).unwrap_err();
        assert!(both.reason.contains("`host-pid`, `privileged`"), "{both}");
        assert!(allowed(Some("host-network\noff\n")).permit(&wanted(&[])).is_err());
    }
}
