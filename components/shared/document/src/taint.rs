//! Taints (`https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/`).

use crate::label::{is_key, is_name};
use serde::Deserialize;
use std::fmt;

/// A taint with which the node registers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value, which may be empty.
    pub value: String,
    /// What it does to pods that do not tolerate it.
    pub effect: Effect,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// They are not scheduled to the node.
    NoSchedule,
    /// They are scheduled to it if there is no other.
    PreferNoSchedule,
    /// They are evicted, too.
    NoExecute,
}

impl Effect {
    const ALL: [Effect; 3] = [Self::NoSchedule, Self::PreferNoSchedule, Self::NoExecute];

    /// Its word in the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

impl TryFrom<String> for Taint {
    type Error = String;

    /// Reads `KEY=VALUE:EFFECT` or `KEY:EFFECT`, as `kubectl taint` does.
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let parse = || {
            let (rest, effect) = text.rsplit_once(':')?;
            let effect = Effect::ALL.into_iter().find(|one| one.word() == effect)?;
            let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
            let is_valid = is_key(key) && (value.is_empty() || is_name(value));
            is_valid.then(|| Taint { key: key.to_owned(), value: value.to_owned(), effect })
        };
        parse().ok_or_else(|| {
            let effects = Effect::ALL.map(Effect::word).join(", ");
            format!("`{text}` is not a taint, `KEY=VALUE:EFFECT`, where EFFECT is one of {effects}")
        })
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let equals = if self.value.is_empty() { "" } else { "=" };
        write!(formatter, "{}{equals}{}:{}", self.key, self.value, self.effect.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taint_is_written_as_kubectl_takes_it() {
        for text in ["a=b:NoSchedule", "example.org/a:NoExecute", "a:PreferNoSchedule"] {
            assert_eq!(Taint::try_from(text.to_owned()).unwrap().to_string(), text);
        }
        for text in ["", "a", "a=b", "a:", ":NoSchedule", "a=b=c:NoSchedule", "a:noschedule"] {
            assert!(Taint::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
