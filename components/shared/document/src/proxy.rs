//! The proxy of the node's own programs: `[proxy]`. Its names and values are those of the spec of
//! `osbuild.v1`.

use osbuild_protocol::{Proxy, ProxyExclusion, ProxyUrl, Refusal};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Section {
    http: Option<String>,
    https: Option<String>,
    #[serde(default)]
    no_proxy: Vec<String>,
}

impl Section {
    fn proxy(&self) -> Result<Proxy, Refusal> {
        let url = |text: &Option<String>| text.as_deref().map(ProxyUrl::parse).transpose();
        let exclusions = self.no_proxy.iter().map(|entry| ProxyExclusion::parse(entry));
        Proxy::new(url(&self.http)?, url(&self.https)?, exclusions.collect::<Result<_, _>>()?)
    }
}

/// Reads the section.
pub fn proxy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Proxy>, D::Error> {
    let section = Section::deserialize(deserializer)?;
    section.proxy().map(Some).map_err(|refusal| D::Error::custom(refusal.reason))
}
