//! Hosts and ports in the form in which settings have them.

use std::net::Ipv6Addr;

/// The maximum bytes of a DNS name and of its labels (RFC 1035).
const MAX_HOST: usize = 253;
const MAX_LABEL: usize = 63;

/// Whether this is `HOST` or `HOST:PORT`, where an IPv6 address is in brackets.
pub(super) fn is_authority(text: &str) -> bool {
    split(text).is_some_and(|(_, port)| port.is_none_or(is_port))
}

/// The host, which is valid, and the text of the port.
pub(super) fn split(text: &str) -> Option<(&str, Option<&str>)> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(text) => {
            let (address, rest) = text.split_once(']')?;
            address.parse::<Ipv6Addr>().ok()?;
            (address, rest)
        }
        None => {
            let (host, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
            (Some(host).filter(|host| is_host(host))?, rest)
        }
    };
    match rest {
        "" => Some((host, None)),
        _ => Some((host, Some(rest.strip_prefix(':')?))),
    }
}

/// Whether this is a DNS name or an IPv4 address in lower case.
pub(super) fn is_host(text: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = |label: &str| {
        (1..=MAX_LABEL).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(is_inside)
    };
    text.len() <= MAX_HOST && text.split('.').all(is_label)
}

/// Whether this is a port as everybody writes it.
pub(super) fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|port| port != 0 && port.to_string() == text)
}
