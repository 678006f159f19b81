//! Servers of NTP (RFC 5905).

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use super::list::Entry;
use crate::{Refusal, host_name};

/// A server of NTP: an address or a host name, and perhaps a port. An IPv6 address with a port is
/// in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeServer(String);

impl TimeServer {
    /// The server, in lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Entry for TimeServer {
    const PLURAL: &'static str = "time servers";

    fn parse(word: &str) -> Result<Self, Refusal> {
        let (host, port) = match word.rsplit_once(':') {
            Some((host, port)) if word.parse::<Ipv6Addr>().is_err() && !word.ends_with(']') => {
                (host, Some(port))
            }
            _ => (word, None),
        };
        let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let is_host = match bracketed {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => host.parse::<IpAddr>().is_ok() || host_name::check(host).is_ok(),
        };
        match is_host && port.is_none_or(is_port) {
            true => Ok(Self(word.to_ascii_lowercase())),
            false => Err(Refusal::malformed(format!(
                "`{word}` is not a time server, such as `time.example` or `[2001:db8::7]:123`"
            ))),
        }
    }
}

/// Whether this is a number of a port as everybody writes it.
fn is_port(word: &str) -> bool {
    word.parse::<u16>().is_ok_and(|port| port > 0 && port.to_string() == word)
}

impl fmt::Display for TimeServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_an_address_or_a_name_and_perhaps_a_port() {
        for (word, read) in [
            ("169.254.169.123", "169.254.169.123"),
            ("10.0.2.4:124", "10.0.2.4:124"),
            ("Time.Example", "time.example"),
            ("time.example:123", "time.example:123"),
            ("2001:db8::7", "2001:db8::7"),
            ("[2001:DB8::7]", "[2001:db8::7]"),
            ("[2001:db8::7]:123", "[2001:db8::7]:123"),
        ] {
            assert_eq!(TimeServer::parse(word).unwrap().as_str(), read);
        }
        for word in [
            "",
            ":123",
            "a:",
            "a:0",
            "a:65536",
            "a:+1",
            "a:01",
            "a b",
            "a_b",
            "a/b",
            "[10.0.2.4]",
            "[2001:db8::7",
            "[2001:db8::7]123",
            "2001:db8::7::",
            "a:b:1",
        ] {
            assert!(TimeServer::parse(word).is_err(), "{word}");
        }
    }
}
