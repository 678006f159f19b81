//! Host and domain names from DHCP servers. They become the host name and lines of resolv.conf, so
//! only valid names are accepted.

/// The maximum length of a domain name (RFC 1035, 2.3.4).
const MAX_DOMAIN: usize = 253;
/// The maximum length of a host name that `init` accepts, because it is also a Kubernetes label
/// value. Linux itself allows one byte more.
const MAX_HOST_NAME: usize = 63;
const MAX_LABEL: usize = 63;

/// Reads a host name (option 12): lower-case letters, digits, hyphens and dots, as Kubernetes
/// requires for the name of a node.
pub fn host_name(bytes: &[u8]) -> Option<String> {
    domain(bytes).filter(|name| name.len() <= MAX_HOST_NAME && !name.contains('_'))
}

/// Reads a domain name in text form (option 15); returns it in lower case and without a final dot.
pub fn domain(bytes: &[u8]) -> Option<String> {
    let text = str::from_utf8(bytes).ok()?.trim_end_matches('\0').to_ascii_lowercase();
    let name = text.strip_suffix('.').unwrap_or(&text);
    (name.len() <= MAX_DOMAIN && name.split('.').all(is_label)).then(|| name.to_owned())
}

/// Reads a search list (option 119, RFC 3397): names in DNS wire format, which may point back into
/// the option. One invalid name invalidates the list, because the start of the next name is
/// unknown.
pub fn search_list(bytes: &[u8]) -> Option<Vec<String>> {
    let mut domains = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let (name, next) = wire_name(bytes, at)?;
        domains.push(domain(name.as_bytes())?);
        at = next;
    }
    Some(domains)
}

/// Reads a list of names in DNS wire format, padded with zeros (RFC 8106, 5.2). One invalid name
/// invalidates the list.
pub fn padded_list(bytes: &[u8]) -> Option<Vec<String>> {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    // The end of the last name is one of those zeros.
    search_list(bytes.get(..end + usize::from(end > 0))?)
}

/// Reads the name at offset `at`, and returns the offset of the bytes after it.
fn wire_name(bytes: &[u8], mut at: usize) -> Option<(String, usize)> {
    let mut labels = Vec::new();
    let mut length = 0;
    let mut next = None;
    loop {
        let first = usize::from(*bytes.get(at)?);
        match first {
            0 => return Some((labels.join("."), next.unwrap_or(at + 1))),
            1..=MAX_LABEL => {
                let label = bytes.get(at + 1..at + 1 + first)?;
                labels.push(str::from_utf8(label).ok()?);
                length += first + 1;
                at += first + 1;
            }
            0xc0.. => {
                let target = (first & 0x3f) << 8 | usize::from(*bytes.get(at + 1)?);
                next = next.or(Some(at + 2));
                // Pointers may only point back, so following them ends.
                at = Some(target).filter(|target| *target < at)?;
            }
            _ => return None,
        }
        // Labels between two pointers could repeat, but the length of a name is limited.
        if length > MAX_DOMAIN {
            return None;
        }
    }
}

fn is_label(label: &str) -> bool {
    let allowed = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
    };
    (1..=MAX_LABEL).contains(&label.len())
        && label.bytes().all(allowed)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_host_name_is_lower_case_and_clean() {
        assert_eq!(host_name(b"Node-1.example\0"), Some("node-1.example".to_owned()));
    }

    #[test]
    fn invalid_names_are_refused() {
        for bad in [
            &b""[..],
            b"a b",
            b"a\nnameserver 6.6.6.6",
            b"a..b",
            b"-a",
            b"a-",
            b".",
            b"\xff",
            b"a/b",
            b"a_b",
        ] {
            assert_eq!(host_name(bad), None, "{bad:?}");
        }
        assert_eq!(host_name(&[b'a'; 64]), None, "a label has at most 63 letters");
        let longest = format!("{}.example", "a".repeat(55));
        assert_eq!(host_name(longest.as_bytes()), Some(longest.clone()));
        assert_eq!(
            host_name(format!("a{longest}").as_bytes()),
            None,
            "`init` refuses more than 63 bytes"
        );
    }

    #[test]
    fn a_search_list_may_point_back() {
        // The example of RFC 3397, section 2: eng.apple.com and marketing.apple.com.
        let bytes = b"\x03eng\x05apple\x03com\0\x09marketing\xc0\x04";
        assert_eq!(search_list(bytes).unwrap(), ["eng.apple.com", "marketing.apple.com"]);
    }

    #[test]
    fn a_pointer_to_itself_is_refused() {
        assert_eq!(search_list(b"\xc0\x00"), None);
        assert_eq!(search_list(b"\x01a\xc0\x00"), None);
    }

    #[test]
    fn padding_after_a_list_is_ignored() {
        assert_eq!(padded_list(b"\x03eng\x02hq\0\x01a\0\0\0\0").unwrap(), ["eng.hq", "a"]);
        assert_eq!(padded_list(&[0; 16]), Some(vec![]));
        assert_eq!(padded_list(b"\x01a"), None, "the last name has no end");
    }

    #[test]
    fn a_line_break_in_a_search_list_is_refused() {
        assert_eq!(search_list(b"\x03a\nb\0"), None);
    }

    proptest! {
        #[test]
        fn any_search_list_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            for name in search_list(&bytes).unwrap_or_default() {
                prop_assert_eq!(domain(name.as_bytes()), Some(name));
            }
        }

        #[test]
        fn any_host_name_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = host_name(&bytes);
        }
    }
}
