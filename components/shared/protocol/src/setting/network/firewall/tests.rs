use super::*;
use crate::{NetworkSetting, Setting};

fn rule(line: &str) -> FirewallRule {
    match Setting::parse(&format!("firewall-rule {line}")) {
        Ok(Setting::Network(NetworkSetting::FirewallRule(rule))) => rule,
        other => panic!("{line}: {other:?}"),
    }
}

fn conflict(lines: &[&str]) -> Option<String> {
    let settings: Vec<_> =
        lines.iter().map(|line| NetworkSetting::FirewallRule(rule(line))).collect();
    firewall_conflict(&settings)
}

#[test]
fn every_rule_is_one_line() {
    for line in [
        "firewall-rule rest drop",
        "firewall-rule api accept protocol=tcp ports=50000 sources=10.0.0.0/8,2001:db8::/32",
        "firewall-rule a.b-7 drop priority=1 protocol=udp ports=53,8000-8100 links=cali*,eth0",
        "firewall-rule ping accept priority=65535 protocol=icmp",
        "firewall-rule ping6 accept protocol=icmpv6 sources=fe80::/10",
        "firewall-rule tunnels accept protocol=4 sources=0.0.0.0/0",
        "firewall-rule pods accept links=cni0",
    ] {
        assert_eq!(Setting::parse(line).unwrap().to_string(), line);
    }
}

#[test]
fn lists_are_sorted_and_have_each_entry_once() {
    let rule = rule("a accept protocol=6 ports=90,80-81,90 sources=::/0,10.0.0.0/8");
    assert_eq!(rule.words(), "accept protocol=tcp ports=80-81,90 sources=10.0.0.0/8,::/0");
}

#[test]
fn a_rule_that_no_packet_can_match_is_refused() {
    for line in [
        "a",
        "a allow",
        "A accept",
        "-a accept",
        "a accept drop",
        "a accept protocol=all",
        "a accept protocol=0",
        "a accept protocol=256",
        "a accept ports=80",
        "a accept protocol=icmp ports=80",
        "a accept protocol=tcp ports=0",
        "a accept protocol=tcp ports=90-80",
        "a accept protocol=tcp ports=080",
        "a accept protocol=tcp ports=1-65536",
        "a accept protocol=tcp ports=",
        "a accept sources=10.0.0.1",
        "a accept sources=10.0.0.1/8",
        "a accept sources=127.0.0.0/8",
        "a accept sources=224.0.0.0/4",
        "a accept protocol=icmp sources=2001:db8::/32",
        "a accept protocol=icmpv6 sources=10.0.0.0/8",
        "a accept links=lo",
        "a accept links=*",
        "a accept links=a*b",
        "a accept priority=0 links=eth0",
        "a accept priority=65536 links=eth0",
        "a drop priority=7",
        "a accept port=80",
    ] {
        assert!(Setting::parse(&format!("firewall-rule {line}")).is_err(), "{line}");
    }
    let many: Vec<String> = (1..=33).map(|port| port.to_string()).collect();
    let options = |ports| RuleOptions {
        name: "a",
        action: "drop",
        protocol: "tcp",
        ports,
        ..Default::default()
    };
    assert!(FirewallRule::new(options(&many)).is_err());
    assert!(FirewallRule::new(options(&many[1..])).is_ok());
}

#[test]
fn the_order_of_rules_depends_on_no_name_unless_it_changes_nothing() {
    let mut rules = [
        "rest drop",
        "z drop protocol=tcp",
        "b accept protocol=udp",
        "a accept protocol=udp",
        "y accept priority=1 protocol=tcp",
        "x accept priority=1001 protocol=tcp",
    ]
    .map(rule);
    rules.sort_by(|one, other| one.order().cmp(&other.order()));
    let names = rules.each_ref().map(|rule| rule.name().as_str());
    assert_eq!(names, ["y", "z", "a", "b", "x", "rest"]);
}

#[test]
fn rules_that_contradict_each_other_at_one_place_are_refused() {
    let both = conflict(&["rest drop", "other accept"]);
    assert_eq!(both.unwrap(), "`rest` and `other` are both about all other packets");
    let overlap =
        conflict(&["a accept protocol=tcp ports=80 sources=10.0.0.0/8", "b drop protocol=tcp"]);
    let expected = "`b` drops packets that `a` accepts, both with the priority 1000: give the one \
                    that counts a lower number";
    assert_eq!(overlap.unwrap(), expected);
    for lines in [
        ["a accept sources=10.1.0.0/16", "b drop sources=10.0.0.0/8"],
        ["a accept protocol=tcp ports=80-90", "b drop protocol=tcp ports=85"],
        ["a accept links=cali1", "b drop links=cali*"],
        ["a accept protocol=tcp", "b drop links=eth0"],
    ] {
        assert!(conflict(&lines).is_some(), "{lines:?}");
    }
    for lines in [
        ["a accept protocol=tcp", "rest drop"],
        ["a accept protocol=tcp", "b accept protocol=tcp"],
        ["a accept protocol=tcp", "b drop protocol=udp"],
        ["a accept protocol=tcp ports=80", "b drop protocol=tcp ports=81"],
        ["a accept sources=10.0.0.0/8", "b drop sources=11.0.0.0/8"],
        ["a accept sources=10.0.0.0/8", "b drop sources=::/0"],
        ["a accept sources=10.0.0.0/8", "b drop protocol=icmpv6"],
        ["a accept links=eth0", "b drop links=eth1"],
        ["a accept priority=1 protocol=tcp", "b drop protocol=tcp"],
    ] {
        assert_eq!(conflict(&lines), None, "{lines:?}");
    }
}

#[test]
fn a_port_is_closed_to_everybody_unless_some_packet_gets_to_it() {
    let closing = |lines: &[&str]| {
        let settings: Vec<_> =
            lines.iter().map(|line| NetworkSetting::FirewallRule(rule(line))).collect();
        rule_that_closes(&settings, 50_000).map(|rule| rule.name().to_string())
    };
    let api = "api accept protocol=tcp ports=50000 sources=10.0.0.0/8";
    for (lines, expected) in [
        (&[][..], None),
        (&["rest drop"], Some("rest")),
        (&["rest drop", api], None),
        (&["rest drop", "api accept protocol=udp ports=50000"], Some("rest")),
        (&["rest drop", "api accept protocol=tcp ports=49999,50001"], Some("rest")),
        (&["rest drop", "pods accept links=cni0"], None),
        (&["rest accept", "high drop protocol=tcp ports=1024-65535"], Some("high")),
        (&["high drop priority=1 protocol=tcp", api], Some("high")),
        (&["high drop priority=2000 protocol=tcp", api], None),
        (&["some drop protocol=tcp sources=10.0.0.0/8"], None),
    ] {
        assert_eq!(closing(lines).as_deref(), expected, "{lines:?}");
    }
}
