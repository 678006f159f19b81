//! The settings of the host: `hostname`, `time-servers`, `[resolver]` and `[kernel-parameters]`.
//! Their names and values are those of the specs of `osbuild.v1`.

use crate::bounded::too_many;
use osbuild_protocol::{
    Entry, HostName, KernelParameter, List, MAX_PARAMETERS, NameServers, ParameterKey,
    ParameterValue, SearchDomains,
};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// How the node resolves names. A list that is missing leaves that of the network in effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Resolver {
    /// The name servers.
    #[serde(default, deserialize_with = "list")]
    pub nameserver: Option<NameServers>,
    /// The search list.
    #[serde(default, deserialize_with = "list")]
    pub search: Option<SearchDomains>,
}

/// Parameters of the kernel by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "BTreeMap<Key, Value>")]
pub struct KernelParameters(BTreeMap<Key, Value>);

impl TryFrom<BTreeMap<Key, Value>> for KernelParameters {
    type Error = String;

    fn try_from(parameters: BTreeMap<Key, Value>) -> Result<Self, Self::Error> {
        match parameters.len() <= MAX_PARAMETERS {
            true => Ok(Self(parameters)),
            false => Err(too_many(MAX_PARAMETERS, "kernel parameters")),
        }
    }
}

impl KernelParameters {
    /// The parameters.
    pub fn iter(&self) -> impl Iterator<Item = KernelParameter> {
        self.0.iter().map(|(Key(key), Value(value))| KernelParameter {
            key: key.clone(),
            value: value.clone(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct Key(ParameterKey);

impl TryFrom<String> for Key {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        ParameterKey::parse(&text).map(Key).map_err(|refusal| refusal.reason)
    }
}

/// A text, or the number that most parameters have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "TextOrNumber")]
struct Value(ParameterValue);

#[derive(Deserialize)]
#[serde(untagged, expecting = "a text or an integer is expected")]
enum TextOrNumber {
    Text(String),
    Number(i64),
}

impl TryFrom<TextOrNumber> for Value {
    type Error = String;

    fn try_from(value: TextOrNumber) -> Result<Self, Self::Error> {
        let text = match value {
            TextOrNumber::Text(text) => text,
            TextOrNumber::Number(number) => number.to_string(),
        };
        ParameterValue::parse(&text).map(Value).map_err(|refusal| refusal.reason)
    }
}

/// Reads a host name.
pub fn hostname<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<HostName>, D::Error> {
    let name = String::deserialize(deserializer)?;
    HostName::parse(&name).map(Some).map_err(|refusal| D::Error::custom(refusal.reason))
}

/// Reads a list.
pub fn list<'de, D: Deserializer<'de>, T: Entry, const MAX: usize>(
    deserializer: D,
) -> Result<Option<List<T, MAX>>, D::Error> {
    let words = Vec::<String>::deserialize(deserializer)?;
    let list = List::parse(words.iter().map(String::as_str));
    list.map(Some).map_err(|refusal| D::Error::custom(refusal.reason))
}
