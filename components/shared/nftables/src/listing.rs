//! Reads a table from the kernel's lists.

use std::collections::BTreeMap;

use osbuild_rtnetlink::{Answer, Request, attributes};

use crate::attribute::{FIXED, find, find_name, find_u32, name, request};
use crate::expression::{Decision, Expression};
use crate::set::Set;
use crate::table::{Chain, ChainKind, Hook, Rule, Table};
use crate::uapi::{
    NFNL_SUBSYS_NFTABLES, NFPROTO_INET, NFT_MSG_GETCHAIN, NFT_MSG_GETRULE, NFT_MSG_GETSET,
    NFT_MSG_GETSETELEM, NFT_MSG_GETTABLE, NFT_MSG_NEWCHAIN, NFT_MSG_NEWRULE, NFT_MSG_NEWSET,
    NFT_MSG_NEWSETELEM, NFT_MSG_NEWTABLE, NFTA_CHAIN_HOOK, NFTA_CHAIN_NAME, NFTA_CHAIN_POLICY,
    NFTA_HOOK_HOOKNUM, NFTA_HOOK_PRIORITY, NFTA_RULE_CHAIN, NFTA_RULE_EXPRESSIONS, NFTA_RULE_TABLE,
    NFTA_RULE_USERDATA, NFTA_SET_ELEM_LIST_ELEMENTS, NFTA_SET_ELEM_LIST_SET,
    NFTA_SET_ELEM_LIST_TABLE, NFTA_SET_NAME, NFTA_SET_TABLE, NFTA_TABLE_FLAGS, NFTA_TABLE_NAME,
    NLM_F_DUMP,
};

/// The number of the attribute with the table's name, which is the same in all messages.
const TABLE: u16 = NFTA_TABLE_NAME;

/// Lists a table: [`Self::question`] returns the next request to the kernel, until there is none,
/// and [`Self::take`] takes each answer.
#[derive(Debug)]
pub struct Listing {
    name: String,
    step: Step,
    /// The flags of the table, if it is there.
    flags: Option<u32>,
    sets: BTreeMap<String, ListedSet>,
    chains: BTreeMap<String, Option<Chain>>,
    /// The rules with the names of their chains.
    rules: Vec<(String, Vec<u8>)>,
}

/// The next question to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Table,
    Chains,
    Rules,
    Sets,
    /// The elements of the set after this one.
    Elements(Option<String>),
}

#[derive(Debug)]
struct ListedSet {
    /// The set without elements, if it is one of ours.
    empty: Option<Set>,
    elements: Vec<Vec<u8>>,
}

