//! What pods send to `init`'s sockets.

use std::fmt::Write;

use init::lines::Lines;
use init::verbs::{Request, Role, TimeReport, parse};
use osbuild_abi::sockets::{MAX_LINE, admin, net, time, update};

use crate::target::{Answer, Memory, Target};

/// See the module. An input is the size of the pieces in which the rest comes, in one byte, and the
/// rest.
pub const TARGET: Target = Target { name: "doors", seeds, run, memory: Memory::per_byte(64) };

fn run(input: &[u8]) -> Answer {
    let Some((size, bytes)) = input.split_first() else { return Answer::Refused };
    let lines = lines(bytes, usize::from(*size).max(1));
    assert_eq!(
        lines,
        self::lines(bytes, bytes.len().max(1)),
        "lines do not depend on the pieces in which they come"
    );
    let mut answer = Answer::Refused;
    for line in lines {
        for role in [Role::Net, Role::Admin, Role::Update, Role::Time] {
            if let Ok(request) = parse(role, &line) {
                answer = Answer::Taken;
                let written = written(&request);
                assert!(written.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{written:?}");
                assert_eq!(parse(role, &written), Ok(request), "{written:?}");
            }
        }
    }
    answer
}

fn lines(bytes: &[u8], size: usize) -> Vec<String> {
    let mut waiting = Lines::default();
    let mut lines = Vec::new();
    for piece in bytes.chunks(size) {
        waiting.push(piece);
        while let Some(line) = waiting.take(MAX_LINE) {
            assert!(line.len() <= 3 * MAX_LINE);
            lines.push(line);
        }
    }
    lines
}

/// The request as a client would write it.
fn written(request: &Request) -> String {
    match request {
        Request::HostName(name) => format!("{} {name}", net::HOSTNAME),
        Request::Resolv { servers, search } if search.is_empty() => words(net::RESOLV, servers),
        Request::Resolv { servers, search } => {
            format!("{} {}", words(net::RESOLV, servers), words(net::SEARCH, search))
        }
        Request::TimeServers(servers) => words(net::NTP, servers),
        Request::Addresses { addresses, link } => {
            format!("{} on {link}", words(net::ADDRESS, addresses))
        }
        Request::RouterAdvertisements(link) => format!("{} on {link}", net::ROUTER_ADVERTISEMENTS),
        Request::LastClock => time::LAST.to_owned(),
        Request::ClockSet(report) => time_report(time::SET, report),
        Request::ClockRefused(report) => time_report(time::REFUSED, report),
        Request::Status | Request::SlotStatus => admin::STATUS.to_owned(),
        Request::OpenSlot => update::SLOT.to_owned(),
        Request::TrySlot => update::TRY.to_owned(),
        Request::ReplaceBootProgram => update::BOOT_PROGRAM.to_owned(),
        Request::RestartKubelet => admin::RESTART_KUBELET.to_owned(),
        Request::Reboot => admin::REBOOT.to_owned(),
        Request::PowerOff => admin::POWER_OFF.to_owned(),
    }
}

fn time_report(verb: &str, report: &TimeReport) -> String {
    format!("{verb} {} by {} of {}", report.offset, report.agreeing, report.answered)
}

fn words(verb: &str, words: &[impl ToString]) -> String {
    words.iter().fold(verb.to_owned(), |mut line, word| {
        write!(line, " {}", word.to_string()).expect("a string can be written");
        line
    })
}

fn seeds() -> Vec<Vec<u8>> {
    let verbs = [
        "hostname Node-1.example.org",
        "resolv 10.0.2.3 fec0::3 search example.org a_b.example",
        "resolv",
        "ntp 10.0.2.4 ::1",
        "address 10.0.2.15/24 on eth0",
        "address fe80::1/64 10.0.2.15/24 on eth0.1",
        "address on eth0",
        "router-advertisements on eth0",
        time::LAST,
        "set -7 by 2 of 3",
        "refused 7 by 1 of 1",
        admin::STATUS,
        admin::RESTART_KUBELET,
        admin::REBOOT,
        admin::POWER_OFF,
        update::SLOT,
        update::TRY,
        update::BOOT_PROGRAM,
    ];
    let all = format!("\u{7}{}\r\n", verbs.join("\n")).into_bytes();
    std::iter::once(all).chain(verbs.map(|verb| format!("\u{40}{verb}\n").into_bytes())).collect()
}
