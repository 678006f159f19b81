//! The control plane that runs on the node: `[control-plane]`.

use osbuild_protocol::ControlPlane;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    configuration: String,
}

/// Reads the section.
pub fn plane<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ControlPlane>, D::Error> {
    let section = Section::deserialize(deserializer)?;
    let plane = ControlPlane::parse(&section.configuration);
    plane.map(Some).map_err(|refusal| D::Error::custom(refusal.reason))
}
