//! The programs that tcpdump makes of filters.

use osbuild_packet_filter::Instruction;
use std::process::{Command, Output};

/// Whether tcpdump optimizes its program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Optimized {
    Yes,
    No,
}

/// The program for packets of Ethernet.
pub fn compile(text: &str, optimized: Optimized) -> Vec<Instruction> {
    let output = run(text, optimized);
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("expression rejects all packets") {
        const TAKE: u16 = 6;
        return vec![Instruction { code: TAKE, yes: 0, no: 0, value: 0 }];
    }
    assert!(output.status.success(), "tcpdump refuses `{text}`: {errors}");
    let output = String::from_utf8(output.stdout).unwrap();
    output.lines().skip(1).map(instruction).collect()
}

/// Whether it is no filter for tcpdump.
pub fn refuses(text: &str) -> bool {
    !run(text, Optimized::Yes).status.success()
}

fn run(text: &str, optimized: Optimized) -> Output {
    let mut tcpdump = Command::new("tcpdump");
    tcpdump.args(["-y", "EN10MB", "-ddd"]);
    if optimized == Optimized::No {
        tcpdump.arg("-O");
    }
    tcpdump.arg(text).output().expect("tcpdump is not installed")
}

fn instruction(line: &str) -> Instruction {
    let numbers: Vec<u32> = line.split(' ').map(|number| number.parse().unwrap()).collect();
    let [code, yes, no, value] = numbers[..] else { panic!("{line}") };
    Instruction { code: code as u16, yes: yes as u8, no: no as u8, value }
}
