//! Translation of addresses in packets that the node forwards. The network pod sets it in the
//! kernel.

mod conflicts;

pub use conflicts::nat_conflict;

use std::fmt;
use std::net::IpAddr;

use super::Subnet;
use super::firewall::{LinkPattern, RuleName, RuleProtocol, entries, texts};
use super::options::{Options, number};
use crate::Refusal;
use osbuild_abi::osd::PORT;

/// The ports of TCP by which an administrator and the API server reach the node, with their owners.
const OF_THE_NODE: [(u16, &str); 2] = [(PORT, "the node API"), (10_250, "the kubelet")];

/// A rule that translates addresses of connections which go through the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nat {
    name: RuleName,
    link: Option<LinkPattern>,
    translation: Translation,
}

/// The change of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Translation {
    /// Those from these networks come from the address of the link by which they leave.
    Masquerade(Vec<Subnet>),
    /// Those from these networks come from this address.
    Source(Vec<Subnet>, IpAddr),
    /// Those to a port of the node go elsewhere.
    Destination(Forwarding),
}

/// A port of the node, and the place that connections to it go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarding {
    /// `tcp` or `udp`.
    pub protocol: RuleProtocol,
    /// The address that packets are sent to; none for all that the node has.
    pub address: Option<IpAddr>,
    /// The port that they are sent to.
    pub port: u16,
    /// The address that they go to.
    pub to: IpAddr,
    /// The port that they go to.
    pub to_port: u16,
}

/// The words of a rule. A text is empty, and a number is 0, if it is not there.
#[derive(Clone, Copy, Debug, Default)]
pub struct NatOptions<'a> {
    /// The name.
    pub name: &'a str,
    /// `masquerade`, `source` or `destination`.
    pub action: &'a str,
    /// The link by which packets leave; that by which they come in for `destination`.
    pub link: &'a str,
    /// The networks that they come from.
    pub sources: &'a [String],
    /// The protocol.
    pub protocol: &'a str,
    /// The address that they are sent to.
    pub address: &'a str,
    /// The port that they are sent to.
    pub port: u32,
    /// The address that takes the place of theirs.
    pub to: &'a str,
    /// The port that takes the place of theirs.
    pub to_port: u32,
}

impl Nat {
    /// Reads the words of a rule.
    ///
    /// # Errors
    /// A word is malformed, missing, or of another action.
    pub fn new(options: NatOptions) -> Result<Self, Refusal> {
        let link = Some(options.link).filter(|word| !word.is_empty());
        Ok(Self {
            name: RuleName::parse(options.name)?,
            link: link.map(LinkPattern::parse).transpose()?,
            translation: match options.action {
                "masquerade" => Translation::Masquerade(options.leaving(&["to"])?),
                "source" => options.source()?,
                "destination" => Translation::Destination(options.forwarding()?),
                _ => {
                    let actions = "`masquerade`, `source` or `destination`";
                    let reason = format!("the `action` of a NAT rule is {actions}");
                    return Err(Refusal::malformed(reason));
                }
            },
        })
    }

    /// Reads the words after the name that [`Self::words`] writes.
    pub(super) fn parse_words(name: &RuleName, words: &str) -> Result<Self, Refusal> {
        let (action, options) = words.split_once(' ').unwrap_or((words, ""));
        let mut options = Options::parse("a NAT rule", options)?;
        let mut text = |option: &str| options.take(option).unwrap_or_default();
        let [link, sources, protocol] = ["link", "sources", "protocol"].map(&mut text);
        let [address, port, to, to_port] = ["address", "port", "to", "to-port"].map(text);
        options.end()?;
        let sources = sources.split(',').filter(|_| !sources.is_empty());
        let sources: Vec<String> = sources.map(str::to_owned).collect();
        let port_of = |word: &str| match number::<u16>(word).filter(|port| *port != 0) {
            _ if word.is_empty() => Ok(0),
            Some(port) => Ok(port.into()),
            None => Err(Refusal::malformed(format!("`{word}` is not a port: 1 to 65535"))),
        };
        let (port, to_port) = (port_of(port)?, port_of(to_port)?);
        let name = name.as_str();
        let sources = &sources;
        Self::new(NatOptions { name, action, link, sources, protocol, address, port, to, to_port })
    }

    /// The action and the options as words with one space between.
    pub(super) fn words(&self) -> String {
        let mut words = self.action().to_owned();
        let mut add = |name: &str, value: &dyn fmt::Display| words += &format!(" {name}={value}");
        if let Some(link) = &self.link {
            add("link", link);
        }
        if !self.sources().is_empty() {
            add("sources", &texts(self.sources()).join(","));
        }
        if let Translation::Destination(Forwarding { protocol, address, port, .. }) =
            &self.translation
        {
            add("protocol", protocol);
            if let Some(address) = address {
                add("address", address);
            }
            add("port", port);
        }
        if let Some(to) = self.to() {
            add("to", &to);
        }
        if let Translation::Destination(Forwarding { port, to_port, .. }) = &self.translation
            && port != to_port
        {
            add("to-port", to_port);
        }
        words
    }

    /// Its name.
    pub fn name(&self) -> &RuleName {
        &self.name
    }

