//! The message on the consoles: `[motd]`.

use osbuild_protocol::Motd;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// The section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Section {
    /// The message.
    #[serde(deserialize_with = "text")]
    pub text: Motd,
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Motd, D::Error> {
    let text = String::deserialize(deserializer)?;
    Motd::parse(&text).map_err(|refusal| D::Error::custom(refusal.reason))
}
