//! The kernel runs our programs and those of tcpdump on the same packets. Needs tcpdump.

mod filters;
mod kernel;
mod packets;
mod tcpdump;

use filters::filter;
use kernel::Machine;
use osbuild_packet_filter::{Filter, Framing};
use packets::{Packet, packets};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tcpdump::Optimized;

/// The bytes of a packet that are taken, more than any here has.
const SNAP_LENGTH: u32 = 4096;

fn ours(text: &str) -> Machine {
    let filter = Filter::parse(text, Framing::Ethernet).unwrap_or_else(|error| panic!("{error}"));
    Machine::with(&filter.compile(SNAP_LENGTH).unwrap())
}

/// Both programs take the same packets. Returns how many.
fn agree(text: &str, packets: &[Packet]) -> usize {
    let (ours, theirs) = (ours(text), Machine::with(&tcpdump::compile(text, Optimized::No)));
    let optimized = Machine::with(&tcpdump::compile(text, Optimized::Yes));
    let mut taken = 0;
    for packet in packets {
        let takes = ours.takes(&packet.bytes);
        taken += usize::from(takes);
        assert_eq!(takes, theirs.takes(&packet.bytes), "`{text}` of {packet:x?}");
        // A packet that was cut off may lack the bytes that an optimized program reads first.
        if !packet.is_cut {
            assert_eq!(takes, optimized.takes(&packet.bytes), "`{text}` of {packet:x?}");
        }
    }
    taken
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn our_programs_take_the_packets_that_those_of_tcpdump_take(
        text in filter(),
        packets in packets(120),
    ) {
        agree(&text, &packets);
    }
}

#[test]
fn each_word_of_the_language_takes_some_packets_and_not_others() {
    let mut runner = TestRunner::deterministic();
    let packets = packets(3000).new_tree(&mut runner).unwrap().current();
    for text in filters::by_hand() {
        let taken = agree(text, &packets);
        assert!(taken > 0 && taken < packets.len(), "`{text}` takes {taken} packets");
    }
}

#[test]
fn what_is_no_filter_here_is_none_for_tcpdump_or_is_not_supported() {
    for (text, character) in filters::REFUSED {
        let error = Filter::parse(text, Framing::Ethernet).unwrap_err();
        assert_eq!(error.character(), Some(*character), "{error}");
        assert!(tcpdump::refuses(text), "tcpdump accepts `{text}`");
    }
    for (text, character) in filters::UNSUPPORTED {
        let error = Filter::parse(text, Framing::Ethernet).unwrap_err();
        assert_eq!(error.character(), Some(*character), "{error}");
        assert!(!tcpdump::refuses(text), "tcpdump refuses `{text}`");
    }
}

#[test]
fn a_filter_of_many_hosts_is_a_program_that_the_kernel_takes() {
    let hosts: Vec<String> = (0..60).map(|number| format!("host 10.0.{number}.1")).collect();
    let text = hosts.join(" or ");
    let packet = |last: u8| {
        let mut packet = vec![0u8; 34];
        packet[12] = 8;
        packet[26..30].copy_from_slice(&[10, 0, last, 1]);
        packet
    };
    let machine = ours(&text);
    for last in [0, 1, 59] {
        assert!(machine.takes(&packet(last)), "{last}");
    }
    assert!(!machine.takes(&packet(60)));
    let net = |number: usize| format!("net fd00:{number:x}::/64");
    let nets: Vec<String> = (0..80).map(net).collect();
    let filter = Filter::parse(&nets.join(" or "), Framing::Ethernet).unwrap();
    assert!(filter.compile(1).is_ok());
    let ports: Vec<String> = (0..400).map(|port| format!("port {port}")).collect();
    let filter = Filter::parse(&ports.join("||"), Framing::Ethernet).unwrap();
    assert!(filter.compile(1).unwrap_err().to_string().contains("instructions"));
}

proptest! {
    #[test]
    fn no_text_makes_the_compiler_fail_otherwise_than_with_an_error(
        text in concat!(
            "[ -~é]{0,60}|",
            "((tcp|not|and|or|port|host|src|dst|vlan|[(]|[)]|80|10.0.0.1|::1) ){0,20}",
        ),
    ) {
        for framing in [Framing::Ethernet, Framing::Cooked] {
            if let Ok(filter) = Filter::parse(&text, framing) {
                prop_assert!(filter.compile(1).is_ok());
            }
        }
    }
}

#[test]
fn deep_and_long_texts_are_refused_or_compiled() {
    for text in ["(".repeat(4096), "not ".repeat(1000), "(".repeat(64) + "tcp" + &")".repeat(64)] {
        let _ = Filter::parse(&text, Framing::Ethernet);
    }
    let chain = "ip&&".repeat(1023) + "ip";
    assert!(Filter::parse(&chain, Framing::Ethernet).unwrap().compile(1).is_ok());
    assert!(Filter::parse(&"!".repeat(4097), Framing::Ethernet).is_err());
    let nested = "(".repeat(65) + "tcp" + &")".repeat(65);
    let error = Filter::parse(&nested, Framing::Ethernet).unwrap_err();
    assert_eq!(error.character(), Some(65));
}
