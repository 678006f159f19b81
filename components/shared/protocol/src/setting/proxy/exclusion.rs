//! The destinations that programs reach without the proxy.

use std::fmt;
use std::net::IpAddr;

use super::super::host::{is_authority, is_host, split};
use crate::Refusal;

/// A domain, an address or a subnet that is reached without the proxy, in the form that programs in
/// Go and Rust read alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyExclusion(String);

impl ProxyExclusion {
    /// Reads an entry.
    ///
    /// # Errors
    /// It is no domain in lower case, perhaps with a dot before it, no address and no subnet. The
    /// beginning of an address, such as `10.0.`, is neither: programs would ignore it.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        match is_address(text) || is_domain(text.strip_prefix('.').unwrap_or(text)) {
            true => Ok(Self(text.to_owned())),
            false => {
                let start: String = text.chars().take(64).collect();
                let reason = format!(
                    "`{start}` cannot be reached without the proxy: it is not a domain, an \
                     address or a subnet"
                );
                Err(Refusal::malformed(reason))
            }
        }
    }

    /// The host of an `https` URL; none if it is malformed.
    pub fn of_url(url: &str) -> Option<Self> {
        let place = url.strip_prefix("https://")?;
        let authority = place.split('/').next()?.to_ascii_lowercase();
        let (host, _) = split(&authority).filter(|_| is_authority(&authority))?;
        Self::parse(host).ok()
    }

    /// The entry.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProxyExclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_address(text: &str) -> bool {
    let (address, length) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let is_length = |length: &str| {
        length.parse::<u8>().is_ok_and(|number| number <= bits && number.to_string() == length)
    };
    length.is_none_or(is_length)
}

fn is_domain(text: &str) -> bool {
    let last = text.rsplit('.').next().unwrap_or_default();
    is_host(text) && last.bytes().any(|byte| !byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_program_reads_alike_can_be_excluded() {
        for text in [
            "example.org",
            ".example.org",
            "svc",
            "10.0.0.1",
            "10.0.0.0/8",
            "0.0.0.0/0",
            "2001:db8::/32",
            "::1",
        ] {
            assert_eq!(ProxyExclusion::parse(text).unwrap().as_str(), text);
        }
        for text in [
            "",
            ".",
            "*",
            "*.example.org",
            "Example.org",
            "example.org:443",
            "10.0.",
            "10.96",
            "10.0.0.256",
            "10.0.0.0/33",
            "10.0.0.0/08",
            "10.0.0.0/+8",
            "[::1]",
            "fe80::1%eth0",
            "http://a",
            "a,b",
            "a b",
            "a\nb",
        ] {
            assert!(ProxyExclusion::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_host_of_an_api_server_can_be_excluded() {
        let of = |url| ProxyExclusion::of_url(url).map(|host| host.to_string());
        assert_eq!(of("https://10.0.2.2:6443"), Some("10.0.2.2".to_owned()));
        assert_eq!(of("https://[2001:db8::1]:6443/"), Some("2001:db8::1".to_owned()));
        assert_eq!(of("https://API.example.org/k8s/c-1"), Some("api.example.org".to_owned()));
        for url in ["", "http://a", "https://", "https://u:p@a", "https://a b", "https://[::1"] {
            assert_eq!(of(url), None, "{url}");
        }
    }
}
