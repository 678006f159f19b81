//! Taints of the node
//! (`https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/`).

use std::fmt;

use super::LabelValue;
use super::label::is_key;
use crate::Refusal;

/// The effect of a taint on pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaintEffect {
    /// They are not scheduled to the node.
    NoSchedule,
    /// They are scheduled to it if there is no other.
    PreferNoSchedule,
    /// They are evicted, too.
    NoExecute,
}

/// A taint without its value. A node has one for each key and effect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaintName {
    key: String,
    effect: TaintEffect,
}

/// A taint with which the node registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTaint {
    /// The taint without its value.
    pub name: TaintName,
    /// Its value.
    pub value: LabelValue,
}

impl TaintEffect {
    const ALL: [TaintEffect; 3] = [Self::NoSchedule, Self::PreferNoSchedule, Self::NoExecute];

    /// Its word in the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

impl TaintName {
    /// Reads `KEY:EFFECT`.
    ///
    /// # Errors
    /// It has another form.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let (key, effect) = text.rsplit_once(':').unwrap_or((text, ""));
        let effect = TaintEffect::ALL.into_iter().find(|one| one.word() == effect);
        match effect.filter(|_| is_key(key)) {
            Some(effect) => Ok(Self { key: key.to_owned(), effect }),
            None => Err(refusal(text)),
        }
    }

    /// Its key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its effect on pods that do not tolerate it.
    pub fn effect(&self) -> TaintEffect {
        self.effect
    }
}

impl NodeTaint {
    /// Reads `KEY=VALUE:EFFECT` or `KEY:EFFECT`, as `kubectl taint` does.
    ///
    /// # Errors
    /// It has another form.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let (rest, effect) = text.rsplit_once(':').ok_or_else(|| refusal(text))?;
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        let name = TaintName::parse(&format!("{key}:{effect}")).map_err(|_| refusal(text))?;
        Ok(Self { name, value: LabelValue::parse(value).map_err(|_| refusal(text))? })
    }

    /// Reads the parts.
    ///
    /// # Errors
    /// One of them has another form.
    pub fn new(key: &str, value: &str, effect: &str) -> Result<Self, Refusal> {
        let name = TaintName::parse(&format!("{key}:{effect}"))?;
        Ok(Self { name, value: LabelValue::parse(value)? })
    }
}

fn refusal(text: &str) -> Refusal {
    let start: String = text.chars().take(64).collect();
    let effects = TaintEffect::ALL.map(TaintEffect::word).join(", ");
    Refusal::malformed(format!(
        "`{start}` is not a taint, `KEY=VALUE:EFFECT`, where EFFECT is one of {effects}"
    ))
}

/// `KEY:EFFECT`.
impl fmt::Display for TaintName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.key, self.effect.word())
    }
}

/// `KEY=VALUE:EFFECT` or `KEY:EFFECT`.
impl fmt::Display for NodeTaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value.as_str();
        let equals = if value.is_empty() { "" } else { "=" };
        write!(f, "{}{equals}{value}:{}", self.name.key, self.name.effect.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taint_is_written_as_kubectl_takes_it() {
        for text in ["a=b:NoSchedule", "example.org/a:NoExecute", "a:PreferNoSchedule"] {
            assert_eq!(NodeTaint::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "a", "a=b", "a:", ":NoSchedule", "a=b=c:NoSchedule", "a:noschedule"] {
            assert!(NodeTaint::parse(text).is_err(), "{text}");
        }
    }
}
