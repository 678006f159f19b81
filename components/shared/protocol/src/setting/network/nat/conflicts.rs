//! The effects of several rules together.

use super::super::{LinkPattern, NetworkSetting, Subnet};
use super::{Nat, Translation};

/// Why the rules among these settings exclude each other, if two do: both translate the same
/// connection, each to something else. Two of one name are the same setting.
pub fn nat_conflict<'a>(settings: impl IntoIterator<Item = &'a NetworkSetting>) -> Option<String> {
    let rules = settings.into_iter().filter_map(|setting| match setting {
        NetworkSetting::Nat(rule) => Some(rule),
        _ => None,
    });
    let rules: Vec<&Nat> = rules.collect();
    let pairs = rules
        .iter()
        .enumerate()
        .flat_map(|(at, one)| rules[at + 1..].iter().map(move |other| (*one, *other)));
    pairs.into_iter().find_map(|(one, other)| reason(one, other))
}

fn reason(one: &Nat, other: &Nat) -> Option<String> {
    if one.name() == other.name() {
        return None;
    }
    let links: [Option<&LinkPattern>; 2] = [one.link(), other.link()];
    if let [Some(link), Some(another)] = links
        && !link.overlaps(another)
    {
        return None;
    }
    let names = format!("`{}` and `{}`", one.name(), other.name());
    match (one.translation(), other.translation()) {
        (Translation::Source(sources, to), Translation::Source(others, another))
            if to != another =>
        {
            let overlaps = |source: &&Subnet| others.iter().any(|other| source.overlaps(other));
            let source = sources.iter().find(overlaps)?;
            Some(format!("{names} both give packets from `{source}` another source"))
        }
        (Translation::Destination(forwarding), Translation::Destination(another)) => {
            let is_same = forwarding.protocol == another.protocol
                && forwarding.port == another.port
                && forwarding.to.is_ipv4() == another.to.is_ipv4()
                && match (forwarding.address, another.address) {
                    (Some(address), Some(another)) => address == another,
                    _ => true,
                };
            let (protocol, port) = (forwarding.protocol, forwarding.port);
            is_same.then(|| format!("{names} both forward the port {port} of `{protocol}`"))
        }
        _ => None,
    }
}
