//! Addresses of nodes.

use crate::error::Malformed;
use osbuild_abi::osd::PORT;
use std::fmt::{self, Display};
use std::str::FromStr;

/// A host, as a name or an address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The name or address, which may have a zone: `fe80::1%eth0`.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

/// `HOST`, `HOST:PORT`, `[ADDRESS]:PORT`, or an IPv6 address alone.
impl FromStr for Address {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Address, Malformed> {
        let wrong = || Malformed("write HOST, HOST:PORT or [IPV6]:PORT");
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':').or(port.is_empty().then_some(""))),
            None if text.matches(':').count() == 1 => {
                let (host, port) = text.split_once(':').ok_or_else(wrong)?;
                (host, Some(port).filter(|port| !port.is_empty()))
            }
            None => (text, Some("")),
        };
        let port = match port.ok_or_else(wrong)? {
            "" => PORT,
            port => port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?,
        };
        match host.is_empty() || host.contains(char::is_whitespace) || host.contains('/') {
            true => Err(wrong()),
            false => Ok(Address { host: host.to_owned(), port }),
        }
    }
}

impl Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(out, "[{}]:{}", self.host, self.port),
            false => write!(out, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_a_port_and_a_zone() {
        for (text, shown) in [
            ("node-1", "node-1:50000"),
            ("10.0.2.15:7", "10.0.2.15:7"),
            ("fe80::1%eth0", "[fe80::1%eth0]:50000"),
            ("[::1]", "[::1]:50000"),
            ("[::1]:7", "[::1]:7"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(shown.parse::<Address>().unwrap(), address);
        }
        for text in ["", ":7", "a:", "a:0", "a:70000", "a:b", "[::1]7", "[]:7", "https://a", "a b"]
        {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
