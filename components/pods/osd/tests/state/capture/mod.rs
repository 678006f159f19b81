//! Captures of packets. Needs root, iproute2, util-linux and tcpdump.

mod network;

use crate::osd::{Osd, code};
use crate::remote::RemoteOsd;
use network::{Capture, inside, run};
use osbuild_cosi::v1::inspect_client::InspectClient;
use osbuild_cosi::v1::{CaptureRequest, ListLogsRequest};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use tonic::transport::Channel;
use tonic::{Code, Status};

/// A link of another machine, and the first one's name here.
const FAR: &str = "10.9.1.2:9";
const NEAR: &str = "near";

/// The kinds of links in files of pcap.
const ETHERNET: u32 = 1;
const COOKED: u32 = 276;

type Client = InspectClient<Channel>;

async fn osd(network: &network::Network) -> (Osd, Client) {
    let osd = Osd::start_with(&["--inspect", &network.socket()]);
    let client = InspectClient::new(osd.channel().await);
    (osd, client)
}

fn request(link: &str, filter: &str) -> CaptureRequest {
    CaptureRequest { link: link.into(), filter: filter.into(), ..CaptureRequest::default() }
}

async fn begin(client: &mut Client, request: CaptureRequest) -> Result<Capture, Status> {
    Capture::of(client.capture(request).await?.into_inner()).await
}

