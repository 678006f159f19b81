//! Routing rules of the kernel through rtnetlink.

use std::io;
use std::net::IpAddr;

use osbuild_protocol::IpFamily;
use osbuild_rtnetlink::{Answer, BY_SETTING, Request, attributes, u32_at};

use super::FoundRule;
use crate::netlink::{EXECUTE, INET, INET6, LIST, Netlink};
use crate::static_network::kernel::{address_of, octets, unless_gone};

/// Bytes of the fixed part of a message about a rule (`fib_rule_hdr`).
const RULE: usize = 12;
/// The flags of a request that sets a rule.
const ADD: i32 = EXECUTE | libc::NLM_F_CREATE;
/// The flag of a rule about packets that do not match (`FIB_RULE_INVERT`).
const INVERTED: u32 = 2;
/// No routes are left out, and so is their length (`FRA_SUPPRESS_PREFIXLEN`).
const ALL_ROUTES: u32 = u32::MAX;

/// The attributes of a rule (`FRA_…`), which not every `libc` defines.
const TO: u16 = 1;
const FROM: u16 = 2;
const IIF: u16 = 3;
const PRIORITY: u16 = 6;
const FWMARK: u16 = 10;
const SUPPRESSED_LENGTH: u16 = 14;
const TABLE: u16 = 15;
const FWMASK: u16 = 16;
const OIF: u16 = 17;
const PROTOCOL: u16 = 21;

impl Netlink {
    /// Lists the rules that this program has set.
    pub fn setting_rules(&mut self) -> io::Result<Vec<FoundRule>> {
        self.list(Request::new(libc::RTM_GETRULE, LIST, &[0; RULE]), read_rule)
    }

    /// Sets a rule.
    pub fn put_rule(&mut self, rule: &FoundRule) -> io::Result<()> {
        self.execute(rule_request(libc::RTM_NEWRULE, ADD, rule))
    }

    /// Removes a rule that [`Netlink::setting_rules`] returned.
    pub fn delete_rule(&mut self, rule: &FoundRule) -> io::Result<()> {
        unless_gone(self.execute(rule_request(libc::RTM_DELRULE, EXECUTE, rule)))
    }
}

fn rule_request(kind: u16, flags: i32, rule: &FoundRule) -> Request {
    let family = match rule.family {
        IpFamily::V4 => INET,
        IpFamily::V6 => INET6,
    };
    let length = |network: Option<(IpAddr, u8)>| network.map_or(0, |(_, length)| length);
    let fixed = [family, length(rule.to), length(rule.from), 0, 0, 0, 0, rule.action, 0, 0, 0, 0];
    let mut request = Request::new(kind, flags, &fixed)
        .with(PRIORITY, &rule.priority.to_ne_bytes())
        .with(TABLE, &rule.table.to_ne_bytes())
        .with(PROTOCOL, &[BY_SETTING]);
    for (attribute, network) in [(TO, rule.to), (FROM, rule.from)] {
        if let Some((address, _)) = network {
            request = request.with(attribute, &octets(address));
        }
    }
    for (attribute, link) in [(IIF, &rule.iif), (OIF, &rule.oif)] {
        if let Some(name) = link {
            request = request.with(attribute, &[name.as_bytes(), b"\0"].concat());
        }
    }
    match rule.fwmark {
        Some((mark, mask)) => {
            request.with(FWMARK, &mark.to_ne_bytes()).with(FWMASK, &mask.to_ne_bytes())
        }
        None => request,
    }
}

/// Reads a rule of this program; none if the message is another one.
fn read_rule(answer: &Answer) -> Option<FoundRule> {
    let fixed = answer.payload.get(..RULE).filter(|_| answer.kind == libc::RTM_NEWRULE)?;
    let family = match fixed[0] {
        INET => IpFamily::V4,
        INET6 => IpFamily::V6,
        _ => return None,
    };
    let mut rule = FoundRule {
        family,
        priority: 0,
        table: fixed[4].into(),
        from: None,
        to: None,
        iif: None,
        oif: None,
        fwmark: None,
        action: fixed[7],
        has_more: fixed[3] != 0 || u32_at(fixed, 8)? & INVERTED != 0,
    };
    let (mut is_own, mut mark, mut mask) = (false, 0, 0);
    for (kind, value) in attributes(&answer.payload[RULE..]) {
        match kind {
            TO => rule.to = Some((address_of(value)?, fixed[1])),
            FROM => rule.from = Some((address_of(value)?, fixed[2])),
            IIF => rule.iif = Some(text(value)),
            OIF => rule.oif = Some(text(value)),
            PRIORITY => rule.priority = u32_at(value, 0)?,
            TABLE => rule.table = u32_at(value, 0)?,
            FWMARK => mark = u32_at(value, 0)?,
            FWMASK => mask = u32_at(value, 0)?,
            PROTOCOL => is_own = value == [BY_SETTING],
            SUPPRESSED_LENGTH => rule.has_more |= u32_at(value, 0)? != ALL_ROUTES,
            _ => rule.has_more = true,
        }
    }
    rule.fwmark = ((mark, mask) != (0, 0)).then_some((mark, mask));
    is_own.then_some(rule)
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).trim_end_matches('\0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_rtnetlink::answers;
    use proptest::prelude::*;

    fn whole() -> FoundRule {
        FoundRule {
            family: IpFamily::V6,
            priority: 2000,
            table: 1000,
            from: Some(("2001:db8::".parse().unwrap(), 32)),
            to: Some(("2001:db8:1::".parse().unwrap(), 48)),
            iif: Some("eth0".to_owned()),
            oif: Some("lo".to_owned()),
            fwmark: Some((1, 0xff)),
            action: super::super::TO_TABLE,
            has_more: false,
        }
    }

    fn read(request: Request) -> Option<FoundRule> {
        let bytes = request.finish(1);
        read_rule(&answers(&bytes).next().unwrap())
    }

    #[test]
    fn a_rule_is_read_as_it_was_written() {
        let request = rule_request(libc::RTM_NEWRULE, 0, &whole());
        assert_eq!(read(request), Some(whole()));
    }

    #[test]
    fn a_rule_of_another_program_is_left_out_and_one_with_more_differs() {
        let request = rule_request(libc::RTM_NEWRULE, 0, &whole());
        assert_eq!(read(request.with(PROTOCOL, &[4])), None);
        let request = rule_request(libc::RTM_NEWRULE, 0, &whole());
        let found = read(request.with(SUPPRESSED_LENGTH, &[0; 4]));
        assert_eq!(found, Some(FoundRule { has_more: true, ..whole() }));
    }

    proptest! {
        #[test]
        fn any_attributes_are_read(
            fixed in prop::collection::vec(prop_oneof![Just(2_u8), any::<u8>()], 0..16),
            values in prop::collection::vec(
                (0..24_u16, prop::collection::vec(any::<u8>(), 0..18)), 0..8,
            ),
        ) {
            let request = Request::new(libc::RTM_NEWRULE, 0, &fixed);
            read(values.iter().fold(request, |request, (kind, value)| request.with(*kind, value)));
        }
    }
}
