//! Probes of targets from the node. Needs root, iproute2, nftables, util-linux, dnsmasq, Python
//! and OpenSSL.

use crate::osd::{Osd, code};
use crate::remote::RemoteOsd;
use crate::world::{Reached, World, reach};
use osbuild_cosi::v1::inspect_client::InspectClient;
use osbuild_cosi::v1::reach_request::Probe;
use osbuild_cosi::v1::{
    ReachDns, ReachHttp, ReachMtu, ReachPing, ReachRequest, ReachTcp, ReachTrace,
};
use std::fs;
use tonic::Code;
use tonic::transport::Channel;

struct Tester {
    world: World,
    _osd: Osd,
    client: InspectClient<Channel>,
}

impl Tester {
    async fn start() -> Tester {
        let mut world = World::start();
        let osd = Osd::start_with(&["--inspect", &world.socket().await]);
        let client = InspectClient::new(osd.channel().await);
        Tester { world, _osd: osd, client }
    }

    async fn reach(&mut self, probe: Probe) -> Reached {
        reach(&mut self.client, probe).await.unwrap()
    }

    async fn refused(&mut self, probe: Probe) -> Code {
        code(reach(&mut self.client, probe).await)
    }
}

fn dns(name: &str, server: &str) -> Probe {
    Probe::Dns(ReachDns { name: name.into(), server: server.into() })
}

fn tcp(host: &str, port: u32) -> Probe {
    Probe::Tcp(ReachTcp { host: host.into(), port })
}

fn http(url: &str) -> Probe {
    Probe::Http(ReachHttp { url: url.into(), get: true, insecure: false })
}

fn ping(host: &str, count: u32) -> Probe {
    Probe::Ping(ReachPing { host: host.into(), count })
}

fn mtu(host: &str) -> Probe {
    Probe::Mtu(ReachMtu { host: host.into() })
}

