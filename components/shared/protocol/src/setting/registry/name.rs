//! The names of registries.

use std::fmt;
use std::net::Ipv4Addr;

use super::super::host::{is_host, is_port};
use crate::Refusal;

/// A registry as the names of its images begin: a host, and perhaps a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegistryName(String);

impl RegistryName {
    /// Reads a name.
    ///
    /// # Errors
    /// It is not a DNS name or IPv4 address in lower case, perhaps with a port.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let is_name = match text.split_once(':') {
            Some((host, port)) => is_host(host) && is_port(port),
            None => is_host(text),
        };
        match is_name {
            true => Ok(Self(text.to_owned())),
            false => {
                let start: String = text.chars().take(64).collect();
                let reason = format!("`{start}` is not a registry: `HOST` or `HOST:PORT`");
                Err(Refusal::malformed(reason))
            }
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the host is this machine: `localhost`, or an address of 127.0.0.0/8.
    pub fn is_loopback(&self) -> bool {
        let host = self.0.split_once(':').map_or(self.0.as_str(), |(host, _)| host);
        host == "localhost" || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for RegistryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_the_name_of_one_folder() {
        for text in ["docker.io", "registry.k8s.io", "localhost:5000", "192.0.2.7", "a-b:65535"] {
            assert_eq!(RegistryName::parse(text).unwrap().as_str(), text);
        }
        let long = vec!["a".repeat(63); 4].join(".");
        for text in [
            "",
            ".",
            "..",
            "_default",
            "docker.io/library",
            "../../etc",
            "Docker.io",
            "a..b",
            "-a",
            "a:",
            "a:0",
            "a:65536",
            "a:+1",
            "a:080",
            "a:1:2",
            "a b",
            "a\n",
            &long,
        ] {
            assert!(RegistryName::parse(text).is_err(), "{text:?}");
        }
    }
}
