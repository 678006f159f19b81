//! Conditions of packets: comparisons of their bytes, and what `and`, `or` and `not` make of them.

/// A condition of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Every packet fulfils it.
    Always,
    /// Both hold. The second is looked at if the first holds.
    And(Box<Condition>, Box<Condition>),
    /// One of them holds. The second is looked at if the first does not hold.
    Or(Box<Condition>, Box<Condition>),
    /// It does not hold.
    Not(Box<Condition>),
    /// A number in the packet compares so. A packet that ends before the number is rejected, what
    /// else the filter says.
    Compare(Comparison),
    /// The packet has a VLAN tag, which has this identifier if there is one. Behind so many tags.
    Vlan {
        /// The identifier.
        id: Option<u16>,
        /// How many tags are before it.
        behind: u32,
    },
}

/// A comparison of a number in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Where the number is.
    pub place: Place,
    /// Its size.
    pub size: Size,
    /// The bits of it that count.
    pub mask: u32,
    /// How it compares.
    pub relation: Relation,
    /// With what it compares.
    pub value: u32,
}

/// Where a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// This many bytes from the start of the Ethernet header.
    Frame(u32),
    /// The protocol of the network, behind so many VLAN tags.
    EtherType {
        /// The tags.
        tags: u32,
    },
    /// This many bytes from the start of the network's header, behind so many VLAN tags.
    Network {
        /// The bytes.
        offset: u32,
        /// The tags.
        tags: u32,
    },
    /// This many bytes behind the header of IPv4, whose length varies.
    BehindIpv4 {
        /// The bytes.
        offset: u32,
        /// The VLAN tags.
        tags: u32,
    },
    /// Ancillary data of the packet.
    Known(Known),
    /// The bytes of the packet.
    Length,
}

/// Ancillary data, which the kernel has of a packet beside its bytes (`SKF_AD_…` of
/// linux/filter.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The protocol of the network.
    Protocol = 0,
    /// Where it goes to or comes from (`PACKET_…` of packet(7)).
    Direction = 4,
    /// The kind of the link (`ARPHRD_…`).
    LinkKind = 28,
    /// The VLAN tag that the kernel has taken from the packet.
    Tag = 44,
    /// Whether there is one.
    HasTag = 48,
}

/// The size of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// 1 byte.
    Byte,
    /// 2 bytes.
    Half,
    /// 4 bytes.
    Word,
}

/// How a number compares with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// It is the same.
    Equal,
    /// It is the same or greater.
    AtLeast,
    /// It is greater.
    Greater,
    /// It has one of the other's bits.
    SharesBits,
}

/// Numbers of `PACKET_…` (packet(7)).
pub const TO_ALL: u32 = 1;
pub const TO_SEVERAL: u32 = 2;
pub const OUTGOING: u32 = 4;

/// `ARPHRD_LOOPBACK` (linux/if_arp.h).
const LOOPBACK: u32 = 772;

impl Condition {
    /// Both hold.
    pub fn and(one: Condition, other: Condition) -> Condition {
        match (one, other) {
            (Condition::Always, one) | (one, Condition::Always) => one,
            (one, other) => Condition::And(Box::new(one), Box::new(other)),
        }
    }

    /// One of them holds.
    pub fn or(one: Condition, other: Condition) -> Condition {
        Condition::Or(Box::new(one), Box::new(other))
    }

    /// It does not hold.
    pub fn not(condition: Condition) -> Condition {
        Condition::Not(Box::new(condition))
    }

    /// A number is this one.
    pub fn is(place: Place, size: Size, value: u32) -> Condition {
        Condition::of(place, size, u32::MAX, Relation::Equal, value)
    }

    /// A number compares so with a value.
    pub fn of(place: Place, size: Size, mask: u32, relation: Relation, value: u32) -> Condition {
        Condition::Compare(Comparison { place, size, mask, relation, value })
    }

    /// Whether it depends on VLAN tags.
    pub fn has_tags(&self) -> bool {
        match self {
            Condition::Always | Condition::Compare(_) => false,
            Condition::Vlan { .. } => true,
            Condition::Not(one) => one.has_tags(),
            Condition::And(one, other) | Condition::Or(one, other) => {
                one.has_tags() || other.has_tags()
            }
        }
    }
}

/// The condition that excludes the packets that the loopback sends. The loopback receives each of
/// them as well, so a filter would otherwise take it twice.
pub fn is_no_loopback_echo() -> Condition {
    let known = |known, value| Condition::is(Place::Known(known), Size::Word, value);
    let is_loopback = known(Known::LinkKind, LOOPBACK);
    Condition::not(Condition::and(is_loopback, known(Known::Direction, OUTGOING)))
}
