//! Addresses of caches.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;
use url::{Host, Url};

/// The address of a cache: `grpc://HOST:PORT[/INSTANCE]`, `grpcs://…`,
/// `http://HOST:PORT[/PATH]` or `https://…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    text: String,
    /// How the cache is spoken to.
    pub protocol: Protocol,
    /// Whether the connection is encrypted and the server proves its name.
    pub is_secure: bool,
    /// `HOST` or `HOST:PORT`.
    authority: String,
    /// The path without slashes around it: the instance of a gRPC server.
    path: String,
    is_loopback: bool,
}

/// How a cache is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The Remote Execution API, version 2.
    Grpc,
    /// `GET` and `PUT` of `/ac/HASH` and `/cas/HASH`, as bazel-remote has them.
    Http,
}

/// A text that is not the address of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidAddress(String);

impl fmt::Display for InvalidAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidAddress {}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let wrong = |why: &str| Err(InvalidAddress(why.to_owned()));
        let Ok(url) = Url::parse(text) else {
            return wrong("it is not a URL such as `grpc://HOST:PORT/INSTANCE`");
        };
        let (protocol, is_secure) = match url.scheme() {
            "grpc" => (Protocol::Grpc, false),
            "grpcs" => (Protocol::Grpc, true),
            "http" => (Protocol::Http, false),
            "https" => (Protocol::Http, true),
            _ => return wrong("it begins with none of `grpc:`, `grpcs:`, `http:` and `https:`"),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return wrong("it has a password: name a file with it in the configuration");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return wrong("it has a `?` or a `#`");
        }
        let Some(host) = url.host().filter(|host| *host != Host::Domain("")) else {
            return wrong("it names no host");
        };
        let is_loopback = match &host {
            // Of a scheme that no browser knows, an IPv4 address is a name as any other.
            Host::Domain(name) => {
                let is_loopback = |address: Ipv4Addr| address.is_loopback();
                *name == "localhost" || name.parse().is_ok_and(is_loopback)
            }
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => address.is_loopback(),
        };
        let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
        let path = url.path().trim_matches('/').to_owned();
        let parts = path.split('/').collect::<Vec<_>>();
        if path.contains('%') || parts.iter().any(|part| RESERVED.contains(part)) {
            return wrong("its path has a letter or a word that no instance may have");
        }
        let authority = format!("{host}{port}");
        Ok(Address { text: text.to_owned(), protocol, is_secure, authority, path, is_loopback })
    }
}

/// Words that the API keeps for itself: an instance with one of them would be ambiguous.
const RESERVED: [&str; 8] = [
    "blobs",
    "uploads",
    "actions",
    "actionResults",
    "operations",
    "capabilities",
    "compressed-blobs",
    "ac",
];

impl Address {
    /// The instance of a gRPC server; usually empty.
    pub fn instance(&self) -> &str {
        &self.path
    }

    /// Whether a secret may be sent there: it is encrypted, or does not leave this machine.
    pub fn is_private(&self) -> bool {
        self.is_secure || self.is_loopback
    }

    /// Whether it is on this machine, so that no proxy leads there.
    pub(crate) fn is_loopback(&self) -> bool {
        self.is_loopback
    }

    /// The address of the server itself, for a client of HTTP.
    pub(crate) fn origin(&self) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }

    /// The address of a file of a plain cache.
    pub(crate) fn file(&self, kind: &str, hash: &str) -> String {
        let slash = if self.path.is_empty() { "" } else { "/" };
        format!("{}{slash}{}/{kind}/{hash}", self.origin(), self.path)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Address, InvalidAddress> {
        text.parse()
    }

    #[test]
    fn the_path_of_an_address_is_its_instance() {
        let address = read("grpc://cache.example:8980/main/arm").unwrap();
        assert_eq!((address.instance(), address.protocol), ("main/arm", Protocol::Grpc));
        assert_eq!(address.origin(), "http://cache.example:8980");
        assert!(!address.is_private());
        assert!(read("grpcs://cache.example").unwrap().is_private());
    }

    #[test]
    fn this_machine_is_private_for_each_scheme() {
        for scheme in ["grpc", "http"] {
            let is_private = |host| read(&format!("{scheme}://{host}:1")).unwrap().is_private();
            for host in ["localhost", "127.0.0.1", "127.1.2.3", "[::1]"] {
                assert!(is_private(host), "{scheme}://{host}");
            }
            for host in ["128.0.0.1", "127.0.0.1.example", "localhost.example", "[::2]"] {
                assert!(!is_private(host), "{scheme}://{host}");
            }
        }
    }

    #[test]
    fn a_plain_cache_has_files_below_its_path() {
        let file = |text| read(text).unwrap().file("ac", "00");
        assert_eq!(file("http://127.0.0.1:8080"), "http://127.0.0.1:8080/ac/00");
        assert_eq!(file("https://cache/a/"), "https://cache/a/ac/00");
    }

    #[test]
    fn what_is_not_an_address_is_refused() {
        for text in [
            "cache:8980",
            "ftp://cache/",
            "grpc://",
            "grpc:///x",
            "grpc://u:p@cache/",
            "http://cache/?x",
            "grpc://cache/blobs",
            "grpc://cache/a b",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "(grpc|http)s?://.{0,40}|.{0,40}") {
            if let Ok(address) = read(&text) {
                prop_assert_eq!(read(&address.to_string()), Ok(address));
            }
        }
    }
}
