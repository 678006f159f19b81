//! The URLs of proxies.

use std::fmt;

use super::super::host::{is_port, split};
use crate::Refusal;

const SCHEMES: [&str; 2] = ["http://", "https://"];

/// The URL of a proxy: how it is reached, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyUrl(String);

impl ProxyUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// It is not `http://HOST:PORT` or `https://HOST:PORT` with the host in lower case, or it has a
    /// user and a password.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let place = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme));
        if text.contains('@') {
            // The text may have a password, and a reason is shown to readers.
            let reason = "the URL of a proxy cannot have a user and a password: readers of \
                          settings would see them";
            return Err(Refusal::malformed(reason));
        }
        let port = place.and_then(split).and_then(|(_, port)| port);
        match port.is_some_and(is_port) {
            true => Ok(Self(text.to_owned())),
            false => {
                let start: String = text.chars().take(64).collect();
                let form = "`http://HOST:PORT` or `https://HOST:PORT`";
                let reason = format!("`{start}` is not the URL of a proxy: {form}");
                Err(Refusal::malformed(reason))
            }
        }
    }

    /// The URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_has_a_scheme_a_host_and_a_port_alone() {
        for text in ["http://proxy.example:3128", "https://192.0.2.7:443", "http://[2001:db8::7]:1"]
        {
            assert_eq!(ProxyUrl::parse(text).unwrap().as_str(), text);
        }
        let long = format!("http://{}:1", vec!["a".repeat(63); 4].join("."));
        for text in [
            "",
            "proxy.example:3128",
            "socks5://proxy.example:1080",
            "http://proxy.example",
            "http://proxy.example:",
            "http://proxy.example:0",
            "http://proxy.example:65536",
            "http://proxy.example:3128/",
            "http://proxy.example:3128?a",
            "http://:3128",
            "http://[::1]",
            "http://[::1]3128",
            "http://[::1:3128",
            "http://::1:3128",
            "http://Proxy:3128",
            "http://a b:3128",
            "http://a\nHTTPS_PROXY=http://b:1",
            &long,
        ] {
            assert!(ProxyUrl::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_password_is_refused_and_not_in_the_reason() {
        for text in
            ["http://user:secret@proxy.example:3128", "https://secret@a:3128", "user:secret@a"]
        {
            let reason = ProxyUrl::parse(text).unwrap_err().reason;
            assert!(reason.contains("password") && !reason.contains("secret"), "{reason}");
        }
    }
}
