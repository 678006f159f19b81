//! A table, its chains and their rules.

use osbuild_rtnetlink::{Request, nested};

use crate::attribute::{find_name, name, request};
use crate::expression::{Decision, Expression};
use crate::uapi::{
    NF_INET_FORWARD, NF_INET_LOCAL_IN, NF_INET_POST_ROUTING, NF_INET_PRE_ROUTING, NFT_MSG_NEWCHAIN,
    NFT_MSG_NEWRULE, NFT_MSG_NEWTABLE, NFTA_CHAIN_HOOK, NFTA_CHAIN_NAME, NFTA_CHAIN_POLICY,
    NFTA_CHAIN_TABLE, NFTA_CHAIN_TYPE, NFTA_HOOK_HOOKNUM, NFTA_HOOK_PRIORITY, NFTA_LIST_ELEM,
    NFTA_RULE_CHAIN, NFTA_RULE_EXPRESSIONS, NFTA_RULE_TABLE, NFTA_RULE_USERDATA, NFTA_TABLE_NAME,
    NLM_F_APPEND, NLM_F_CREATE,
};

/// The first byte of a rule's comment: its type (`NFTNL_UDATA_RULE_COMMENT`).
const COMMENT: u8 = 0;
/// The maximum bytes of a comment: its length has one byte, and counts the final zero.
const MAX_COMMENT: usize = u8::MAX as usize - 1;

/// A table for IPv4 and IPv6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its flags, such as that it is dormant. A table that is written has none.
    pub flags: u32,
    /// Its chains in the order of their names.
    pub chains: Vec<Chain>,
}

/// Rules in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// Where packets come to it; none for a chain that others lead to.
    pub hook: Option<Hook>,
    /// Its rules.
    pub rules: Vec<Rule>,
}

/// The type of a chain with a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainKind {
    /// It accepts and drops packets.
    Filter,
    /// It translates addresses. Only the first packet of a connection comes to it.
    Nat,
}

/// Where packets come to a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The type of the chain.
    pub kind: ChainKind,
    /// The place in the way of a packet.
    pub number: u32,
    /// The chain's place among others there: those with lower numbers come first.
    pub priority: i32,
    /// The decision about packets that no rule decides.
    pub policy: Decision,
}

/// Expressions in their order, each of which may leave the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The purpose of the rule: at most 254 bytes.
    pub comment: String,
    /// Its expressions.
    pub expressions: Vec<Expression>,
}

impl Hook {
    /// The hook of packets to the machine itself.
    pub const INPUT: u32 = NF_INET_LOCAL_IN;
    /// The hook of packets from one link to another.
    pub const FORWARD: u32 = NF_INET_FORWARD;
    /// The hook of packets that have arrived, before the kernel looks for their route.
    pub const PREROUTING: u32 = NF_INET_PRE_ROUTING;
    /// The hook of packets that leave.
    pub const POSTROUTING: u32 = NF_INET_POST_ROUTING;
}

impl ChainKind {
    const ALL: [Self; 2] = [Self::Filter, Self::Nat];

    const fn word(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Nat => "nat",
        }
    }

    /// Reads the type of a chain with a hook; nothing if it is another one.
    pub(crate) fn read(description: &[u8]) -> Option<Self> {
        let word = find_name(description, NFTA_CHAIN_TYPE)?;
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

impl Table {
    /// The requests that make the table, which is not there.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let mut requests =
            vec![request(NFT_MSG_NEWTABLE, NLM_F_CREATE).with(NFTA_TABLE_NAME, &name(&self.name))];
        requests.extend(self.chains.iter().map(|chain| chain.request(&self.name)));
        let mut sets = 0;
        for chain in &self.chains {
            for rule in &chain.rules {
                requests.extend(rule.requests(&self.name, &chain.name, &mut sets));
            }
        }
        requests
    }
}

impl Chain {
    fn request(&self, table: &str) -> Request {
        let request = request(NFT_MSG_NEWCHAIN, NLM_F_CREATE)
            .with(NFTA_CHAIN_TABLE, &name(table))
            .with(NFTA_CHAIN_NAME, &name(&self.name));
        let Some(hook) = self.hook else { return request };
        let place = nested(&[
            (NFTA_HOOK_HOOKNUM, &hook.number.to_be_bytes()),
            (NFTA_HOOK_PRIORITY, &hook.priority.to_be_bytes()),
        ]);
        request
            .with(NFTA_CHAIN_HOOK, &place)
            .with(NFTA_CHAIN_POLICY, &hook.policy.code().to_be_bytes())
            .with(NFTA_CHAIN_TYPE, &name(hook.kind.word()))
    }
}

impl Rule {
    /// The requests for its sets, which get the numbers after `sets`, and for the rule.
    fn requests(&self, table: &str, chain: &str, sets: &mut u32) -> Vec<Request> {
        let (mut requests, mut expressions) = (Vec::new(), Vec::new());
        for expression in &self.expressions {
            if let Expression::Lookup(set) = expression {
                *sets += 1;
                requests.extend(set.requests(table, *sets));
            }
            expressions.push(expression.encode(*sets));
        }
        let list: Vec<(u16, &[u8])> =
            expressions.iter().map(|one| (NFTA_LIST_ELEM, one.as_slice())).collect();
        let rule = request(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND)
            .with(NFTA_RULE_TABLE, &name(table))
            .with(NFTA_RULE_CHAIN, &name(chain))
            .with(NFTA_RULE_EXPRESSIONS, &nested(&list))
            .with(NFTA_RULE_USERDATA, &self.user_data());
        requests.push(rule);
        requests
    }

    /// The comment as the program `nft` writes it.
    fn user_data(&self) -> Vec<u8> {
        let comment = &self.comment.as_bytes()[..self.comment.len().min(MAX_COMMENT)];
        [&[COMMENT, comment.len() as u8 + 1], comment, b"\0"].concat()
    }

    /// Reads the comment.
    pub(crate) fn comment(user_data: &[u8]) -> Option<String> {
        let [COMMENT, length, rest @ ..] = user_data else { return None };
        let comment = rest.get(..usize::from(*length))?.strip_suffix(b"\0")?;
        String::from_utf8(comment.to_vec()).ok()
    }
}
