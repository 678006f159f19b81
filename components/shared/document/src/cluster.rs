//! `[cluster]`: the cluster that the node joins.

use crate::server::ServerUrl;
use crate::token::BootstrapToken;
use serde::Deserialize;
use std::net::IpAddr;

/// The cluster that the node joins.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Cluster {
    /// Its API server.
    pub server: ServerUrl,
    /// The certificates that sign those of the API server and of its clients.
    pub certificate_authority: Certificates,
    /// The token with which the node requests its first certificate. A node that has one needs no
    /// token.
    pub token: Option<BootstrapToken>,
    /// The addresses of the name server for pods.
    #[serde(default)]
    pub dns: Vec<IpAddr>,
    /// The domain of its Services.
    #[serde(default)]
    pub domain: Domain,
}

/// One or more certificates in PEM (RFC 7468).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Certificates(String);

impl Certificates {
    /// The PEM text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Certificates {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.contains("PRIVATE KEY-----") {
            return Err("a private key is not a certificate, and does not belong on a node");
        }
        let begin = text.find("-----BEGIN CERTIFICATE-----");
        let has_end =
            begin.is_some_and(|begin| text[begin..].contains("-----END CERTIFICATE-----"));
        match has_end {
            true => Ok(Self(text)),
            false => Err("the text of certificates in PEM is expected, not the path of a file"),
        }
    }
}

/// A DNS domain (RFC 1123).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Domain(String);

impl Domain {
    /// The domain without a dot at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Domain {
    fn default() -> Self {
        Domain("cluster.local".to_owned())
    }
}

impl TryFrom<String> for Domain {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match osbuild_protocol::is_subdomain(&text) {
            true => Ok(Self(text)),
            false => Err(format!("`{text}` is not a domain")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_certificates_are_accepted_as_an_authority() {
        let pem = |label: &str| format!("-----BEGIN {label}-----\nAA==\n-----END {label}-----\n");
        assert!(Certificates::try_from(pem("CERTIFICATE")).is_ok());
        assert!(Certificates::try_from(pem("CERTIFICATE").repeat(2)).is_ok());
        for text in ["", "/etc/kubernetes/pki/ca.crt", "-----BEGIN CERTIFICATE-----\nAA==\n"] {
            assert!(Certificates::try_from(text.to_owned()).is_err(), "{text}");
        }
        let with_key = pem("CERTIFICATE") + &pem("EC PRIVATE KEY");
        assert!(Certificates::try_from(with_key).unwrap_err().contains("private key"));
    }

    #[test]
    fn a_domain_is_in_lower_case_and_has_no_dot_at_its_end() {
        assert!(Domain::try_from("cluster.local".to_owned()).is_ok());
        for text in ["", "Cluster.local", "cluster.local.", "a..b", "a b"] {
            assert!(Domain::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
