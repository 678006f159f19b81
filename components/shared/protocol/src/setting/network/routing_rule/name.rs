//! Names of routing rules: their family and their priority.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::super::options::number;
use crate::Refusal;

/// The priorities that rules may have. The kernel's own rules have 0, 32766 and 32767. Cilium's
/// rules have 1 to 112, Calico's 99, and those of the VPC plugin of AWS 512, 1024 and 1536.
const PRIORITIES: RangeInclusive<u32> = 2000..=32765;

/// The version of IP that packets have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IpFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The place of a routing rule among those of its family. That with the lowest number comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoutingPriority(u32);

impl IpFamily {
    /// Reads `ipv4` or `ipv6`.
    ///
    /// # Errors
    /// It is another word.
    pub fn parse(word: &str) -> Result<Self, Refusal> {
        match word {
            "ipv4" => Ok(Self::V4),
            "ipv6" => Ok(Self::V6),
            _ => Err(Refusal::malformed("the `family` of a routing rule is `ipv4` or `ipv6`")),
        }
    }

    /// That of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

impl RoutingPriority {
    /// This number.
    ///
    /// # Errors
    /// It is not among those that rules may have.
    pub fn new(number: u32) -> Result<Self, Refusal> {
        match PRIORITIES.contains(&number) {
            true => Ok(Self(number)),
            false => {
                let (first, last) = PRIORITIES.into_inner();
                let reason = format!(
                    "the `priority` of a routing rule is {first} to {last}: others are those of \
                     the kernel and of network plugins"
                );
                Err(Refusal::malformed(reason))
            }
        }
    }

    /// Reads a number as everybody writes it.
    pub(in super::super) fn parse(word: &str) -> Result<Self, Refusal> {
        let refuse = || Refusal::malformed(format!("`{word}` is not the priority of a rule"));
        Self::new(number(word).ok_or_else(refuse)?)
    }

    /// The number.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for IpFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        })
    }
}

impl fmt::Display for RoutingPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
