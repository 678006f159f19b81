//! The expressions of rules: load a value of a packet, compare it, and decide.

use std::collections::BTreeMap;

use osbuild_rtnetlink::nested;

use crate::attribute::{data, find, find_data, find_name, find_u32, name};
use crate::set::{NAME, Set};
use crate::uapi::{
    NF_ACCEPT, NF_DROP, NFPROTO_IPV4, NFPROTO_IPV6, NFT_BITWISE_BOOL, NFT_CMP_EQ, NFT_CMP_NEQ,
    NFT_CT_STATE, NFT_META_IIFNAME, NFT_META_L4PROTO, NFT_META_NFPROTO, NFT_PAYLOAD_NETWORK_HEADER,
    NFT_PAYLOAD_TRANSPORT_HEADER, NFT_REG_1, NFT_REG_VERDICT, NFTA_BITWISE_DREG, NFTA_BITWISE_LEN,
    NFTA_BITWISE_MASK, NFTA_BITWISE_OP, NFTA_BITWISE_SREG, NFTA_BITWISE_XOR, NFTA_CMP_DATA,
    NFTA_CMP_OP, NFTA_CMP_SREG, NFTA_CT_DREG, NFTA_CT_KEY, NFTA_DATA_VERDICT, NFTA_EXPR_DATA,
    NFTA_EXPR_NAME, NFTA_IMMEDIATE_DATA, NFTA_IMMEDIATE_DREG, NFTA_LOOKUP_FLAGS, NFTA_LOOKUP_SET,
    NFTA_LOOKUP_SET_ID, NFTA_LOOKUP_SREG, NFTA_META_DREG, NFTA_META_KEY, NFTA_PAYLOAD_BASE,
    NFTA_PAYLOAD_DREG, NFTA_PAYLOAD_LEN, NFTA_PAYLOAD_OFFSET, NFTA_VERDICT_CODE,
};

/// The attributes of an expression, with their values.
type Attributes = Vec<(u16, Vec<u8>)>;

/// A step of a rule. Values go through one register, which the next step reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// Load a fact that the kernel knows of the packet.
    Meta(Meta),
    /// Load bytes of the packet.
    Payload {
        /// The header that they are in.
        header: Header,
        /// Where they begin in it.
        offset: u32,
        /// How many there are, at most 16.
        length: u32,
    },
    /// Load the state of the packet's connection, a bit in the host's order.
    ConntrackState,
    /// Keep these bits of the loaded value.
    Mask(Vec<u8>),
    /// Go on if the loaded value is this one, or begins with it.
    Equal(Vec<u8>),
    /// Go on if the loaded value is another one.
    Unequal(Vec<u8>),
    /// Go on if the loaded value is in a set.
    Lookup(Set),
    /// End with a decision.
    Decision(Decision),
    /// Another one, with its name, which is never written.
    Other(String),
}

/// A fact that the kernel knows of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meta {
    /// The name of the link that it came in through: 16 bytes.
    InputLink,
    /// Whether it is one of IPv4 or IPv6: a byte, see [`Meta::IPV4`].
    Family,
    /// The protocol behind the IP headers: a byte.
    Protocol,
}

/// A header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// That of IP.
    Network,
    /// That of TCP, UDP and the like.
    Transport,
}

/// The end of a packet's way through a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It passes this chain.
    Accept,
    /// It is gone, without an answer.
    Drop,
}

impl Meta {
    /// The family of IPv4.
    pub const IPV4: u8 = NFPROTO_IPV4;
    /// The family of IPv6.
    pub const IPV6: u8 = NFPROTO_IPV6;

    const ALL: [Self; 3] = [Self::InputLink, Self::Family, Self::Protocol];

    const fn key(self) -> u32 {
        match self {
            Self::InputLink => NFT_META_IIFNAME,
            Self::Family => NFT_META_NFPROTO,
            Self::Protocol => NFT_META_L4PROTO,
        }
    }
}

impl Header {
    const ALL: [Self; 2] = [Self::Network, Self::Transport];

    const fn base(self) -> u32 {
        match self {
            Self::Network => NFT_PAYLOAD_NETWORK_HEADER,
            Self::Transport => NFT_PAYLOAD_TRANSPORT_HEADER,
        }
    }
}

impl Decision {
    pub(crate) const ALL: [Self; 2] = [Self::Accept, Self::Drop];

    pub(crate) const fn code(self) -> u32 {
        match self {
            Self::Accept => NF_ACCEPT,
            Self::Drop => NF_DROP,
        }
    }
}

impl Expression {
    /// The expression as the value of an attribute. `set` is the number in the batch of the set
    /// that is looked up.
    pub(crate) fn encode(&self, set: u32) -> Vec<u8> {
        let attributes = self.attributes(set);
        let attributes: Vec<(u16, &[u8])> =
            attributes.iter().map(|(kind, value)| (*kind, value.as_slice())).collect();
        let data = nested(&attributes);
        nested(&[(NFTA_EXPR_NAME, &name(self.name())), (NFTA_EXPR_DATA, &data)])
    }

    fn name(&self) -> &str {
        match self {
            Self::Meta(_) => "meta",
            Self::Payload { .. } => "payload",
            Self::ConntrackState => "ct",
            Self::Mask(_) => "bitwise",
            Self::Equal(_) | Self::Unequal(_) => "cmp",
            Self::Lookup(_) => "lookup",
            Self::Decision(_) => "immediate",
            Self::Other(name) => name,
        }
    }

