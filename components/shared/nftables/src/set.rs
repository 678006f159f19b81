//! Sets of values, of which one of a packet is looked up.

use osbuild_rtnetlink::{Request, attributes, nested};

use crate::attribute::{data, find_data, find_u32, name, request};
use crate::uapi::{
    NFT_MSG_NEWSET, NFT_MSG_NEWSETELEM, NFT_SET_ANONYMOUS, NFT_SET_CONSTANT,
    NFT_SET_ELEM_INTERVAL_END, NFT_SET_INTERVAL, NFTA_LIST_ELEM, NFTA_SET_ELEM_FLAGS,
    NFTA_SET_ELEM_KEY, NFTA_SET_ELEM_LIST_ELEMENTS, NFTA_SET_ELEM_LIST_SET,
    NFTA_SET_ELEM_LIST_SET_ID, NFTA_SET_ELEM_LIST_TABLE, NFTA_SET_FLAGS, NFTA_SET_ID,
    NFTA_SET_KEY_LEN, NFTA_SET_KEY_TYPE, NFTA_SET_NAME, NFTA_SET_TABLE, NFTA_SET_USERDATA,
    NLM_F_CREATE,
};

/// The flags of all sets here.
const FLAGS: u32 = NFT_SET_ANONYMOUS | NFT_SET_CONSTANT | NFT_SET_INTERVAL;
/// The name of a set that the kernel numbers.
pub const NAME: &str = "__set%d";
/// For the program `nft`, which otherwise shows names of links backwards: the keys are in network
/// order. A type (`NFTNL_UDATA_SET_KEYBYTEORDER`), a length, and a number in the host's order.
const KEYS_IN_NETWORK_ORDER: [u8; 2] = [0, 4];
const NETWORK_ORDER: u32 = 2;

/// The kind of a set's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// IPv4 addresses.
    Ipv4,
    /// IPv6 addresses.
    Ipv6,
    /// Ports.
    Port,
    /// Types of ICMPv6 messages.
    Icmpv6Type,
    /// Names of links, with zeros behind.
    LinkName,
}

/// Ranges of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    kind: KeyKind,
    /// The first and the last value of each, in ascending order, with a gap between two.
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
}

impl KeyKind {
    const ALL: [Self; 5] = [Self::Ipv4, Self::Ipv6, Self::Port, Self::Icmpv6Type, Self::LinkName];

    /// The bytes of a value.
    pub const fn length(self) -> usize {
        match self {
            Self::Ipv4 => 4,
            Self::Ipv6 | Self::LinkName => 16,
            Self::Port => 2,
            Self::Icmpv6Type => 1,
        }
    }

    /// The number by which the program `nft` knows how to show a value.
    const fn number(self) -> u32 {
        match self {
            Self::Ipv4 => 7,
            Self::Ipv6 => 8,
            Self::Port => 13,
            Self::Icmpv6Type => 29,
            Self::LinkName => 41,
        }
    }
}

impl Set {
    /// The values of all these ranges, each with its first and its last value. Ranges may overlap;
    /// values of another length than that of the kind are left out.
    pub fn new(kind: KeyKind, ranges: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) -> Self {
        let mut sorted: Vec<(Vec<u8>, Vec<u8>)> = ranges.into_iter().collect();
        sorted.retain(|(first, last)| {
            first.len() == kind.length() && last.len() == kind.length() && first <= last
        });
        sorted.sort();
        let mut ranges: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for (first, last) in sorted {
            match ranges.last_mut() {
                // The next value after the last one, if there is any, belongs to the range.
                Some((_, end)) if next(end).is_none_or(|next| first <= next) => {
                    *end = last.max(std::mem::take(end));
                }
                _ => ranges.push((first, last)),
            }
        }
        Self { kind, ranges }
    }

    /// The kind of the values.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// The two requests that add the set to a table. `id` is its number in the batch.
    pub(crate) fn requests(&self, table: &str, id: u32) -> [Request; 2] {
        let id = id.to_be_bytes();
        let order = [&KEYS_IN_NETWORK_ORDER[..], &NETWORK_ORDER.to_ne_bytes()].concat();
        let length = self.kind.length() as u32;
        let set = request(NFT_MSG_NEWSET, NLM_F_CREATE)
            .with(NFTA_SET_TABLE, &name(table))
            .with(NFTA_SET_NAME, &name(NAME))
            .with(NFTA_SET_FLAGS, &FLAGS.to_be_bytes())
            .with(NFTA_SET_KEY_TYPE, &self.kind.number().to_be_bytes())
            .with(NFTA_SET_KEY_LEN, &length.to_be_bytes())
            .with(NFTA_SET_ID, &id)
            .with(NFTA_SET_USERDATA, &order);
        let elements = request(NFT_MSG_NEWSETELEM, NLM_F_CREATE)
            .with(NFTA_SET_ELEM_LIST_TABLE, &name(table))
            .with(NFTA_SET_ELEM_LIST_SET, &name(NAME))
            .with(NFTA_SET_ELEM_LIST_SET_ID, &id)
            .with(NFTA_SET_ELEM_LIST_ELEMENTS, &self.elements());
        [set, elements]
    }

