//! Static routes.

use std::fmt;
use std::net::IpAddr;

use super::address::is_of_a_machine;
use super::{LinkName, RouteTable, Subnet};
use crate::Refusal;

/// The metric of a route that names none: below those of routes from DHCP and routers (1024 and
/// more), so that a static route comes first.
const DEFAULT_METRIC: u32 = 512;

/// Which of several routes to the same subnet is taken: that with the lowest metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Metric(u32);

/// A route that the node shall have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticRoute {
    destination: Subnet,
    metric: Metric,
    table: RouteTable,
    gateway: Option<IpAddr>,
    link: LinkName,
}

impl Metric {
    /// This number.
    ///
    /// # Errors
    /// It is 0, which stands for another number with IPv6.
    pub fn new(number: u32) -> Result<Self, Refusal> {
        match number {
            0 => Err(Refusal::malformed("the metric of a route is not 0")),
            _ => Ok(Self(number)),
        }
    }

    /// Reads a number as everybody writes it.
    ///
    /// # Errors
    /// It is no number, or 0.
    pub(super) fn parse(word: &str) -> Result<Self, Refusal> {
        let number = word.parse::<u32>().ok().filter(|number| number.to_string() == word);
        let refuse = || Refusal::malformed(format!("`{word}` is not the metric of a route"));
        Self::new(number.ok_or_else(refuse)?)
    }

    /// The number.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl Default for Metric {
    fn default() -> Self {
        Self(DEFAULT_METRIC)
    }
}

impl StaticRoute {
    /// A route of the main table. Without a gateway, the machines of the subnet are on the link.
    ///
    /// # Errors
    /// No machine has the gateway's address, or it is of another family than the subnet.
    pub fn new(
        destination: Subnet,
        metric: Metric,
        gateway: Option<IpAddr>,
        link: LinkName,
    ) -> Result<Self, Refusal> {
        let is_gateway = |gateway: IpAddr| {
            is_of_a_machine(gateway) && gateway.is_ipv4() == destination.address().is_ipv4()
        };
        match gateway.filter(|gateway| !is_gateway(*gateway)) {
            None => {
                let table = RouteTable::default();
                Ok(Self { destination, metric, table, gateway, link })
            }
            Some(gateway) => Err(Refusal::malformed(format!(
                "`{gateway}` cannot be the gateway to `{destination}`"
            ))),
        }
    }

    /// The same route in a table.
    #[must_use]
    pub fn in_table(self, table: RouteTable) -> Self {
        Self { table, ..self }
    }

    /// Reads the address of a gateway.
    ///
    /// # Errors
    /// It is not an IP address.
    pub fn gateway_of(word: &str) -> Result<IpAddr, Refusal> {
        word.parse().map_err(|_| Refusal::malformed(format!("`{word}` is not an IP address")))
    }

    /// Reads the words after destination and metric: `[via GATEWAY] on LINK`.
    pub(super) fn parse(destination: Subnet, metric: Metric, words: &str) -> Result<Self, Refusal> {
        let (gateway, link) = match words.split(' ').collect::<Vec<_>>().as_slice() {
            ["via", gateway, "on", link] => {
                (Some(Self::gateway_of(gateway)?), LinkName::parse(link)?)
            }
            ["on", link] => (None, LinkName::parse(link)?),
            _ => {
                let form =
                    "a route is `route DESTINATION METRIC [table TABLE] [via GATEWAY] on LINK`";
                return Err(Refusal::malformed(form));
            }
        };
        Self::new(destination, metric, gateway, link)
    }

    /// Where it leads.
    pub fn destination(&self) -> Subnet {
        self.destination
    }

    /// Its metric.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// The table that it is in.
    pub fn table(&self) -> RouteTable {
        self.table
    }

    /// The machine that forwards packets.
    pub fn gateway(&self) -> Option<IpAddr> {
        self.gateway
    }

    /// The link that packets leave through.
    pub fn link(&self) -> &LinkName {
        &self.link
    }

    /// The words that [`Self::parse`] reads.
    pub(super) fn words(&self) -> String {
        let via = self.gateway.map(|gateway| format!("via {gateway} ")).unwrap_or_default();
        format!("{via}on {}", self.link)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
