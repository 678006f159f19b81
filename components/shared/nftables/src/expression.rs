//! The expressions of rules: load a value of a packet, compare it, and decide.

use std::collections::BTreeMap;

use osbuild_rtnetlink::nested;

use crate::attribute::{data, find, find_data, find_name, find_u32, name};
use crate::set::{NAME, Set};
use crate::uapi::{
    NF_ACCEPT, NF_DROP, NF_NAT_RANGE_MAP_IPS, NF_NAT_RANGE_PROTO_SPECIFIED, NFPROTO_IPV4,
    NFPROTO_IPV6, NFT_BITWISE_BOOL, NFT_CMP_EQ, NFT_CMP_NEQ, NFT_CT_STATE, NFT_FIB_RESULT_ADDRTYPE,
    NFT_META_IIFNAME, NFT_META_L4PROTO, NFT_META_NFPROTO, NFT_META_OIFNAME, NFT_NAT_DNAT,
    NFT_NAT_SNAT, NFT_PAYLOAD_NETWORK_HEADER, NFT_PAYLOAD_TRANSPORT_HEADER, NFT_REG_1, NFT_REG_2,
    NFT_REG_VERDICT, NFTA_BITWISE_DREG, NFTA_BITWISE_LEN, NFTA_BITWISE_MASK, NFTA_BITWISE_OP,
    NFTA_BITWISE_SREG, NFTA_BITWISE_XOR, NFTA_CMP_DATA, NFTA_CMP_OP, NFTA_CMP_SREG, NFTA_CT_DREG,
    NFTA_CT_KEY, NFTA_DATA_VERDICT, NFTA_EXPR_DATA, NFTA_EXPR_NAME, NFTA_FIB_DREG,
    NFTA_FIB_F_DADDR, NFTA_FIB_F_SADDR, NFTA_FIB_FLAGS, NFTA_FIB_RESULT, NFTA_IMMEDIATE_DATA,
    NFTA_IMMEDIATE_DREG, NFTA_LOOKUP_FLAGS, NFTA_LOOKUP_SET, NFTA_LOOKUP_SET_ID, NFTA_LOOKUP_SREG,
    NFTA_MASQ_FLAGS, NFTA_MASQ_REG_PROTO_MIN, NFTA_META_DREG, NFTA_META_KEY, NFTA_NAT_FAMILY,
    NFTA_NAT_FLAGS, NFTA_NAT_REG_ADDR_MAX, NFTA_NAT_REG_ADDR_MIN, NFTA_NAT_REG_PROTO_MAX,
    NFTA_NAT_REG_PROTO_MIN, NFTA_NAT_TYPE, NFTA_PAYLOAD_BASE, NFTA_PAYLOAD_DREG, NFTA_PAYLOAD_LEN,
    NFTA_PAYLOAD_OFFSET, NFTA_VERDICT_CODE,
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
    /// Load the type of an address of the packet, as the kernel's routes have it: a number in the
    /// host's order, see [`Expression::LOCAL`].
    AddressType(Side),
    /// Load this value.
    Value(Vec<u8>),
    /// Load this value into the second register, which [`Self::Translate`] alone reads.
    SecondValue(Vec<u8>),
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
    /// Have the connection come from the address of the link through which it leaves.
    Masquerade,
    /// Have the connection come from, or go to, the loaded address.
    Translate {
        /// The address that changes.
        side: Side,
        /// The family of the packet.
        family: Family,
        /// Whether the port becomes that in the second register.
        has_port: bool,
    },
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
    /// The name of the link that it leaves through: 16 bytes.
    OutputLink,
    /// Whether it is one of IPv4 or IPv6: a byte, see [`Meta::IPV4`].
    Family,
    /// The protocol behind the IP headers: a byte.
    Protocol,
}

/// An end of a packet's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Its source.
    Source,
    /// Its destination.
    Destination,
}

/// The families of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
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

    pub(crate) const ALL: [Self; 4] =
        [Self::InputLink, Self::OutputLink, Self::Family, Self::Protocol];

    const fn key(self) -> u32 {
        match self {
            Self::InputLink => NFT_META_IIFNAME,
            Self::OutputLink => NFT_META_OIFNAME,
            Self::Family => NFT_META_NFPROTO,
            Self::Protocol => NFT_META_L4PROTO,
        }
    }
}

impl Side {
    const ALL: [Self; 2] = [Self::Source, Self::Destination];

    const fn flag(self) -> u32 {
        match self {
            Self::Source => NFTA_FIB_F_SADDR,
            Self::Destination => NFTA_FIB_F_DADDR,
        }
    }