impl Listing {
    /// Lists the table of this name.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            step: Step::Table,
            flags: None,
            sets: BTreeMap::new(),
            chains: BTreeMap::new(),
            rules: Vec::new(),
        }
    }

    /// The next request, which is answered by a list.
    pub fn question(&mut self) -> Option<Request> {
        let of_table = |kind| request(kind, NLM_F_DUMP).with(TABLE, &name(&self.name));
        let (request, step) = match &self.step {
            Step::Table => (request(NFT_MSG_GETTABLE, NLM_F_DUMP), Step::Chains),
            _ if self.flags.is_none() => return None,
            Step::Chains => (of_table(NFT_MSG_GETCHAIN), Step::Rules),
            Step::Rules => (of_table(NFT_MSG_GETRULE), Step::Sets),
            Step::Sets => (of_table(NFT_MSG_GETSET), Step::Elements(None)),
            Step::Elements(before) => {
                let mut sets = self.sets.keys();
                let set = sets.find(|set| before.as_ref().is_none_or(|before| *set > before))?;
                let elements =
                    of_table(NFT_MSG_GETSETELEM).with(NFTA_SET_ELEM_LIST_SET, &name(set));
                (elements, Step::Elements(Some(set.clone())))
            }
        };
        self.step = step;
        Some(request)
    }

    /// Takes an answer. One about another table is left out.
    pub fn take(&mut self, answer: &Answer) {
        let Some(bytes) = about(answer, &self.name) else { return };
        match answer.kind & 0xff {
            NFT_MSG_NEWTABLE => self.flags = Some(find_u32(bytes, NFTA_TABLE_FLAGS).unwrap_or(0)),
            NFT_MSG_NEWCHAIN => {
                let name = find_name(bytes, NFTA_CHAIN_NAME).unwrap_or_default();
                self.chains.insert(name.to_owned(), chain(name, bytes));
            }
            NFT_MSG_NEWRULE => {
                let chain = find_name(bytes, NFTA_RULE_CHAIN).unwrap_or_default();
                self.rules.push((chain.to_owned(), bytes.to_vec()));
            }
            NFT_MSG_NEWSET => {
                let name = find_name(bytes, NFTA_SET_NAME).unwrap_or_default();
                let set = ListedSet { empty: Set::read(bytes), elements: Vec::new() };
                self.sets.insert(name.to_owned(), set);
            }
            NFT_MSG_NEWSETELEM => {
                let name = find_name(bytes, NFTA_SET_ELEM_LIST_SET).unwrap_or_default();
                if let Some(set) = self.sets.get_mut(name) {
                    let elements = find(bytes, NFTA_SET_ELEM_LIST_ELEMENTS);
                    set.elements.extend(elements.map(<[u8]>::to_vec));
                }
            }
            _ => {}
        }
    }

    /// The table, if it is there. A chain that cannot be read has no hook and no rules.
    pub fn finish(self) -> Option<Table> {
        let sets = self
            .sets
            .into_iter()
            .filter_map(|(name, set)| Some((name, set.empty?.with_elements(&set.elements)?)));
        let sets: BTreeMap<String, Set> = sets.collect();
        let mut chains: BTreeMap<String, Chain> = BTreeMap::new();
        for (name, chain) in self.chains {
            let unread = || Chain { name: name.clone(), hook: None, rules: Vec::new() };
            chains.insert(name.clone(), chain.unwrap_or_else(unread));
        }
        for (chain, bytes) in &self.rules {
            if let Some(chain) = chains.get_mut(chain) {
                chain.rules.push(rule(bytes, &sets));
            }
        }
        let chains = chains.into_values().collect();
        Some(Table { name: self.name, flags: self.flags?, chains })
    }
}

/// Whether a report of the kernel is about a table.
pub fn is_about(answer: &Answer, table: &str) -> bool {
    about(answer, table).is_some()
}

/// The attributes of a message about a table for IPv4 and IPv6.
fn about<'a>(answer: &Answer<'a>, table: &str) -> Option<&'a [u8]> {
    const { assert!(TABLE == NFTA_RULE_TABLE && TABLE == NFTA_SET_TABLE) };
    const { assert!(TABLE == NFTA_SET_ELEM_LIST_TABLE) };
    let (fixed, bytes) = answer.payload.split_at_checked(FIXED)?;
    let is_ours = answer.kind >> 8 == NFNL_SUBSYS_NFTABLES && fixed[0] == NFPROTO_INET;
    (is_ours && find_name(bytes, TABLE)? == table).then_some(bytes)
}

/// Reads the description of a chain; nothing if it has another type or policy than ours.
fn chain(name: &str, bytes: &[u8]) -> Option<Chain> {
    let hook = match find(bytes, NFTA_CHAIN_HOOK) {
        None => None,
        Some(place) => {
            let policy = find_u32(bytes, NFTA_CHAIN_POLICY)?;
            let policy = Decision::ALL.into_iter().find(|one| one.code() == policy)?;
            Some(Hook {
                kind: ChainKind::read(bytes)?,
                number: find_u32(place, NFTA_HOOK_HOOKNUM)?,
                priority: find_u32(place, NFTA_HOOK_PRIORITY)?.cast_signed(),
                policy,
            })
        }
    };
    Some(Chain { name: name.to_owned(), hook, rules: Vec::new() })
}

