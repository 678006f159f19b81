//! Rules that choose the table of routes for a packet. The network pod sets them in the kernel.

mod name;
mod packet_mark;
mod rule_link;

pub use name::{IpFamily, RoutingPriority};
pub use packet_mark::PacketMark;
pub use rule_link::RuleLink;

use super::options::Options;
use super::{RouteTable, Subnet};
use crate::Refusal;

/// A rule that has packets use the routes of a table, if they match each of its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingRule {
    family: IpFamily,
    priority: RoutingPriority,
    table: RouteTable,
    from: Option<Subnet>,
    to: Option<Subnet>,
    iif: Option<RuleLink>,
    oif: Option<RuleLink>,
    fwmark: Option<PacketMark>,
}

/// The words of a rule. An empty text stands for all packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoutingRuleOptions<'a> {
    /// `ipv4` or `ipv6`; empty for that of `from` or `to`.
    pub family: &'a str,
    /// Its place among the others.
    pub priority: u32,
    /// The number of the table.
    pub table: u32,
    /// The network that packets come from.
    pub from: &'a str,
    /// The network that packets go to.
    pub to: &'a str,
    /// The link that they come in through.
    pub iif: &'a str,
    /// The link that their program has bound itself to.
    pub oif: &'a str,
    /// The mark that they have, and perhaps which of its bits count.
    pub fwmark: &'a str,
}

impl RoutingRule {
    /// Reads the words of a rule.
    ///
    /// # Errors
    /// A word is malformed, or the family is missing or not that of a network.
    pub fn new(options: RoutingRuleOptions) -> Result<Self, Refusal> {
        let RoutingRuleOptions { family, from, to, iif, oif, fwmark, .. } = options;
        let given = |word| Some(word).filter(|word: &&str| !word.is_empty());
        let from = given(from).map(Subnet::parse_source).transpose()?;
        let to = given(to).map(Subnet::parse).transpose()?;
        let family = given(family).map(IpFamily::parse).transpose()?;
        // A network of all addresses is none for the kernel.
        let is_part = |subnet: &Subnet| subnet.prefix_length() != 0;
        Ok(Self {
            family: only_family(family, [from, to])?,
            priority: RoutingPriority::new(options.priority)?,
            table: RouteTable::new(options.table)?,
            from: from.filter(is_part),
            to: to.filter(is_part),
            iif: given(iif).map(RuleLink::parse).transpose()?,
            oif: given(oif).map(RuleLink::parse).transpose()?,
            fwmark: given(fwmark).map(PacketMark::parse).transpose()?,
        })
    }

    /// Reads the words after family and priority that [`Self::words`] writes.
    pub(super) fn parse_words(
        family: IpFamily,
        priority: RoutingPriority,
        words: &str,
    ) -> Result<Self, Refusal> {
        let mut options = Options::parse("a routing rule", words)?;
        let table = RouteTable::parse(options.expect("table")?)?;
        let mut option = |name: &str| options.take(name).unwrap_or_default();
        let (from, to, fwmark) = (option("from"), option("to"), option("fwmark"));
        let (iif, oif) = (option("iif"), option("oif"));
        options.end()?;
        Self::new(RoutingRuleOptions {
            family: &family.to_string(),
            priority: priority.number(),
            table: table.number(),
            from,
            to,
            iif,
            oif,
            fwmark,
        })
    }

    /// The options as words with one space between.
    pub(super) fn words(&self) -> String {
        let mut words = format!("table={}", self.table);
        let options = [
            ("from", self.from.map(|from| from.to_string())),
            ("to", self.to.map(|to| to.to_string())),
            ("iif", self.iif.as_ref().map(ToString::to_string)),
            ("oif", self.oif.as_ref().map(ToString::to_string)),
            ("fwmark", self.fwmark.map(|mark| mark.to_string())),
        ];
        for (name, value) in options {
            words += &value.map(|value| format!(" {name}={value}")).unwrap_or_default();
        }
        words
    }

    /// The version of IP that packets have.
    pub fn family(&self) -> IpFamily {
        self.family
    }

    /// Its place among the others of its family.
    pub fn priority(&self) -> RoutingPriority {
        self.priority
    }

    /// The table whose routes packets use.
    pub fn table(&self) -> RouteTable {
        self.table
    }

    /// The network that packets come from; none for all.
    pub fn from(&self) -> Option<Subnet> {
        self.from
    }