    const fn translation(self) -> u32 {
        match self {
            Self::Source => NFT_NAT_SNAT,
            Self::Destination => NFT_NAT_DNAT,
        }
    }
}

impl Family {
    const ALL: [Self; 2] = [Self::Ipv4, Self::Ipv6];

    const fn number(self) -> u32 {
        match self {
            Self::Ipv4 => NFPROTO_IPV4 as u32,
            Self::Ipv6 => NFPROTO_IPV6 as u32,
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
    /// The type of the machine's own addresses (`RTN_LOCAL`).
    pub const LOCAL: u32 = 2;

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
            Self::AddressType(_) => "fib",
            Self::Masquerade => "masq",
            Self::Translate { .. } => "nat",
            Self::ConntrackState => "ct",
            Self::Mask(_) => "bitwise",
            Self::Equal(_) | Self::Unequal(_) => "cmp",
            Self::Lookup(_) => "lookup",
            Self::Decision(_) | Self::Value(_) | Self::SecondValue(_) => "immediate",
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
            Self::AddressType(side) => vec![
                (NFTA_FIB_DREG, register),
                (NFTA_FIB_RESULT, number(NFT_FIB_RESULT_ADDRTYPE)),
                (NFTA_FIB_FLAGS, number(side.flag())),
            ],
            Self::Value(value) => {
                vec![(NFTA_IMMEDIATE_DREG, register), (NFTA_IMMEDIATE_DATA, data(value))]
            }
            Self::SecondValue(value) => {
                vec![(NFTA_IMMEDIATE_DREG, number(NFT_REG_2)), (NFTA_IMMEDIATE_DATA, data(value))]
            }
            Self::Translate { side, family, has_port } => {
                let mut attributes = vec![
                    (NFTA_NAT_TYPE, number(side.translation())),
                    (NFTA_NAT_FAMILY, number(family.number())),
                    (NFTA_NAT_REG_ADDR_MIN, register),
                ];
                if *has_port {
                    attributes.push((NFTA_NAT_REG_PROTO_MIN, number(NFT_REG_2)));
                }
                attributes
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
            Self::Masquerade | Self::Other(_) => Vec::new(),
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
            "immediate" => {
                let value = find_data(bytes, NFTA_IMMEDIATE_DATA)?.to_vec();
                match number(NFTA_IMMEDIATE_DREG)? {
                    NFT_REG_1 => Some(Self::Value(value)),
                    NFT_REG_2 => Some(Self::SecondValue(value)),
                    _ => None,
                }
            }
            "fib" if is_register(NFTA_FIB_DREG) => {
                let flags = number(NFTA_FIB_FLAGS)?;
                let side = Side::ALL.into_iter().find(|side| side.flag() == flags)?;
                let is_type = number(NFTA_FIB_RESULT)? == NFT_FIB_RESULT_ADDRTYPE;
                is_type.then_some(Self::AddressType(side))
            }
            "masq" => {
                let is_plain = number(NFTA_MASQ_FLAGS).unwrap_or(0) == 0
                    && find(bytes, NFTA_MASQ_REG_PROTO_MIN).is_none();
                is_plain.then_some(Self::Masquerade)
            }
            "nat" if is_register(NFTA_NAT_REG_ADDR_MIN) => translation(bytes),
            _ => None,
        }
    }
}

/// Reads the attributes of [`Expression::Translate`]. The kernel adds flags, and the ends of ranges
/// that begin and end in the same register.
fn translation(bytes: &[u8]) -> Option<Expression> {
    let number = |kind| find_u32(bytes, kind);
    let (kind, family) = (number(NFTA_NAT_TYPE)?, number(NFTA_NAT_FAMILY)?);
    let port = number(NFTA_NAT_REG_PROTO_MIN);
    let known = NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED;
    let is_plain = number(NFTA_NAT_FLAGS).unwrap_or(0) & !known == 0
        && number(NFTA_NAT_REG_ADDR_MAX).is_none_or(|register| register == NFT_REG_1)
        && port.is_none_or(|register| register == NFT_REG_2)
        && number(NFTA_NAT_REG_PROTO_MAX).is_none_or(|register| port == Some(register));
    let translation = Expression::Translate {
        side: Side::ALL.into_iter().find(|side| side.translation() == kind)?,
        family: Family::ALL.into_iter().find(|one| one.number() == family)?,
        has_port: port.is_some(),
    };
    is_plain.then_some(translation)
}