    /// The elements: the first value of each range, and the first one behind it.
    fn elements(&self) -> Vec<u8> {
        let elements = self.ranges.iter().flat_map(|(first, last)| {
            let first = nested(&[(NFTA_SET_ELEM_KEY, &data(first))]);
            let end = next(last).map(|end| {
                let flags = NFT_SET_ELEM_INTERVAL_END.to_be_bytes();
                nested(&[(NFTA_SET_ELEM_KEY, &data(&end)), (NFTA_SET_ELEM_FLAGS, &flags)])
            });
            [Some(first), end].into_iter().flatten()
        });
        let elements: Vec<Vec<u8>> = elements.collect();
        let list: Vec<(u16, &[u8])> =
            elements.iter().map(|element| (NFTA_LIST_ELEM, element.as_slice())).collect();
        nested(&list)
    }

    /// Reads the description of a set, which has no values yet; nothing if it is none of ours.
    pub(crate) fn read(description: &[u8]) -> Option<Self> {
        let number = find_u32(description, NFTA_SET_KEY_TYPE)?;
        let kind = KeyKind::ALL.into_iter().find(|kind| kind.number() == number)?;
        let is_ours = find_u32(description, NFTA_SET_FLAGS)? == FLAGS
            && find_u32(description, NFTA_SET_KEY_LEN)? as usize == kind.length();
        is_ours.then_some(Self { kind, ranges: Vec::new() })
    }

    /// The set with the elements of these lists; nothing if they are no ranges.
    pub(crate) fn with_elements(&self, lists: &[Vec<u8>]) -> Option<Self> {
        let mut ends: Vec<(&[u8], bool)> = Vec::new();
        for (_, element) in lists.iter().flat_map(|list| attributes(list)) {
            let flags = find_u32(element, NFTA_SET_ELEM_FLAGS).unwrap_or(0);
            ends.push((find_data(element, NFTA_SET_ELEM_KEY)?, flags != 0));
        }
        ends.sort();
        let mut ranges = Vec::new();
        let mut ends = ends.into_iter();
        while let Some((first, is_end)) = ends.next() {
            let last = match ends.next() {
                _ if is_end => return None,
                Some((end, true)) => before(end)?,
                Some((_, false)) => return None,
                None => vec![u8::MAX; self.kind.length()],
            };
            ranges.push((first.to_vec(), last));
        }
        Some(Self::new(self.kind, ranges))
    }
}

/// The value after this one, in the order of bytes; none after the last one.
fn next(value: &[u8]) -> Option<Vec<u8>> {
    let at = value.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut next = value.to_vec();
    next[at] += 1;
    next[at + 1..].fill(0);
    Some(next)
}

/// The value before this one; none before the first one.
fn before(value: &[u8]) -> Option<Vec<u8>> {
    let at = value.iter().rposition(|byte| *byte != 0)?;
    let mut before = value.to_vec();
    before[at] -= 1;
    before[at + 1..].fill(u8::MAX);
    Some(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(ranges: &[(u16, u16)]) -> Set {
        let bytes = |port: u16| port.to_be_bytes().to_vec();
        Set::new(KeyKind::Port, ranges.iter().map(|(first, last)| (bytes(*first), bytes(*last))))
    }

    #[test]
    fn ranges_that_overlap_or_touch_are_one() {
        assert_eq!(ports(&[(80, 90), (22, 22), (85, 95), (96, 96)]), ports(&[(22, 22), (80, 96)]));
        assert_eq!(ports(&[(80, 90), (81, 82)]), ports(&[(80, 90)]));
        assert_eq!(ports(&[(1, 65535), (9, 9)]), ports(&[(1, 65535)]));
        assert_ne!(ports(&[(80, 90), (92, 95)]), ports(&[(80, 95)]));
        assert_eq!(Set::new(KeyKind::Port, [(vec![1], vec![2])]), ports(&[]));
    }

    #[test]
    fn the_elements_of_a_set_are_read_as_they_were_written() {
        for ranges in [&[][..], &[(0, 65535)], &[(22, 22)], &[(0, 1), (80, 90), (65535, 65535)]] {
            let set = ports(ranges);
            assert_eq!(ports(&[]).with_elements(&[set.elements()]), Some(set));
        }
    }

    #[test]
    fn elements_that_are_no_ranges_are_refused() {
        let [two, one] = [&[(1, 65535), (9, 9)][..], &[(9, 9)]].map(|ranges| Set {
            kind: KeyKind::Port,
            ranges: ranges
                .iter()
                .map(|(first, last): &(u16, u16)| {
                    (first.to_be_bytes().to_vec(), last.to_be_bytes().to_vec())
                })
                .collect(),
        });
        assert_eq!(ports(&[]).with_elements(&[two.elements()]), None);
        let end = one.elements().split_off(16);
        assert_eq!(ports(&[]).with_elements(&[end]), None);
    }
}