    /// The word for the translation.
    pub fn action(&self) -> &'static str {
        match self.translation {
            Translation::Masquerade(_) => "masquerade",
            Translation::Source(..) => "source",
            Translation::Destination(_) => "destination",
        }
    }

    /// The link by which packets leave, or come in if their destination is translated; none for
    /// all.
    pub fn link(&self) -> Option<&LinkPattern> {
        self.link.as_ref()
    }

    /// The change of a connection.
    pub fn translation(&self) -> &Translation {
        &self.translation
    }

    /// The networks that packets come from; none for all.
    pub fn sources(&self) -> &[Subnet] {
        match &self.translation {
            Translation::Masquerade(sources) | Translation::Source(sources, _) => sources,
            Translation::Destination(_) => &[],
        }
    }

    /// The address that takes the place of another one; none for that of a link.
    pub fn to(&self) -> Option<IpAddr> {
        match self.translation {
            Translation::Masquerade(_) => None,
            Translation::Source(_, to) | Translation::Destination(Forwarding { to, .. }) => {
                Some(to)
            }
        }
    }
}

impl NatOptions<'_> {
    /// The sources of an action on packets that leave, without the options of another action.
    fn leaving(&self, others: &[&str]) -> Result<Vec<Subnet>, Refusal> {
        self.refuse(&["protocol", "address", "port", "toPort"])?;
        self.refuse(others)?;
        let action = self.action;
        if self.link.is_empty() {
            let reason = format!("`{action}` needs a `link`: the one by which packets leave");
            return Err(Refusal::malformed(reason));
        }
        match entries(self.sources, "sources", Subnet::parse_source)? {
            sources if sources.is_empty() => {
                let reason = format!("`{action}` needs `sources`: networks behind the node");
                Err(Refusal::malformed(reason))
            }
            sources => Ok(sources),
        }
    }

    fn source(&self) -> Result<Translation, Refusal> {
        let (sources, to) = (self.leaving(&[])?, self.new_address()?);
        match sources.iter().find(|source| source.address().is_ipv4() != to.is_ipv4()) {
            None => Ok(Translation::Source(sources, to)),
            Some(source) => {
                let reason = format!("no packet from `{source}` can come from `{to}`");
                Err(Refusal::malformed(format!("{reason}: IPv4 and IPv6")))
            }
        }
    }

    fn forwarding(&self) -> Result<Forwarding, Refusal> {
        self.refuse(&["sources"])?;
        let refuse = |reason: String| Err(Refusal::malformed(reason));
        let protocol = RuleProtocol::parse(self.protocol).ok();
        let protocol = protocol.filter(|one| [RuleProtocol::TCP, RuleProtocol::UDP].contains(one));
        let Some(protocol) = protocol else {
            return refuse("the `protocol` of `destination` is `tcp` or `udp`".to_owned());
        };
        let port = port("port", self.port)?;
        let of_the_node = OF_THE_NODE.into_iter().find(|(number, _)| *number == port);
        if let Some((_, owner)) = of_the_node.filter(|_| protocol == RuleProtocol::TCP) {
            return refuse(format!("port {port} is that of {owner}, and stays with it"));
        }
        let to = self.new_address()?;
        let address = Some(self.address).filter(|word| !word.is_empty());
        let address = address.map(|word| unicast("address", word)).transpose()?;
        if let Some(address) = address.filter(|one| one.is_ipv4() != to.is_ipv4()) {
            return refuse(format!("no packet to `{address}` can go to `{to}`: IPv4 and IPv6"));
        }
        let to_port = match self.to_port {
            0 => port,
            number => self::port("toPort", number)?,
        };
        Ok(Forwarding { protocol, address, port, to, to_port })
    }

    fn new_address(&self) -> Result<IpAddr, Refusal> {
        match self.to {
            "" => {
                let reason = format!("`{}` needs the address `to`", self.action);
                Err(Refusal::malformed(reason))
            }
            word => unicast("to", word),
        }
    }

    /// Refuses options that are there.
    fn refuse(&self, options: &[&str]) -> Result<(), Refusal> {
        let is_there = |option: &str| match option {
            "sources" => !self.sources.is_empty(),
            "protocol" => !self.protocol.is_empty(),
            "address" => !self.address.is_empty(),
            "port" => self.port != 0,
            "to" => !self.to.is_empty(),
            _ => self.to_port != 0,
        };
        match options.iter().find(|option| is_there(option)) {
            None => Ok(()),
            Some(option) => {
                Err(Refusal::malformed(format!("`{}` cannot have `{option}`", self.action)))
            }
        }
    }
}

/// Reads a port, which is there.
fn port(field: &str, port: u32) -> Result<u16, Refusal> {
    let port = u16::try_from(port).ok().filter(|port| *port != 0);
    port.ok_or_else(|| Refusal::malformed(format!("`{field}` of `destination` is 1 to 65535")))
}

/// Reads an address that packets can have on a link, and behind it.
fn unicast(field: &str, word: &str) -> Result<IpAddr, Refusal> {
    let is_routed = |address: &IpAddr| match address {
        IpAddr::V4(address) => !address.is_broadcast() && !address.is_link_local(),
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    };
    let address = word.parse::<IpAddr>().ok().filter(|address| {
        let is_special =
            address.is_loopback() || address.is_multicast() || address.is_unspecified();
        !is_special && is_routed(address)
    });
    let refuse = || Refusal::malformed(format!("`{field}` is not an address of a host: `{word}`"));
    address.ok_or_else(refuse)
}

#[cfg(test)]
mod tests;
