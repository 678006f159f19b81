use super::*;
use crate::{NetworkSetting, Setting};

fn setting(line: &str) -> NetworkSetting {
    match Setting::parse(&format!("nat {line}")) {
        Ok(Setting::Network(setting)) => setting,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn every_rule_is_one_line() {
    for line in [
        "nat lan masquerade link=eth0 sources=10.0.0.0/24,fd00:7::/64",
        "nat modem masquerade link=wwan* sources=10.0.0.0/24",
        "nat fixed source link=eth0 sources=10.0.0.5/32 to=192.0.2.7",
        "nat web destination protocol=tcp port=80 to=10.0.0.5",
        "nat dns destination link=eth0 protocol=udp address=2001:db8::7 port=53 to=fd00:7::5 \
         to-port=5353",
        "nat udp destination protocol=udp port=50000 to=10.0.0.5",
        "nat to destination protocol=tcp port=80 to=10.0.0.5 to-port=10250",
    ] {
        assert_eq!(Setting::parse(line).unwrap().to_string(), line);
    }
    let same = setting("web destination protocol=tcp port=80 to=10.0.0.5 to-port=80");
    assert_eq!(same, setting("web destination protocol=tcp port=80 to=10.0.0.5"));
}

#[test]
fn a_rule_that_no_kernel_can_follow_is_refused_and_the_reason_names_the_field() {
    let web = "a destination protocol=tcp";
    for (line, reason) in [
        ("a translate", "the `action` of a NAT rule is `masquerade`"),
        ("A masquerade link=eth0 sources=10.0.0.0/8", "is not the name of a rule"),
        ("a masquerade sources=10.0.0.0/8", "`masquerade` needs a `link`"),
        ("a masquerade link=eth0", "`masquerade` needs `sources`"),
        ("a masquerade link=lo sources=10.0.0.0/8", "lo"),
        ("a masquerade link=eth0 sources=10.0.0.1/8", "bits behind its prefix"),
        ("a masquerade link=eth0 sources=10.0.0.0/8 to=192.0.2.7", "cannot have `to`"),
        ("a masquerade link=eth0 sources=10.0.0.0/8 port=80", "cannot have `port`"),
        ("a source link=eth0 sources=10.0.0.0/8", "`source` needs the address `to`"),
        ("a source link=eth0 sources=fd00::/64 to=192.0.2.7", "IPv4 and IPv6"),
        ("a source link=eth0 sources=10.0.0.0/8 to=224.0.0.1", "not an address of a host"),
        ("a source link=eth0 sources=10.0.0.0/8 to=192.0.2.7 to-port=7", "cannot have `toPort`"),
        ("a destination port=80 to=10.0.0.5", "is `tcp` or `udp`"),
        ("a destination protocol=sctp port=80 to=10.0.0.5", "is `tcp` or `udp`"),
        (&format!("{web} to=10.0.0.5"), "`port` of `destination` is 1 to 65535"),
        (&format!("{web} port=0 to=10.0.0.5"), "`0` is not a port"),
        (&format!("{web} port=65536 to=10.0.0.5"), "`65536` is not a port"),
        (&format!("{web} port=80 to=10.0.0.5 to-port=0"), "`0` is not a port"),
        (&format!("{web} port=80"), "needs the address `to`"),
        (&format!("{web} port=80 to=127.0.0.1"), "not an address of a host"),
        (&format!("{web} port=80 to=fe80::1"), "not an address of a host"),
        (&format!("{web} port=80 to=10.0.0.5:80"), "not an address of a host"),
        (&format!("{web} port=80 to=10.0.0.5 address=::"), "not an address of a host"),
        (&format!("{web} port=80 to=10.0.0.5 address=fd00::1"), "IPv4 and IPv6"),
        (&format!("{web} port=80 to=10.0.0.5 sources=10.0.0.0/8"), "cannot have `sources`"),
        (&format!("{web} port=50000 to=10.0.0.5"), "port 50000 is that of the node API"),
        (&format!("{web} port=10250 to=10.0.0.5"), "port 10250 is that of the kubelet"),
        (&format!("{web} port=10250 to=10.0.0.5 to-port=80 link=eth0"), "of the kubelet"),
        (&format!("{web} port=80 to=10.0.0.5 more=1"), "more"),
    ] {
        let refusal = Setting::parse(&format!("nat {line}")).unwrap_err();
        assert!(refusal.reason.contains(reason), "{line}: {}", refusal.reason);
    }
}

#[test]
fn rules_that_translate_one_connection_to_two_places_are_refused() {
    let conflict = |lines: [&str; 2]| nat_conflict(&lines.map(setting));
    let web = "web destination protocol=tcp port=80 to=10.0.0.5";
    for (lines, reason) in [
        (
            [web, "b destination link=eth0 protocol=tcp port=80 to=10.0.0.6"],
            "`web` and `b` both forward the port 80 of `tcp`",
        ),
        (
            [
                "a source link=eth* sources=10.0.0.0/8 to=192.0.2.7",
                "b source link=eth0 sources=10.1.0.0/16 to=192.0.2.8",
            ],
            "`a` and `b` both give packets from `10.0.0.0/8` another source",
        ),
    ] {
        assert_eq!(conflict(lines).as_deref(), Some(reason));
    }
    for other in [
        "b destination protocol=udp port=80 to=10.0.0.6",
        "b destination protocol=tcp port=81 to=10.0.0.6",
        "b destination protocol=tcp port=80 to=fd00::6",
        "b masquerade link=eth0 sources=10.0.0.0/8",
    ] {
        assert_eq!(conflict([web, other]), None, "{other}");
    }
    let fixed = "a source link=eth0 sources=10.0.0.5/32 to=192.0.2.7";
    let rest = "b masquerade link=eth0 sources=10.0.0.0/8";
    assert_eq!(conflict([fixed, rest]), None, "the fixed source comes first");
}
