//! NAT rules as resources, with an `init` that sets all that it is asked for.

use crate::kept::get_of;
use crate::network_settings::{ATTEMPTS, PAUSE, apply, lines, start_init, until};
use crate::osd::{Osd, code};
use tonic::Code;

const WEB: &str = "{type: Nat, id: w, spec: {name: web, action: destination, protocol: tcp, \
                   port: 8080, to: 10.8.0.5, toPort: 80}}";
const LAN: &str = "{type: Nat, id: l, spec: {name: lan, action: masquerade, link: eth0, \
                   sources: 10.8.0.0/24}}";

#[tokio::test]
async fn rules_reach_init_and_have_a_status() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    apply(&osd, LAN).await.unwrap();
    apply(&osd, WEB).await.unwrap();
    let web = "nat web destination protocol=tcp port=8080 to=10.8.0.5 to-port=80";
    let lan = "nat lan masquerade link=eth0 sources=10.8.0.0/24";
    until("init holds both", || lines(&held) == [lan, web]).await;
    let client = &mut osd.client().await;
    let expected = "name: web\naction: destination\nprotocol: tcp\nport: 8080\nto: \"10.8.0.5\"\n\
                    toPort: 80\nset: true\nsetBy: api\nversion: \"1\"\n";
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        let found = get_of(client, "NatStatuses.osbuild", "w").await;
        last = found.map(|found| found.spec.unwrap().yaml_spec).unwrap_or_default();
        if last == expected {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    assert_eq!(last, expected);
}

#[tokio::test]
async fn rules_that_lead_nowhere_or_to_two_places_are_refused() {
    let osd = Osd::start_with(&[]);
    for spec in [
        "{name: a}",
        "{name: a, action: masquerade, sources: [10.8.0.0/24]}",
        "{name: a, action: source, link: eth0, sources: ['fd00::/64'], to: 192.0.2.7}",
        "{name: a, action: destination, protocol: tcp, port: 0, to: 10.8.0.5}",
        "{name: a, action: destination, protocol: tcp, port: 50000, to: 10.8.0.5}",
        "{name: a, action: destination, protocol: tcp, port: 80, to: 10.8.0.5, links: [eth0]}",
    ] {
        let document = format!("{{type: Nat, id: a, spec: {spec}}}");
        assert_eq!(code(apply(&osd, &document).await), Code::InvalidArgument, "{document}");
    }
    apply(&osd, WEB).await.unwrap();
    let other = WEB.replace("id: w", "id: o").replace("name: web", "name: other");
    let refused = apply(&osd, &other).await.unwrap_err();
    assert!(refused.message().contains("both forward the port 8080 of `tcp`"), "{refused:?}");
    let twice = WEB.replace("id: w", "id: c");
    let refused = apply(&osd, &twice).await.unwrap_err();
    assert!(refused.message().contains("the NAT rule `web`"), "{refused:?}");
}
