//! Which links are served: by default every Ethernet device. Links that other programs made or own
//! are left to them.

use crate::link_kind::LinkKind;
use crate::netlink::Link;

/// The rule. In a pattern, `*` matches any characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Serve only links that match one of these; an empty list matches all.
    pub links: Vec<String>,
    /// Never serve links that match one of these.
    pub except: Vec<String>,
}

impl Choice {
    /// Whether a link is served. A software link (bridge, veth, VXLAN, …) or a port of one belongs
    /// to the program that made it, for example a CNI plugin: it is served only if its full name is
    /// given, without `*`.
    pub fn serves(&self, link: &Link) -> bool {
        self.is_of_node(link) && (link.master.is_none() || self.links.contains(&link.name))
    }

    /// Whether a link is served when it is not a port of another one.
    pub fn is_of_node(&self, link: &Link) -> bool {
        if self.except.iter().any(|pattern| fits(pattern, &link.name)) {
            return false;
        }
        let by_pattern =
            self.links.is_empty() || self.links.iter().any(|pattern| fits(pattern, &link.name));
        (link.kind == LinkKind::Device && by_pattern) || self.links.contains(&link.name)
    }
}

/// Whether a name matches a pattern.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dhcpv6::Need;

    fn link(name: &str, device: bool) -> Link {
        Link {
            index: 1,
            name: name.to_owned(),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            up: false,
            carrier: false,
            dhcpv6: Need::Nothing,
            kind: if device { LinkKind::Device } else { LinkKind::Other },
            master: None,
            parent: None,
            is_made: false,
        }
    }

    fn choice(links: &[&str], except: &[&str]) -> Choice {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Choice { links: owned(links), except: owned(except) }
    }

    #[test]
    fn without_a_rule_every_device_is_served_and_nothing_else() {
        assert!(choice(&[], &[]).serves(&link("enp1s0", true)));
        assert!(!choice(&[], &[]).serves(&link("veth0", false)));
        let port = Link { master: Some(7), ..link("enp1s0", true) };
        assert!(!choice(&[], &[]).serves(&port));
        assert!(choice(&[], &[]).is_of_node(&port));
    }

    #[test]
    fn a_pattern_chooses_among_devices() {
        let rule = choice(&["en*", "eth0"], &["enp2s*"]);
        for (name, served) in [
            ("enp1s0", true),
            ("eth0", true),
            ("eth1", false),
            ("enp2s0", false),
            ("enp2s0f1", false),
        ] {
            assert_eq!(rule.serves(&link(name, true)), served, "{name}");
        }
        assert!(
            !choice(&["*"], &[]).serves(&link("cni0", false)),
            "a pattern never takes what a CNI has made"
        );
    }

    #[test]
    fn a_whole_name_chooses_a_link_of_any_kind() {
        assert!(choice(&["bond0"], &[]).serves(&link("bond0", false)));
        assert!(!choice(&["bond0"], &["bond*"]).serves(&link("bond0", false)));
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("", "", true),
            ("*", "", true),
            ("a*", "a", true),
            ("*a", "bab", false),
            ("a*a", "a", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("**", "x", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}
