//! The address of an API server.

use crate::error::{Error, Result};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// kubeadm's default port of the API server.
pub const PORT: u16 = 6443;

/// A host, by name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// A DNS name, or an address without brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl Endpoint {
    /// The URL of the server.
    pub fn url(&self) -> String {
        format!("https://{self}")
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.parse::<Ipv6Addr>() {
            Ok(address) => write!(f, "[{address}]:{}", self.port),
            Err(_) => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for Endpoint {
    type Err = Error;

    /// Parses `HOST`, `HOST:PORT`, `ADDRESS` or `[ADDRESS]:PORT`. The default port is 6443.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::usage(format!(
                "`{text}` is not an address as in `10.0.2.15:6443` or `api.example`"
            ))
        };
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Endpoint { host: address.to_string(), port: PORT });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
            None => (text, PORT),
        };
        let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let host = match bracketed {
            Some(address) => address.parse::<Ipv6Addr>().map_err(|_| wrong())?.to_string(),
            None if is_name(host) => host.to_owned(),
            None => return Err(wrong()),
        };
        match port {
            0 => Err(wrong()),
            port => Ok(Endpoint { host, port }),
        }
    }
}

/// Whether this is a DNS name in lower case (RFC 1123), or an IPv4 address.
fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let is_inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        matches!((bytes.first(), bytes.last()), (Some(first), Some(last))
            if is_inner(first) && is_inner(last))
            && bytes.iter().all(|byte| is_inner(byte) || *byte == b'-')
            && bytes.len() <= 63
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String> {
        text.parse::<Endpoint>().map(|endpoint| endpoint.url())
    }

    #[test]
    fn a_name_or_an_address_has_the_usual_port_or_its_own() {
        for (text, url) in [
            ("10.0.2.15", "https://10.0.2.15:6443"),
            ("10.0.2.15:443", "https://10.0.2.15:443"),
            ("api.example.org", "https://api.example.org:6443"),
            ("2001:db8::1", "https://[2001:db8::1]:6443"),
            ("[2001:db8::1]:443", "https://[2001:db8::1]:443"),
        ] {
            assert_eq!(shown(text).unwrap(), url);
        }
    }

    #[test]
    fn what_is_no_address_of_a_server_is_refused() {
        for text in [
            "",
            ":6443",
            "a:0",
            "a:x",
            "a:70000",
            "https://a",
            "a b",
            "[10.0.0.1]:1",
            "A.org",
            "a..b",
        ] {
            assert!(shown(text).is_err(), "{text}");
        }
    }
}
