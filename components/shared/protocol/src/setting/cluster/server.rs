//! The URL of an API server.

use std::fmt;

use super::super::host::is_authority;
use crate::Refusal;

/// The maximum bytes of a URL.
const MAX_LENGTH: usize = 512;
const SCHEME: &str = "https://";

/// An `https` URL with a host, without credentials, query and fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl(String);

impl ServerUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// It is not `https://HOST[:PORT][/PATH]`.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let place = text.strip_prefix(SCHEME).unwrap_or_default();
        let (authority, path) = place.split_at(place.find('/').unwrap_or(place.len()));
        let is_path =
            path.bytes().all(|byte| byte.is_ascii_graphic() && !b"@?#\"\\%".contains(&byte));
        let is_url = text.len() <= MAX_LENGTH && is_path;
        match is_url && is_authority(&authority.to_ascii_lowercase()) {
            true => Ok(Self(text.to_owned())),
            false => {
                // Credentials before the host are a secret.
                let text = if text.contains('@') { "a URL with `@`" } else { text };
                let start: String = text.chars().take(64).collect();
                let reason = format!("`{start}` is not the `https` URL of an API server");
                Err(Refusal::malformed(reason))
            }
        }
    }

    /// The URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_server_has_an_https_url() {
        for url in
            ["https://10.0.2.2:6443", "https://[fd00::1]:6443", "https://a/k8s/c-1", "https://A.b"]
        {
            assert_eq!(ServerUrl::parse(url).unwrap().as_str(), url);
        }
        let long = format!("https://a/{}", "a".repeat(MAX_LENGTH));
        for url in [
            "",
            "10.0.2.2:6443",
            "http://a",
            "https://",
            "https://:6443",
            "https:///a",
            "https://a:b",
            "https://a:65536",
            "https://u:p@a",
            "https://a b",
            "https://a/?b",
            "https://a/#b",
            "https://a/%zz",
            &long,
        ] {
            assert!(ServerUrl::parse(url).is_err(), "{url}");
        }
        let reason = ServerUrl::parse("https://u:hunter2@a").unwrap_err().reason;
        assert!(!reason.contains("hunter2"), "{reason}");
    }
}