fn rule(bytes: &[u8], sets: &BTreeMap<String, Set>) -> Rule {
    let comment = find(bytes, NFTA_RULE_USERDATA).and_then(Rule::comment);
    let expressions = find(bytes, NFTA_RULE_EXPRESSIONS).unwrap_or_default();
    let expressions = attributes(expressions).map(|(_, one)| Expression::read(one, sets));
    Rule { comment: comment.unwrap_or_default(), expressions: expressions.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uapi::NLM_F_ACK;
    use crate::{Batch, Family, Header, KeyKind, Meta, Side};
    use osbuild_rtnetlink::answers;
    use proptest::prelude::*;

    fn table(rules: Vec<Vec<Expression>>) -> Table {
        let rules = rules
            .into_iter()
            .enumerate()
            .map(|(number, expressions)| Rule { comment: format!("rule {number}"), expressions });
        let hook = Hook {
            kind: ChainKind::Nat,
            number: Hook::INPUT,
            priority: -10,
            policy: Decision::Accept,
        };
        let chain = Chain { name: "input".to_owned(), hook: Some(hook), rules: rules.collect() };
        Table { name: "osbuild".to_owned(), flags: 0, chains: vec![chain] }
    }

    /// Lists the messages of a batch as if the kernel had sent them.
    fn listed(bytes: &[u8]) -> Option<Table> {
        let mut listing = Listing::new("osbuild");
        answers(bytes).for_each(|answer| listing.take(&answer));
        listing.finish()
    }

    fn expression() -> impl Strategy<Value = Expression> {
        let bytes = || prop::collection::vec(any::<u8>(), 1..17);
        let decision = prop::sample::select(vec![Decision::Accept, Decision::Drop]);
        prop_oneof![
            prop::sample::select(Meta::ALL.to_vec()).prop_map(Expression::Meta),
            prop::sample::select(vec![Side::Source, Side::Destination])
                .prop_map(Expression::AddressType),
            bytes().prop_map(Expression::Value),
            any::<[u8; 2]>().prop_map(|port| Expression::SecondValue(port.to_vec())),
            Just(Expression::Masquerade),
            (
                prop::sample::select(vec![Side::Source, Side::Destination]),
                prop::sample::select(vec![Family::Ipv4, Family::Ipv6]),
                any::<bool>(),
            )
                .prop_map(|(side, family, has_port)| Expression::Translate {
                    side,
                    family,
                    has_port
                }),
            (prop::sample::select(vec![Header::Network, Header::Transport]), 0..40_u32, 1..17_u32)
                .prop_map(|(header, offset, length)| Expression::Payload {
                    header,
                    offset,
                    length
                }),
            Just(Expression::ConntrackState),
            bytes().prop_map(Expression::Mask),
            bytes().prop_map(Expression::Equal),
            bytes().prop_map(Expression::Unequal),
            decision.prop_map(Expression::Decision),
        ]
    }

    #[test]
    fn a_table_that_is_not_there_is_none_and_asks_for_nothing_more() {
        let mut listing = Listing::new("osbuild");
        assert!(listing.question().is_some());
        let (bytes, _) =
            Batch::replacement(&Table { name: "other".to_owned(), ..table(vec![]) }).finish(1);
        answers(&bytes).for_each(|answer| listing.take(&answer));
        assert!(listing.question().is_none());
        assert_eq!(listing.finish(), None);
    }

    #[test]
    fn a_set_is_part_of_the_rule_that_looks_it_up() {
        let ports = |port| Set::new(KeyKind::Port, [(vec![0, port], vec![1, port])]);
        let [one, other] = [22, 23].map(|port| table(vec![vec![Expression::Lookup(ports(port))]]));
        let (bytes, _) = Batch::replacement(&one).finish(1);
        assert_eq!(listed(&bytes).as_ref(), Some(&one));
        assert_ne!(one, other);
    }

    #[test]
    fn only_the_last_request_is_acknowledged() {
        let (bytes, last) = Batch::removal("osbuild").finish(7);
        let flags: Vec<(u32, bool)> = answers(&bytes)
            .map(|message| (message.sequence, message.flags & NLM_F_ACK as u16 != 0))
            .collect();
        assert_eq!(flags, [(7, false), (8, false), (9, true), (10, false)]);
        assert_eq!(last, 9);
    }

    proptest! {
        #[test]
        fn what_is_written_is_listed(
            rules in prop::collection::vec(prop::collection::vec(expression(), 0..6), 0..6),
        ) {
            let table = table(rules);
            let (bytes, _) = Batch::replacement(&table).finish(1);
            prop_assert_eq!(listed(&bytes), Some(table));
        }

        #[test]
        fn any_bytes_are_listed_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let (mut whole, _) = Batch::replacement(&table(vec![vec![]])).finish(1);
            let at = bytes.first().map_or(0, |byte| usize::from(*byte)) % whole.len();
            let end = (at + bytes.len()).min(whole.len());
            whole[at..end].copy_from_slice(&bytes[..end - at]);
            listed(&whole);
            listed(&bytes);
        }
    }
}