    /// The network that packets go to; none for all.
    pub fn to(&self) -> Option<Subnet> {
        self.to
    }

    /// The link that packets come in through; none for all.
    pub fn iif(&self) -> Option<&RuleLink> {
        self.iif.as_ref()
    }

    /// The link that the program of a packet has bound itself to; none for all.
    pub fn oif(&self) -> Option<&RuleLink> {
        self.oif.as_ref()
    }

    /// The mark of packets; none for all.
    pub fn fwmark(&self) -> Option<PacketMark> {
        self.fwmark
    }
}

/// The family that a rule names, or else that of its networks.
fn only_family(named: Option<IpFamily>, subnets: [Option<Subnet>; 2]) -> Result<IpFamily, Refusal> {
    let subnets = || subnets.into_iter().flatten();
    let of_subnets = subnets().map(|subnet| IpFamily::of(subnet.address())).next();
    let Some(family) = named.or(of_subnets) else {
        let reason = "the `family` of a routing rule is missing: `ipv4` or `ipv6`";
        return Err(Refusal::malformed(reason));
    };
    match subnets().find(|subnet| IpFamily::of(subnet.address()) != family) {
        None => Ok(family),
        Some(other) => {
            Err(Refusal::malformed(format!("no packet of `{family}` has an address of `{other}`")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Setting;

    #[test]
    fn every_routing_rule_is_one_line() {
        for line in [
            "routing-rule ipv4 2000 table=100",
            "routing-rule ipv6 32765 table=254 from=2001:db8::/32 iif=lo",
            "routing-rule ipv4 3000 table=4294967295 from=10.0.0.0/8 to=192.0.2.0/24 iif=eth0 \
             oif=eth1 fwmark=0x100/0xff00",
            "routing-rule ipv4 3001 table=7 fwmark=0x0/0xff",
            "route 0.0.0.0/0 512 table 100 via 192.0.2.1 on eth0",
        ] {
            assert_eq!(Setting::parse(line).unwrap().to_string(), line);
        }
    }

    #[test]
    fn a_rule_of_another_program_or_of_no_packet_is_refused() {
        for (line, reason) in [
            ("ipv4 0 table=7", "2000 to 32765"),
            ("ipv4 99 table=7", "2000 to 32765"),
            ("ipv4 32766 table=7", "2000 to 32765"),
            ("ip 2000 table=7", "`ipv4` or `ipv6`"),
            ("ipv4 2000", "`table` of a routing rule is missing"),
            ("ipv4 2000 table=0", "1 to 4294967295"),
            ("ipv4 2000 table=255", "the node's own addresses"),
            ("ipv4 2000 table=07", "is not the number of a table"),
            ("ipv4 2000 table=7 from=::/0", "no packet of `ipv4`"),
            ("ipv4 2000 table=7 to=10.0.0.1/8", "is not a subnet"),
            ("ipv4 2000 table=7 iif=a/b", "is not the name of a link"),
            ("ipv4 2000 table=7 fwmark=0x", "is not a mark"),
            ("ipv4 2000 table=7 fwmark=0x+1", "is not a mark"),
            ("ipv4 2000 table=7 fwmark=1/0", "no bit counts"),
            ("ipv4 2000 table=7 fwmark=0x100/0xff", "outside its mask"),
            ("ipv4 2000 table=7 goto=9", "cannot have the option"),
        ] {
            let refusal = Setting::parse(&format!("routing-rule {line}")).unwrap_err();
            assert!(refusal.reason.contains(reason), "{line}: {}", refusal.reason);
        }
    }

    #[test]
    fn the_family_of_a_rule_is_that_of_its_networks() {
        let options = RoutingRuleOptions { priority: 2000, table: 7, ..Default::default() };
        let rule = RoutingRule::new(RoutingRuleOptions { to: "::/0", ..options }).unwrap();
        assert_eq!((rule.family(), rule.to()), (IpFamily::V6, None));
        assert!(RoutingRule::new(options).unwrap_err().reason.contains("is missing"));
        let both = RoutingRuleOptions { from: "10.0.0.0/8", to: "2001:db8::/32", ..options };
        let refusal = RoutingRule::new(both).unwrap_err();
        assert_eq!(refusal.reason, "no packet of `ipv4` has an address of `2001:db8::/32`");
    }
}
