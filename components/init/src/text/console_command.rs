//! The commands that a person types at a console of the machine.

use std::net::IpAddr;

use osbuild_protocol::Setting;

/// How a person can give the node an address, for the console.
pub const HINT: &str = "type `address LINK ADDRESS/PREFIX-LENGTH [GATEWAY]` and Enter to give the \
                        node an address";

/// The metric of the route to the gateway: it is preferred to those of other sources.
const METRIC: u32 = 1;

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Give the node an address, by these settings.
    Address(Vec<Setting>),
    /// Keep that address until the next boot.
    Keep,
    /// Take that address back.
    Undo,
}

impl Command {
    /// Reads a line.
    ///
    /// # Errors
    /// It has a mistake, which the error names.
    pub fn parse(line: &str) -> Result<Command, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["address", link, address] => settings(link, address, None).map(Self::Address),
            ["address", link, address, gateway] => {
                settings(link, address, Some(gateway)).map(Self::Address)
            }
            ["keep"] => Ok(Self::Keep),
            ["undo"] => Ok(Self::Undo),
            _ => Err(HINT.to_owned()),
        }
    }
}

fn settings(link: &str, address: &str, gateway: Option<&str>) -> Result<Vec<Setting>, String> {
    let malformed = || format!("`{address}` is not an address with the length of its prefix");
    let (ip, length) = address.split_once('/').ok_or_else(malformed)?;
    let ip: IpAddr = ip.parse().map_err(|_| malformed())?;
    let mut lines = vec![format!("address {link} {ip} {length}")];
    lines.extend(gateway.map(|gateway| {
        let all = if ip.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
        format!("route {all} {METRIC} via {gateway} on {link}")
    }));
    // The setting of another source may have switched it off.
    lines.push(format!("link {link} state up"));
    let settings = lines.iter().map(|line| Setting::parse(line).map_err(|refusal| refusal.reason));
    settings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(line: &str) -> Result<Vec<String>, String> {
        match Command::parse(line)? {
            Command::Address(settings) => Ok(settings.iter().map(Setting::line).collect()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_address_comes_with_its_link_and_with_its_gateway_if_one_is_named() {
        let link = "link eth0 state up".to_owned();
        let address = "address eth0 192.0.2.7 24".to_owned();
        let route = "route 0.0.0.0/0 1 via 192.0.2.1 on eth0".to_owned();
        assert_eq!(lines(" address  eth0 192.0.2.7/24 "), Ok(vec![address.clone(), link.clone()]));
        let with_gateway = Ok(vec![address, route, link.clone()]);
        assert_eq!(lines("address eth0 192.0.2.7/24 192.0.2.1"), with_gateway);
        let address = "address eth0 2001:db8::7 64".to_owned();
        let route = "route ::/0 1 via fe80::1 on eth0".to_owned();
        assert_eq!(lines("address eth0 2001:db8::7/64 fe80::1"), Ok(vec![address, route, link]));
    }

    #[test]
    fn a_mistake_is_named() {
        for (line, error) in [
            ("", HINT),
            ("login: root", HINT),
            ("address eth0", HINT),
            ("address eth0 192.0.2.7", "`192.0.2.7` is not an address with the length"),
            ("address eth0 a/24", "`a/24` is not an address with the length of its prefix"),
            ("address eth0 192.0.2.7/33", "33"),
            ("address eth0 192.0.2.7/24 2001:db8::1", "2001:db8::1"),
            ("address ../x 192.0.2.7/24", "../x"),
        ] {
            let found = lines(line).unwrap_err();
            assert!(found.contains(error), "{line}: {found}");
        }
    }
}
