//! Programs that give the kubelet the credentials of registries: `[[credential-providers]]`. Their
//! names and values are those of the specs of `osbuild.v1`.

use crate::bounded::bounded;
use osbuild_protocol::{CredentialProvider, MAX_PROVIDERS, ProviderName, ProviderOptions, Refusal};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Entry {
    name: String,
    match_images: Vec<String>,
    default_cache_duration: String,
    api_version: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

impl Entry {
    fn provider(self) -> Result<CredentialProvider, Refusal> {
        let options = ProviderOptions {
            images: self.match_images,
            cache: self.default_cache_duration,
            api_version: self.api_version,
            arguments: self.args,
            variables: self.env.into_iter().collect(),
        };
        CredentialProvider::new(ProviderName::parse(&self.name)?, options)
    }
}

/// Reads providers, of which no two have the same name.
pub fn providers<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<CredentialProvider>, D::Error> {
    let mut providers: Vec<CredentialProvider> = Vec::new();
    for entry in Vec::<Entry>::deserialize(deserializer)? {
        let provider = entry.provider().map_err(|refusal| D::Error::custom(refusal.reason))?;
        if providers.iter().any(|other| other.name() == provider.name()) {
            let name = provider.name();
            let reason = format!("the credential provider `{name}` is there twice");
            return Err(D::Error::custom(reason));
        }
        providers.push(provider);
    }
    bounded(providers, MAX_PROVIDERS, "credential providers")
}
