//! Mirrors of registries, `[[registry-mirrors]]`, and credentials, `[[registry-credentials]]`.
//! Their names and values are those of the specs of `osbuild.v1`.

use crate::bounded::bounded;
use osbuild_protocol::{
    Authorities, MAX_CREDENTIALS, MAX_REGISTRIES, MirrorHost, Refusal, RegistryCredential,
    RegistryLogin, RegistryMirror, RegistryName, RegistryUrl, Secret,
};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

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
    bounded(mirrors, MAX_REGISTRIES, "registries with mirrors")
}

/// The credentials of a host.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Login {
    registry: String,
    username: Option<String>,
    #[serde(default, deserialize_with = "secret")]
    password: Option<Secret>,
    #[serde(default, deserialize_with = "secret")]
    token: Option<Secret>,
    #[serde(default)]
    plain_http: bool,
}

impl Login {
    fn credential(self) -> Result<RegistryCredential, Refusal> {
        let Login { registry, username, password, token, plain_http } = self;
        let login = RegistryLogin::of(username, password, token)?;
        RegistryCredential::new(RegistryName::parse(&registry)?, login, plain_http)
    }
}

/// Reads a secret. The mistake does not show what is there in its place.
fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
    struct Text;

    impl Visitor<'_> for Text {
        type Value = Secret;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("a text")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Secret, E> {
            Ok(Secret::new(text))
        }
    }

    let read = deserializer.deserialize_str(Text);
    read.map(Some).map_err(|_| D::Error::custom("a secret is a text in quotes"))
}

/// Reads the credentials of hosts, each of which is there once.
pub fn credentials<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<RegistryCredential>, D::Error> {
    let mut credentials: Vec<RegistryCredential> = Vec::new();
    for login in Vec::<Login>::deserialize(deserializer)? {
        let one = login.credential().map_err(|refusal| D::Error::custom(refusal.reason))?;
        if credentials.iter().any(|other| other.registry() == one.registry()) {
            let registry = one.registry();
            let reason = format!("the credentials of `{registry}` are there twice");
            return Err(D::Error::custom(reason));
        }
        credentials.push(one);
    }
    bounded(credentials, MAX_CREDENTIALS, "registry credentials")
}
