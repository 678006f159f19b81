//! Swap in compressed memory: `[swap]`. Its names and values are those of the spec of `osbuild.v1`.

use osbuild_protocol::{Refusal, Swap, SwapSize};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Section {
    size: String,
    memory_limit: Option<String>,
    #[serde(default)]
    pods: bool,
}

impl Section {
    fn swap(&self) -> Result<Swap, Refusal> {
        let limit = self.memory_limit.as_deref().map(SwapSize::parse).transpose()?;
        Swap::new(SwapSize::parse(&self.size)?, limit, self.pods)
    }
}

/// Reads the section.
pub fn swap<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Swap>, D::Error> {
    let section = Section::deserialize(deserializer)?;
    section.swap().map(Some).map_err(|refusal| D::Error::custom(refusal.reason))
}
