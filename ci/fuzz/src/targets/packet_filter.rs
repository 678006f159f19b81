//! Filters of packets, which clients of `osd` write and the kernel runs.

use osbuild_packet_filter::{Filter, Framing, Instruction, MAX_INSTRUCTIONS};

use crate::target::{Memory, Outcome, Target};

/// See the module. A network of many bits becomes a comparison for each word of it.
pub const TARGET: Target =
    Target { name: "packet_filter", seeds, run, memory: Memory::per_byte(4096) };

/// The bytes of a packet that a program takes.
const SNAP_LENGTH: u32 = 262_144;

/// The classes of instructions that jump and that end a program, and the jump without a condition
/// (linux/bpf_common.h).
const CLASS: u16 = 0x07;
const JUMP: u16 = 0x05;
const RETURN: u16 = 0x06;
const ALWAYS: u16 = JUMP;

fn run(input: &[u8]) -> Outcome {
    let Ok(text) = str::from_utf8(input) else { return Outcome::Refused };
    let mut outcome = Outcome::Refused;
    for framing in [Framing::Ethernet, Framing::Cooked] {
        let filter = Filter::parse(text, framing);
        let Ok(program) = filter.and_then(|filter| filter.compile(SNAP_LENGTH)) else { continue };
        is_one_that_the_kernel_takes(&program);
        outcome = Outcome::Accepted;
    }
    outcome
}

/// The kernel refuses a program that can leave its instructions (`bpf_check_classic`).
fn is_one_that_the_kernel_takes(program: &[Instruction]) {
    assert!((1..=MAX_INSTRUCTIONS).contains(&program.len()));
    for (index, one) in program.iter().enumerate() {
        let after = program.len() - index - 1;
        match one.code & CLASS {
            JUMP if one.code == ALWAYS => assert!((one.value as usize) < after),
            JUMP => assert!(usize::from(one.yes.max(one.no)) < after),
            _ => {}
        }
    }
    let last = program.last().map(|last| last.code & CLASS);
    assert_eq!(last, Some(RETURN), "it ends with an answer");
}

fn seeds() -> Vec<Vec<u8>> {
    [
        "",
        "tcp port 80 and not host 10.0.0.1",
        "udp portrange 1000-2000 or icmp6",
        "net 2001:db8::/33 and vlan 5",
        "not (src net 10.0.0.0/8 or dst port 53) and greater 100",
        "ether host 02:00:00:00:00:01 or arp",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}
