//! Labels and taints with which the node registers: `labels` and `taints`.

use osbuild_protocol::{LabelKey, LabelValue, NodeLabel, NodeTaint};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Labels by their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Labels(BTreeMap<Key, Value>);

impl Labels {
    /// The labels.
    pub fn iter(&self) -> impl Iterator<Item = NodeLabel> {
        self.0
            .iter()
            .map(|(Key(key), Value(value))| NodeLabel { key: key.clone(), value: value.clone() })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct Key(LabelKey);

impl TryFrom<String> for Key {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        LabelKey::parse(&text).map(Key).map_err(|refusal| refusal.reason)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct Value(LabelValue);

impl TryFrom<String> for Value {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        LabelValue::parse(&text).map(Value).map_err(|refusal| refusal.reason)
    }
}

/// A taint: `KEY=VALUE:EFFECT` or `KEY:EFFECT`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Taint(pub NodeTaint);

impl TryFrom<String> for Taint {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        NodeTaint::parse(&text).map(Taint).map_err(|refusal| refusal.reason)
    }
}
