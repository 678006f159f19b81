//! Labels and taints with which the node registers: `labels` and `taints`.

use crate::bounded::{bounded, too_many};
use osbuild_protocol::{LabelKey, LabelValue, MAX_LABELS, MAX_TAINTS, NodeLabel, NodeTaint};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// Labels by their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "BTreeMap<Key, Value>")]
pub struct Labels(BTreeMap<Key, Value>);

impl TryFrom<BTreeMap<Key, Value>> for Labels {
    type Error = String;

    fn try_from(labels: BTreeMap<Key, Value>) -> Result<Self, Self::Error> {
        match labels.len() <= MAX_LABELS {
            true => Ok(Self(labels)),
            false => Err(too_many(MAX_LABELS, "labels")),
        }
    }
}

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

/// Reads taints.
pub fn taints<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Taint>, D::Error> {
    bounded(Vec::deserialize(deserializer)?, MAX_TAINTS, "taints")
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
