//! Routing rules and tables of routes of settings, compared with what `ip` shows.

mod world;

use std::time::{Duration, Instant};

use world::{World, run, until};

const ADDRESS: &str = "address eth0 192.0.2.7 24";
const ROUTE: &str = "route 0.0.0.0/0 512 via 192.0.2.1 on eth0";
const IN_TABLE: &str = "route 0.0.0.0/0 512 table 1000 via 192.0.2.9 on eth0";
const BY_SOURCE: &str = "routing-rule ipv4 2000 table=1000 from=192.0.2.7/32 to=198.51.100.0/24";
const BY_MARK: &str = "routing-rule ipv4 2001 table=1000 iif=lo fwmark=0x100/0xff00";
const SIX: &str = "routing-rule ipv6 2000 table=100 from=2001:db8::/32 iif=eth0 oif=eth9";
/// The same, as `ip` shows them.
const SHOWN: [&str; 3] = [
    "2000:\tfrom 192.0.2.7 to 198.51.100.0/24 lookup 1000 proto 111",
    "2001:\tfrom all fwmark 0x100/0xff00 iif lo lookup 1000 proto 111",
    "2000:\tfrom 2001:db8::/32 iif eth0 oif eth9 [detached] lookup 100 proto 111",
];

/// How soon a foreign change is put back.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(1);

/// The rules but for the kernel's own.
fn rules(world: &World) -> Vec<String> {
    let shown = world.ip("-4 rule show") + &world.ip("-6 rule show");
    let is_of_kernel =
        |line: &str| ["0:", "32766:", "32767:"].iter().any(|own| line.starts_with(own));
    shown.lines().filter(|line| !is_of_kernel(line)).map(|line| line.trim().to_owned()).collect()
}

/// The way to an address, from that of the node.
fn way(world: &World, to: &str, more: &str) -> String {
    world.ip(&format!("route get {to} from 192.0.2.7 {more}"))
}

#[track_caller]
fn until_set(world: &World) -> Duration {
    let start = Instant::now();
    until("the rules are in effect", || (rules(world) == SHOWN).then_some(()));
    start.elapsed()
}

/// A world whose client has set everything.
fn world() -> (World, u32) {
    let mut world = World::new();
    world.start_init();
    world.want(&[ADDRESS, ROUTE, IN_TABLE, BY_SOURCE, BY_MARK, SIX]);
    let client = world.start_client();
    until_set(&world);
    (world, client)
}

#[test]
fn packets_that_match_a_rule_use_its_table() {
    let (world, _) = world();
    for line in [IN_TABLE, BY_SOURCE, BY_MARK, SIX] {
        let report = format!("network-set {line}");
        until(&report, || world.requests().contains(&report).then_some(()));
    }
    let (here, there) = ("via 192.0.2.1 dev eth0", "via 192.0.2.9 dev eth0 table 1000");
    assert!(way(&world, "198.51.100.7", "").contains(there));
    assert!(way(&world, "203.0.113.7", "").contains(here));
    assert!(way(&world, "203.0.113.7", "mark 0x1ab").contains(there));
    assert!(way(&world, "203.0.113.7", "mark 0x2ab").contains(here));
}

#[test]
fn what_another_program_changes_is_put_back_within_a_second() {
    let (world, _) = world();
    let side = &world.client_side;
    for command in [
        "rule delete priority 2000",
        "-6 rule delete priority 2000",
        "rule flush",
        "rule add priority 2000 from 192.0.2.8 table 1000 protocol 111",
        "rule add not priority 2003 from 192.0.2.8 table 1000 protocol 111",
        "rule add priority 2001 fwmark 0x100/0xff00 iif lo prohibit protocol 111",
        "-6 rule add priority 9 from 2001:db8::/32 ipproto tcp table 100 protocol 111",
    ] {
        run(&format!("ip -n {side} {command}"));
        let took = until_set(&world);
        assert!(took < REPAIR_TIMEOUT, "{command}: {took:?}");
    }
    // It went with `flush`, and the kernel needs it to find the gateway of a route.
    run(&format!("ip -n {side} rule add priority 32766 table main"));
    run(&format!("ip -n {side} route flush table 1000"));
    until("the route", || {
        world.ip("route show table 1000").contains("default via 192.0.2.9").then_some(())
    });
}

#[test]
fn what_is_withdrawn_is_gone_and_the_rules_of_other_programs_stay() {
    let (mut world, client) = world();
    let side = world.client_side.clone();
    // One is in the place of a rule of ours, and the other is Cilium's.
    run(&format!("ip -n {side} rule add priority 2001 fwmark 0x100/0xff00 iif lo table 1000"));
    run(&format!("ip -n {side} rule add priority 100 table 2004 protocol kernel"));
    run(&format!("ip -n {side} route add 203.0.113.0/24 via 192.0.2.1 table 1000"));
    world.want(&[ADDRESS, SIX]);
    let foreign =
        ["100:\tfrom all lookup 2004", "2001:\tfrom all fwmark 0x100/0xff00 iif lo lookup 1000"];
    until("ours are gone", || (rules(&world) == [foreign[0], foreign[1], SHOWN[2]]).then_some(()));
    let table = world.ip("route show table 1000");
    assert!(!table.contains("default") && table.contains("203.0.113.0/24"), "{table}");
    world.end(client, "-KILL");
    world.want(&[ADDRESS]);
    world.start_client();
    until("a program that starts again knows its own", || (rules(&world) == foreign).then_some(()));
}

#[test]
fn a_rule_with_another_table_replaces_the_one_of_its_priority() {
    let (world, _) = world();
    world.want(&[ADDRESS, &BY_SOURCE.replace("1000", "7")]);
    let replaced = SHOWN[0].replace("1000", "7");
    until("the other table", || (rules(&world) == [replaced.as_str()]).then_some(()));
    let report = format!("network-set {}", BY_SOURCE.replace("1000", "7"));
    until(&report, || world.requests().contains(&report).then_some(()));
}
