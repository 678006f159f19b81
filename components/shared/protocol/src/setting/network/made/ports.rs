//! The ports of bridges and bonds.

use std::fmt;

use super::super::LinkName;
use crate::Refusal;

/// The maximum number of ports of a link.
const MAX_PORTS: usize = 16;

/// The ports of a bridge or a bond, which may have none yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports(Vec<LinkName>);

impl Ports {
    /// Reads the names of links.
    ///
    /// # Errors
    /// There are too many of them, one is there twice, or is not the name of a link.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, Refusal> {
        let mut ports = Vec::new();
        for word in words {
            let port = LinkName::parse(word)?;
            if ports.contains(&port) {
                return Err(Refusal::malformed(format!("`{word}` is a port twice")));
            }
            ports.push(port);
        }
        match ports.len() {
            0..=MAX_PORTS => Ok(Self(ports)),
            _ => Err(Refusal::malformed(format!("a link has at most {MAX_PORTS} ports"))),
        }
    }

    /// Reads the value of the option that [`Display`](fmt::Display) writes.
    pub(super) fn of_option(value: Option<&str>) -> Result<Self, Refusal> {
        Self::parse(value.into_iter().flat_map(|value| value.split(',')))
    }

    /// The ports in their order.
    pub fn iter(&self) -> impl Iterator<Item = &LinkName> {
        self.0.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.0.iter().map(LinkName::as_str).collect();
        f.write_str(&words.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_a_few_links_each_of_them_once() {
        assert_eq!(Ports::parse(["eth1", "eth0"]).unwrap().to_string(), "eth1,eth0");
        assert!(Ports::parse([]).unwrap().is_empty());
        assert!(Ports::parse(["eth0", "eth1", "eth0"]).is_err());
        assert!(Ports::parse(["lo"]).is_err());
        let many: Vec<String> = (0..=MAX_PORTS).map(|number| format!("eth{number}")).collect();
        assert!(Ports::parse(many.iter().map(String::as_str)).is_err());
        assert!(Ports::parse(many.iter().skip(1).map(String::as_str)).is_ok());
    }
}