    fn attributes(&self, set: u32) -> Attributes {
        let number = |number: u32| number.to_be_bytes().to_vec();
        let register = number(NFT_REG_1);
        let compare = |operator: u32, value: &[u8]| {
            let value = (NFTA_CMP_DATA, data(value));
            vec![(NFTA_CMP_SREG, number(NFT_REG_1)), (NFTA_CMP_OP, number(operator)), value]
        };
        match self {
            Self::Meta(meta) => {
                vec![(NFTA_META_DREG, register), (NFTA_META_KEY, number(meta.key()))]
            }
            Self::Payload { header, offset, length } => vec![
                (NFTA_PAYLOAD_DREG, register),
                (NFTA_PAYLOAD_BASE, number(header.base())),
                (NFTA_PAYLOAD_OFFSET, number(*offset)),
                (NFTA_PAYLOAD_LEN, number(*length)),
            ],
            Self::ConntrackState => {
                vec![(NFTA_CT_DREG, register), (NFTA_CT_KEY, number(NFT_CT_STATE))]
            }
            Self::Mask(mask) => vec![
                (NFTA_BITWISE_SREG, register.clone()),
                (NFTA_BITWISE_DREG, register),
                (NFTA_BITWISE_LEN, number(mask.len() as u32)),
                (NFTA_BITWISE_MASK, data(mask)),
                (NFTA_BITWISE_XOR, data(&vec![0; mask.len()])),
            ],
            Self::Equal(value) => compare(NFT_CMP_EQ, value),
            Self::Unequal(value) => compare(NFT_CMP_NEQ, value),
            Self::Lookup(_) => vec![
                (NFTA_LOOKUP_SET, name(NAME)),
                (NFTA_LOOKUP_SREG, register),
                (NFTA_LOOKUP_SET_ID, number(set)),
            ],
            Self::Decision(decision) => {
                let code = nested(&[(NFTA_VERDICT_CODE, &number(decision.code()))]);
                let data = nested(&[(NFTA_DATA_VERDICT, &code)]);
                vec![(NFTA_IMMEDIATE_DREG, number(NFT_REG_VERDICT)), (NFTA_IMMEDIATE_DATA, data)]
            }
            Self::Other(_) => Vec::new(),
        }
    }

    /// Reads the value of an attribute. `sets` are those of the table by their names. What is not
    /// known, or is known otherwise, is [`Self::Other`].
    pub(crate) fn read(bytes: &[u8], sets: &BTreeMap<String, Set>) -> Self {
        let name = find_name(bytes, NFTA_EXPR_NAME).unwrap_or_default();
        let known = find(bytes, NFTA_EXPR_DATA).and_then(|data| Self::known(name, data, sets));
        known.unwrap_or_else(|| Self::Other(name.to_owned()))
    }

    fn known(name: &str, bytes: &[u8], sets: &BTreeMap<String, Set>) -> Option<Self> {
        let number = |kind| find_u32(bytes, kind);
        let is_register = |kind| number(kind) == Some(NFT_REG_1);
        match name {
            "meta" if is_register(NFTA_META_DREG) => {
                let key = number(NFTA_META_KEY)?;
                Meta::ALL.into_iter().find(|meta| meta.key() == key).map(Self::Meta)
            }
            "payload" if is_register(NFTA_PAYLOAD_DREG) => {
                let base = number(NFTA_PAYLOAD_BASE)?;
                Some(Self::Payload {
                    header: Header::ALL.into_iter().find(|header| header.base() == base)?,
                    offset: number(NFTA_PAYLOAD_OFFSET)?,
                    length: number(NFTA_PAYLOAD_LEN)?,
                })
            }
            "ct" if is_register(NFTA_CT_DREG) => {
                (number(NFTA_CT_KEY)? == NFT_CT_STATE).then_some(Self::ConntrackState)
            }
            "bitwise" if is_register(NFTA_BITWISE_SREG) && is_register(NFTA_BITWISE_DREG) => {
                let is_and = number(NFTA_BITWISE_OP).unwrap_or(NFT_BITWISE_BOOL)
                    == NFT_BITWISE_BOOL
                    && find_data(bytes, NFTA_BITWISE_XOR)?.iter().all(|byte| *byte == 0);
                is_and.then_some(Self::Mask(find_data(bytes, NFTA_BITWISE_MASK)?.to_vec()))
            }
            "cmp" if is_register(NFTA_CMP_SREG) => {
                let value = find_data(bytes, NFTA_CMP_DATA)?.to_vec();
                match number(NFTA_CMP_OP)? {
                    NFT_CMP_EQ => Some(Self::Equal(value)),
                    NFT_CMP_NEQ => Some(Self::Unequal(value)),
                    _ => None,
                }
            }
            "lookup" if is_register(NFTA_LOOKUP_SREG) => {
                let is_plain = number(NFTA_LOOKUP_FLAGS).unwrap_or(0) == 0;
                let set = sets.get(find_name(bytes, NFTA_LOOKUP_SET)?)?;
                is_plain.then(|| Self::Lookup(set.clone()))
            }
            "immediate" if number(NFTA_IMMEDIATE_DREG) == Some(NFT_REG_VERDICT) => {
                let decision = find(find(bytes, NFTA_IMMEDIATE_DATA)?, NFTA_DATA_VERDICT)?;
                let code = find_u32(decision, NFTA_VERDICT_CODE)?;
                Decision::ALL.into_iter().find(|one| one.code() == code).map(Self::Decision)
            }
            _ => None,
        }
    }
}