#[tokio::test]
async fn a_name_server_is_asked_and_says_what_it_knows() {
    let mut tester = Tester::start().await;
    let found = tester.reach(dns("alias.example.test", "")).await;
    let query = found.step("query");
    assert!(found.result.reached && query.peer == "127.0.0.1:53", "{found:?}");
    for text in ["10.9.2.2", "fd09:2::2", "an alias of target.example.test"] {
        assert!(query.outcome.contains(text), "{found:?}");
    }
    let missing = tester.reach(dns("missing.example.test", "")).await;
    assert!(missing.step("query").error.contains("does not exist"), "{missing:?}");
    assert!(!missing.result.reached);
    let other = tester.reach(dns("example.org", "127.0.0.1")).await;
    assert!(other.step("query").error.contains("refused"), "{other:?}");
    let nobody = tester.reach(dns("example.org", "10.9.2.2")).await;
    assert_eq!(nobody.step("query").error, "connection refused", "{nobody:?}");
    assert!(nobody.step("query").meaning.contains("no name server is at port 53"));
    for wrong in [dns("", ""), dns("a b", ""), dns("example.org", "example.org")] {
        assert_eq!(tester.refused(wrong).await, Code::InvalidArgument);
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_differs_from_one_that_refuses() {
    let mut tester = Tester::start().await;
    let found = tester.reach(tcp("target", 80)).await;
    assert!(found.result.reached, "{found:?}");
    assert!(found.step("lookup").outcome.contains("10.9.2.2"), "the search list counts: {found:?}");
    for (host, port, error, meaning) in [
        ("10.9.2.2", 6443, "connection refused", "10.9.2.2 answers, but nothing listens at port"),
        ("203.0.113.1", 80, "network unreachable", "has a route to 203.0.113.1"),
        ("10.9.3.1", 80, "host unreachable", "no machine"),
        ("10.9.4.1", 80, "no answer within 10 s", "a firewall drops the packets"),
    ] {
        let found = tester.reach(tcp(host, port)).await;
        let step = found.step("connect");
        assert_eq!(step.error, error, "{found:?}");
        assert!(step.meaning.contains(meaning) && !found.result.reached, "{found:?}");
    }
    let missing = tester.reach(tcp("missing.example.test", 80)).await;
    assert!(missing.step("lookup").error.contains("does not exist"), "{missing:?}");
    for port in [0, 65_536] {
        assert_eq!(tester.refused(tcp("10.9.2.2", port)).await, Code::InvalidArgument);
    }
}

#[tokio::test]
async fn silent_name_servers_are_asked_last_for_the_next_name() {
    let mut tester = Tester::start().await;
    let resolver = "nameserver 10.9.4.1\nnameserver 10.9.4.2\nnameserver 127.0.0.1\n\
                    search a.example.test b.example.test example.test\n";
    fs::write(tester.world.path("resolv.conf"), resolver).unwrap();
    let found = tester.reach(tcp("target", 80)).await;
    assert!(found.result.reached, "{found:?}");
    assert!(found.step("lookup").outcome.contains("10.9.2.2"), "{found:?}");
    let silent = (1..=4).map(|number| format!("nameserver 10.9.4.{number}\n"));
    fs::write(tester.world.path("resolv.conf"), silent.collect::<String>()).unwrap();
    let found = tester.reach(tcp("target", 80)).await;
    let step = found.step("lookup");
    let error = "no answer within 10 s (servers 10.9.4.1:53, 10.9.4.2:53";
    assert!(step.error.starts_with(error), "{found:?}");
    assert!(step.meaning.contains("no name servers") && !found.result.reached, "{found:?}");
}

#[tokio::test]
async fn a_web_server_answers_with_its_status_and_few_headers() {
    let mut tester = Tester::start().await;
    fs::write(tester.world.path("web/secret"), "a secret body").unwrap();
    let found = tester.reach(http("http://target.example.test/secret")).await;
    assert!(found.step("response").outcome.starts_with("HTTP/1.0 200 OK, server: SimpleHTTP"));
    assert!(!format!("{found:?}").contains("a secret body"), "{found:?}");
    assert_eq!(found.steps.len(), 3, "{found:?}");
    let head = ReachHttp { url: "http://10.9.2.2/missing".into(), ..ReachHttp::default() };
    let found = tester.reach(Probe::Http(head)).await;
    assert!(found.result.reached && found.result.summary.contains("404"), "{found:?}");
    let found = tester.reach(http("http://127.0.0.1:53/")).await;
    assert!(!found.result.reached && !found.step("response").error.is_empty(), "{found:?}");
    for wrong in ["10.9.2.2", "http://user:password@10.9.2.2/", "file:///etc/passwd"] {
        assert_eq!(tester.refused(http(wrong)).await, Code::InvalidArgument, "{wrong}");
    }
}

#[tokio::test]
async fn a_certificate_is_verified_and_shown() {
    let mut tester = Tester::start().await;
    let found = tester.reach(http("https://tls.example.test/")).await;
    assert!(found.result.reached, "{found:?}");
    let words = &found.step("tls").outcome;
    assert!(words.contains("TLS 1.3") && words.contains("verified with the 1 auth"), "{found:?}");
    assert!(found.step("response").outcome.contains("200"), "{found:?}");
    let other = tester.reach(http("https://other.example.test/")).await;
    assert!(other.step("tls").error.contains("for another name"), "{other:?}");
    assert!(!other.result.reached);
    let plain = tester.reach(http("https://target.example.test:80/")).await;
    assert!(plain.step("tls").error.contains("does not speak TLS"), "{plain:?}");
    fs::write(tester.world.path("ca.crt"), "").unwrap();
    let unknown = tester.reach(http("https://tls.example.test/")).await;
    assert!(unknown.step("tls").error.contains("issuer is not trusted"), "{unknown:?}");
    let url = "https://tls.example.test/".to_owned();
    let insecure = ReachHttp { url, get: true, insecure: true };
    let found = tester.reach(Probe::Http(insecure)).await;
    assert!(found.step("tls").outcome.contains("NOT verified"), "{found:?}");
    assert!(found.result.reached);
}

#[tokio::test]
async fn echoes_come_back_or_somebody_says_why_not() {
    let mut tester = Tester::start().await;
    for host in ["10.9.2.2", "fd09:2::2"] {
        let found = tester.reach(ping(host, 2)).await;
        assert_eq!(found.names(), [format!("reply {host}"), format!("reply {host}")], "{found:?}");
        assert!(found.result.reached && found.result.summary.contains("2 of 2"), "{found:?}");
    }
    let found = tester.reach(ping("10.9.3.1", 1)).await;
    let step = found.step("reply");
    assert_eq!((step.peer.as_str(), step.error.as_str()), ("10.9.1.2", "host unreachable"));
    let found = tester.reach(ping("10.9.4.1", 1)).await;
    assert!(found.step("reply").error.contains("no answer"), "{found:?}");
    for (host, count) in [("224.0.0.1", 1), ("10.9.2.2", 21)] {
        assert_eq!(tester.refused(ping(host, count)).await, Code::InvalidArgument);
    }
}

#[tokio::test]
async fn the_narrowest_link_and_the_routers_are_found() {
    let mut tester = Tester::start().await;
    for (host, router) in [("10.9.2.2", "10.9.1.2"), ("fd09:2::2", "fd09:1::2")] {
        let found = tester.reach(mtu(host)).await;
        assert!(found.result.summary.contains("packets of 1400 bytes reach"), "{found:?}");
        assert!(found.names().contains(&format!("packet {router}")), "{found:?}");
        let found = tester.reach(Probe::Trace(ReachTrace { host: host.into() })).await;
        assert_eq!(found.names(), [format!("hop {router}"), format!("hop {host}")], "{found:?}");
        assert!(found.result.reached);
    }
}

#[tokio::test]
async fn one_lost_packet_is_not_a_black_hole() {
    let mut tester = Tester::start().await;
    // The quota is used up by the first packet.
    let rule = "ip daddr 10.9.2.2 ip length 1400 quota until 1401 bytes drop";
    tester.world.on_router(&["nft", "add table inet lossy"]);
    let chain = "{ type filter hook forward priority 0; }";
    tester.world.on_router(&["nft", &format!("add chain inet lossy forward {chain}")]);
    tester.world.on_router(&["nft", &format!("add rule inet lossy forward {rule}")]);
    let found = tester.reach(mtu("10.9.2.2")).await;
    assert!(found.result.summary.contains("packets of 1400 bytes reach"), "{found:?}");
    assert!(found.result.summary.contains("the path MTU"), "{found:?}");
    let slowest = found.steps.iter().map(|step| step.microseconds).max();
    assert!(slowest > Some(1_900_000), "no packet was lost: {found:?}");
}

#[tokio::test]
async fn a_call_more_than_four_is_refused_until_one_ends() {
    let mut tester = Tester::start().await;
    let silent = ReachRequest { probe: Some(tcp("10.9.4.1", 80)) };
    let mut running = Vec::new();
    for _ in 0..4 {
        running.push(tester.client.reach(silent.clone()).await.unwrap());
    }
    assert_eq!(tester.refused(ping("127.0.0.1", 1)).await, Code::ResourceExhausted);
    running.clear();
    for _ in 0..500 {
        if reach(&mut tester.client, ping("127.0.0.1", 1)).await.is_ok() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("an aborted call keeps its place");
}

#[tokio::test]
async fn only_an_admin_reaches_where_credentials_of_the_node_are() {
    let mut world = World::start();
    let remote = RemoteOsd::start(&["--inspect", &world.socket().await]);
    let mapped = "::ffff:169.254.169.254";
    fs::write(world.path("hosts"), "169.254.169.254 metadata\n").unwrap();
    for (role, probe, expected) in [
        ("reader", tcp("127.0.0.1", 53), Err(Code::PermissionDenied)),
        ("operator", tcp("127.0.0.1", 53), Ok(true)),
        ("operator", tcp("169.254.169.254", 80), Err(Code::PermissionDenied)),
        ("operator", tcp(mapped, 80), Err(Code::PermissionDenied)),
        ("operator", http("http://metadata/"), Err(Code::PermissionDenied)),
        ("operator", dns("a.test", "169.254.169.254"), Err(Code::PermissionDenied)),
        ("admin", tcp("169.254.169.254", 80), Ok(false)),
    ] {
        let identity = remote.identity("alice", role);
        let mut client = InspectClient::new(remote.channel(&identity).await.unwrap());
        let found = reach(&mut client, probe.clone()).await;
        let outcome = found.map(|found| found.result.reached).map_err(|status| status.code());
        assert_eq!(outcome, expected, "{role}: {probe:?}");
    }
    let line = "call: operator \"alice\": osbuild.v1.Inspect/Reach: done: tcp 127.0.0.1 port 53\n";
    remote.recorded(line, 1).await;
    let identity = remote.identity("alice", "operator");
    let mut client = InspectClient::new(remote.channel(&identity).await.unwrap());
    let probe = Some(tcp("169.254.169.254", 80));
    let mut forged = tonic::Request::new(ReachRequest { probe });
    forged.metadata_mut().insert(pod_osd::inspect::reach::MAY_ALL, "yes".parse().unwrap());
    let mut parts = client.reach(forged).await.unwrap().into_inner();
    assert_eq!(parts.message().await.unwrap_err().code(), Code::PermissionDenied);
}