/// A capture, once one before has given its place back.
async fn begin_when_free(client: &mut Client, request: &CaptureRequest) -> Capture {
    for _ in 0..500 {
        match begin(client, request.clone()).await {
            Err(status) if status.code() == Code::ResourceExhausted => {}
            begun => return begun.unwrap(),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("a capture whose client has gone keeps its place");
}

/// Sends datagrams of so many bytes.
fn send(to: &str, bytes: usize, count: usize) -> UdpSocket {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    for _ in 0..count {
        // Nobody receives them, which the other machine may say.
        let _ = socket.send_to(&vec![7; bytes], to);
    }
    socket
}

#[test]
fn tcpdump_shows_what_was_captured() {
    inside(async |network| {
        let (_osd, mut client) = osd(&network).await;
        let limited = CaptureRequest { count: 3, ..request(NEAR, "udp dst port 9") };
        let mut capture = begin(&mut client, limited).await.unwrap();
        assert_eq!(capture.link_type, ETHERNET);
        send("10.9.1.2:10", 100, 2);
        send(FAR, 100, 5);
        capture.until_end().await;
        let shown = network.shown(&capture);
        assert_eq!(shown.len(), 3, "{shown:?}");
        for line in shown {
            let is_ours =
                line.contains("10.9.1.1.") && line.ends_with("> 10.9.1.2.9: UDP, length 100");
            assert!(is_ours && line.contains("length 142"), "{line}");
        }
        assert_eq!((capture.captured, capture.dropped), (3, 0));
    });
}

#[test]
fn all_links_are_captured_together_and_the_loopback_once() {
    inside(async |network| {
        let (_osd, mut client) = osd(&network).await;
        let mut capture = begin(&mut client, request("", "udp port 9")).await.unwrap();
        assert_eq!(capture.link_type, COOKED);
        send("127.0.0.1:9", 10, 2);
        send(FAR, 10, 1);
        capture.until(3).await;
        let shown = network.shown(&capture);
        let has = |texts: &[&str]| {
            shown.iter().filter(|line| texts.iter().all(|text| line.contains(text))).count()
        };
        assert_eq!(has(&["> 127.0.0.1.9: UDP, length 10"]), 2, "{shown:?}");
        assert_eq!(has(&["Out", "> 10.9.1.2.9: UDP, length 10"]), 1, "{shown:?}");
    });
}

/// A datagram of Ethernet, with the tag of this VLAN if there is one.
fn send_frame(link: &str, vlan: Option<u8>) {
    let mut frame = "ffffffffffff525400123456".to_owned();
    if let Some(vlan) = vlan {
        frame += &format!("810000{vlan:02x}");
    }
    // From 10.9.5.1 to port 9 of 10.9.5.2, and 18 bytes, with which it is long enough.
    frame += "0800450000 2e 00010000 4011 0000 0a090501 0a090502 0400 0009 001a 0000";
    frame += &"00".repeat(18);
    let code = format!(
        "import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); \
         s.bind(('{link}', 0)); s.send(bytes.fromhex('{frame}'))"
    );
    run(&["python3", "-c", &code]);
}

/// The kernel takes the tag from what it receives, and leaves it in what is sent with it.
#[test]
fn a_vlan_tag_is_found_and_shown() {
    inside(async |network| {
        let (_osd, mut client) = osd(&network).await;
        for link in ["front", "back"] {
            let filter = "vlan 5 and udp port 9 and dst host 10.9.5.2";
            let mut tagged = begin_when_free(&mut client, &request(link, filter)).await;
            let other = request(link, "not vlan 5 and ip");
            let mut others = begin_when_free(&mut client, &other).await;
            for vlan in [Some(5), Some(6), None] {
                send_frame("back", vlan);
            }
            tagged.until(1).await;
            others.until(1).await;
            let shown = network.shown(&tagged);
            assert!(shown[0].contains("vlan 5, p 0, ethertype IPv4"), "{link}: {shown:?}");
            assert!(shown[0].contains("10.9.5.1.1024 > 10.9.5.2.9: UDP"), "{link}: {shown:?}");
            let shown = network.shown(&others);
            assert!(!shown[0].contains("vlan 5,") && shown[0].contains("10.9.5.2.9"), "{shown:?}");
        }
    });
}

#[test]
fn a_capture_ends_after_its_time_with_what_came_until_then() {
    inside(async |network| {
        let (_osd, mut client) = osd(&network).await;
        let limited =
            CaptureRequest { milliseconds: 500, snap_length: 50, ..request(NEAR, "udp port 9") };
        let began = Instant::now();
        let mut capture = begin(&mut client, limited).await.unwrap();
        send(FAR, 1000, 4);
        capture.until_end().await;
        assert!(began.elapsed() >= Duration::from_millis(500));
        assert_eq!(capture.captured, 4);
        let lengths =
            |packet: &osbuild_cosi::v1::CapturedPacket| (packet.data.len(), packet.length);
        assert_eq!(capture.packets.iter().map(lengths).collect::<Vec<_>>(), [(50, 1042); 4]);
    });
}

#[test]
fn what_is_wrong_is_refused_and_shown() {
    inside(async |network| {
        let (_osd, mut client) = osd(&network).await;
        let wrong = begin(&mut client, request(NEAR, "tcp prot 80")).await.err().unwrap();
        assert_eq!(wrong.code(), Code::InvalidArgument);
        let text = "the filter is wrong at character 5: `prot` is not a word of a filter\n\
                    tcp prot 80\n    ^";
        assert_eq!(wrong.message(), text);
        let missing = begin(&mut client, request("eth7", "")).await.err().unwrap();
        assert_eq!(missing.code(), Code::NotFound);
        assert!(missing.message().contains("there are `lo`, `near"), "{missing}");
        let long: Vec<String> = (0..200).map(|port| format!("host 10.0.0.{port}")).collect();
        let long = begin(&mut client, request(NEAR, &long.join("||"))).await.err().unwrap();
        assert_eq!(long.code(), Code::InvalidArgument, "{long}");
    });
}

#[test]
fn a_third_capture_is_refused_until_a_client_goes() {
    inside(async |network| {
        let (_osd, mut client) = osd(&network).await;
        let first = begin(&mut client, request(NEAR, "")).await.unwrap();
        let _second = begin(&mut client, request("lo", "")).await.unwrap();
        let third = begin(&mut client, request("lo", "")).await.err().unwrap();
        assert_eq!(third.code(), Code::ResourceExhausted);
        drop(first);
        begin_when_free(&mut client, &request("lo", "")).await;
    });
}

#[test]
fn a_link_that_goes_ends_the_capture() {
    inside(async |network| {
        let (_osd, mut client) = osd(&network).await;
        let mut capture = begin(&mut client, request(NEAR, "")).await.unwrap();
        run(&["ip", "link", "delete", NEAR]);
        let gone = loop {
            match capture.next().await {
                Ok(true) => {}
                other => break other,
            }
        };
        assert_eq!(code(gone), Code::FailedPrecondition);
    });
}

#[test]
fn a_client_that_reads_nothing_loses_packets_and_takes_no_memory() {
    inside(async |network| {
        let (osd, mut client) = osd(&network).await;
        let mut captures = Vec::new();
        for _ in 0..2 {
            captures.push(begin(&mut client, request(NEAR, "udp")).await.unwrap());
        }
        let before = network.peak_memory();
        // 64 MiB, eight times what the rings of both have.
        let mut sent = 0;
        while sent < 48_000 {
            send(FAR, 1400, 1000);
            sent += 1000;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let others = InspectClient::new(osd.channel().await).list_logs(ListLogsRequest {}).await;
        assert!(others.is_ok(), "{others:?}");
        let more = network.peak_memory() - before;
        assert!(more < 16 << 20, "it used {more} bytes more");
        for mut capture in captures {
            while capture.dropped == 0 {
                assert!(capture.next().await.unwrap());
            }
        }
    });
}

#[test]
fn the_connection_of_the_client_is_left_out_and_the_record_has_the_filter() {
    inside(async |network| {
        let remote = RemoteOsd::start(&["--inspect", &network.socket()]);
        let operator = remote.channel(&remote.identity("bob", "operator")).await.unwrap();
        let refused = begin(&mut Client::new(operator), request("lo", "")).await.err().unwrap();
        assert_eq!(refused.code(), Code::PermissionDenied);
        let admin = remote.channel(&remote.identity("alice", "admin")).await.unwrap();
        let mut client = Client::new(admin);
        let mut capture = begin(&mut client, request("lo", "tcp")).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(TcpStream::connect(("127.0.0.1", port)).unwrap());
        // The three packets that open it, of which each makes one of the call.
        capture.until(3).await;
        let shown = network.shown(&capture);
        let is_other = |line: &String| line.contains(&format!("127.0.0.1.{port}"));
        assert!(shown.iter().all(is_other), "{shown:?}");
        drop(capture);
        let own = CaptureRequest { own_connection: true, count: 10, ..request("lo", "tcp") };
        let mut capture = begin_when_free(&mut client, &own).await;
        capture.until_end().await;
        let api = format!("127.0.0.1.{}", remote.address.port());
        let shown = network.shown(&capture);
        assert!(shown.iter().any(|line| line.contains(&api)), "{shown:?}");
        let line = "call: admin \"alice\": osbuild.v1.Inspect/Capture: done: packets of lo, \
                    filter \"tcp\"\n";
        remote.recorded(line, 1).await;
    });
}
