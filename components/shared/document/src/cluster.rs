//! The cluster that the node joins: `[cluster]`. Its names and values are those of the spec of
//! `osbuild.v1`.

use osbuild_protocol::{
    Authorities, BootstrapToken, ClusterDomain, ClusterJoin, Refusal, ServerUrl,
};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::net::IpAddr;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Section {
    #[serde(deserialize_with = "server")]
    server: ServerUrl,
    #[serde(deserialize_with = "authorities")]
    certificate_authority: Authorities,
    #[serde(default, deserialize_with = "token")]
    token: Option<BootstrapToken>,
    #[serde(default)]
    dns: Vec<IpAddr>,
    #[serde(default, deserialize_with = "domain")]
    domain: ClusterDomain,
}

/// Reads the section.
pub fn cluster<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ClusterJoin>, D::Error> {
    let Section { server, certificate_authority, token, dns, domain } =
        Section::deserialize(deserializer)?;
    let join = ClusterJoin::new(server, certificate_authority, token, dns, domain);
    join.map(Some).map_err(|refusal| D::Error::custom(refusal.reason))
}

fn server<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ServerUrl, D::Error> {
    text(deserializer, ServerUrl::parse)
}

fn authorities<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Authorities, D::Error> {
    text(deserializer, Authorities::from_pem)
}

fn token<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BootstrapToken>, D::Error> {
    text(deserializer, BootstrapToken::parse).map(Some)
}

fn domain<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ClusterDomain, D::Error> {
    text(deserializer, ClusterDomain::parse)
}

fn text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: fn(&str) -> Result<T, Refusal>,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map_err(|refusal| D::Error::custom(refusal.reason))
}

#[cfg(test)]
mod tests {
    use crate::Document;

    const PEM: &str = "-----BEGIN CERTIFICATE-----\\nMIIB\\n-----END CERTIFICATE-----\\n";

    #[test]
    fn a_refusal_names_the_key_and_never_the_token() {
        let usual = format!("server = \"https://a\"\ncertificate-authority = \"{PEM}\"\n");
        assert!(Document::parse(&format!("[cluster]\n{usual}")).is_ok());
        for (text, line, reason) in [
            ("server = \"http://a\"\n", 2, "`http://a` is not the `https` URL of an API server"),
            ("server = \"https://a\"\ncertificate-authority = \"/ca.crt\"\n", 3, "in PEM"),
            (&format!("{usual}token = \"hunter2\"\n"), 4, "a bootstrap token has 6 lower-case"),
            (&format!("{usual}dns = [\"kube-dns\"]\n"), 4, "invalid IP address"),
            (&format!("{usual}domain = \"Cluster.local\"\n"), 4, "is not a domain"),
            (&format!("{usual}ca = \"a\"\n"), 4, "unknown field `ca`, expected one of `server`"),
        ] {
            let refusal = Document::parse(&format!("[cluster]\n{text}")).unwrap_err();
            assert_eq!(refusal.line, line, "{text}: {refusal}");
            assert!(refusal.reason.contains(reason), "{text}: {refusal}");
            assert!(!refusal.reason.contains("hunter2"), "{refusal}");
        }
    }
}
