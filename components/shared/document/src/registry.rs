//! Mirrors of registries: `[[registry-mirrors]]`. Their names and values are those of the specs of
//! `osbuild.v1`.

use osbuild_protocol::{
    Authorities, MirrorHost, Refusal, RegistryMirror, RegistryName, RegistryUrl,
};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Entry {
    registry: String,
    #[serde(default)]
    mirrors: Vec<Host>,
    server: Option<String>,
    certificate_authority: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    url: String,
    #[serde(default)]
    capabilities: Vec<String>,
}

impl Entry {
    fn mirror(&self) -> Result<RegistryMirror, Refusal> {
        let mirrors = self.mirrors.iter().map(|Host { url, capabilities }| {
            MirrorHost::parse(url, capabilities.iter().map(String::as_str))
        });
        let authorities = self.certificate_authority.as_deref().map(Authorities::from_pem);
        RegistryMirror::new(
            RegistryName::parse(&self.registry)?,
            mirrors.collect::<Result<_, _>>()?,
            self.server.as_deref().map(RegistryUrl::parse).transpose()?,
            authorities.transpose()?.unwrap_or_default(),
        )
    }
}

/// Reads the mirrors of registries, each of which is there once.
pub fn mirrors<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<RegistryMirror>, D::Error> {
    let mut mirrors: Vec<RegistryMirror> = Vec::new();
    for entry in Vec::<Entry>::deserialize(deserializer)? {
        let mirror = entry.mirror().map_err(|refusal| D::Error::custom(refusal.reason))?;
        if mirrors.iter().any(|other| other.registry() == mirror.registry()) {
            let registry = mirror.registry();
            return Err(D::Error::custom(format!("the registry `{registry}` is there twice")));
        }
        mirrors.push(mirror);
    }
    Ok(mirrors)
}
