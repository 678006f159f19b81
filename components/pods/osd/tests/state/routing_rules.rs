//! Routing rules as resources, with an `init` that sets all that it is asked for.

use crate::kept::get_of;
use crate::network_settings::{ATTEMPTS, PAUSE, apply, lines, start_init, until};
use crate::osd::{Osd, code};
use tonic::Code;

const DOCUMENTS: &str = "{type: Route, id: r, spec: {link: eth1, destination: 0.0.0.0/0, \
                         gateway: 192.0.2.1, table: 100}}\n---\n\
                         {type: RoutingRule, id: a, spec: {priority: 2000, table: 100, \
                         from: 192.0.2.7/32, fwmark: 0x100/0xff00}}";

#[tokio::test]
async fn rules_reach_init_and_have_a_status() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    apply(&osd, DOCUMENTS).await.unwrap();
    let expected_lines = [
        "route 0.0.0.0/0 512 table 100 via 192.0.2.1 on eth1",
        "routing-rule ipv4 2000 table=100 from=192.0.2.7/32 fwmark=0x100/0xff00",
    ];
    until("init holds both", || lines(&held) == expected_lines).await;
    let client = &mut osd.client().await;
    let expected = "family: ipv4\npriority: 2000\ntable: 100\nfrom: 192.0.2.7/32\n\
                    fwmark: 0x100/0xff00\nset: true\nsetBy: api\nversion: \"1\"\n";
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        let found = get_of(client, "RoutingRuleStatuses.osbuild", "a").await;
        last = found.map(|found| found.spec.unwrap().yaml_spec).unwrap_or_default();
        if last == expected {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    assert_eq!(last, expected);
}

#[tokio::test]
async fn rules_of_other_programs_and_of_no_packet_are_refused() {
    let osd = Osd::start_with(&[]);
    for spec in [
        "{priority: 2000, table: 100}",
        "{family: ipv4, priority: 0, table: 100}",
        "{family: ipv4, priority: 100, table: 100}",
        "{family: ipv4, priority: 32766, table: 100}",
        "{family: ipv4, priority: 2000}",
        "{family: ipv4, priority: 2000, table: 255}",
        "{family: ipv4, priority: 2000, table: 100, from: '::/0'}",
        "{family: ipv4, priority: 2000, table: 100, fwmark: 0x100/0xff}",
        "{family: ipv4, priority: 2000, table: 100, iff: eth0}",
    ] {
        let document = format!("{{type: RoutingRule, id: a, spec: {spec}}}");
        assert_eq!(code(apply(&osd, &document).await), Code::InvalidArgument, "{document}");
    }
    apply(&osd, DOCUMENTS).await.unwrap();
    let same = "{type: RoutingRule, id: b, spec: {family: ipv4, priority: 2000, table: 7}}";
    let refused = apply(&osd, same).await.unwrap_err();
    assert!(refused.message().contains("`routing-rule ipv4 2000`"), "{refused:?}");
    apply(&osd, &same.replace("ipv4", "ipv6")).await.unwrap();
}
