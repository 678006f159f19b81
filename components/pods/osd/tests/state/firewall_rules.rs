//! Firewall rules as resources, with an `init` that sets all that it is asked for.

use crate::kept::get_of;
use crate::network_settings::{ATTEMPTS, PAUSE, apply, lines, start_init, until};
use crate::osd::{Osd, code};
use tonic::Code;

const API: &str = "{type: FirewallRule, id: a, spec: {name: api, action: accept, protocol: tcp, \
                   ports: [50000, 30000-32767], sources: 192.0.2.0/24}}";
const REST: &str = "{type: FirewallRule, id: r, spec: {name: rest, action: drop}}";

#[tokio::test]
async fn rules_reach_init_and_have_a_status_with_what_they_close() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    apply(&osd, REST).await.unwrap();
    let client = &mut osd.client().await;
    let warning = "warning: it closes port 50000, the node API, to everybody on the network\n";
    for (document, expected) in [(None, warning), (Some(API), "")] {
        if let Some(document) = document {
            apply(&osd, document).await.unwrap();
        }
        let expected =
            format!("name: rest\naction: drop\nset: true\nsetBy: api\n{expected}version: \"1\"\n");
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            let found = get_of(client, "FirewallRuleStatuses.osbuild", "r").await;
            last = found.map(|found| found.spec.unwrap().yaml_spec).unwrap_or_default();
            if last == expected {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        assert_eq!(last, expected);
    }
    let api = "firewall-rule api accept protocol=tcp ports=30000-32767,50000 sources=192.0.2.0/24";
    until("init holds both", || lines(&held) == [api, "firewall-rule rest drop"]).await;
}

#[tokio::test]
async fn rules_that_no_packet_can_match_or_that_contradict_each_other_are_refused() {
    let osd = Osd::start_with(&[]);
    for spec in [
        "{name: a}",
        "{name: a, action: allow}",
        "{name: a, action: drop, ports: [80]}",
        "{name: a, action: drop, protocol: tcp, ports: [0]}",
        "{name: a, action: drop, sources: [192.0.2.1]}",
        "{name: a, action: drop, links: [lo]}",
        "{name: a, action: drop, priority: 7}",
        "{name: a, action: drop, protocol: tcp, port: 80}",
    ] {
        let document = format!("{{type: FirewallRule, id: a, spec: {spec}}}");
        assert_eq!(code(apply(&osd, &document).await), Code::InvalidArgument, "{document}");
    }
    apply(&osd, API).await.unwrap();
    let other = "{type: FirewallRule, id: b, spec: {name: b, action: drop, protocol: tcp}}";
    let refused = apply(&osd, other).await.unwrap_err();
    let expected = "`b` drops packets that `api` accepts, both with the priority 1000";
    assert!(refused.message().starts_with(expected), "{refused:?}");
    let twice = API.replace("id: a", "id: c");
    let refused = apply(&osd, &twice).await.unwrap_err();
    assert!(refused.message().contains("the firewall rule `api`"), "{refused:?}");
}
