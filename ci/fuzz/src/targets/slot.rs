//! A slot's header, and slotboot's report in a firmware variable, as slotboot, `init` and the
//! updater read them.

use init::variable;
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_protocol::{BootReport, MAX_REPORT};
use osbuild_slots::Header;

use crate::target::{Memory, Outcome, Target};

/// See the module. An input is read twice: as the start of a header, whose checksum is corrected,
/// and as a whole variable.
pub const TARGET: Target = Target { name: "slot", seeds, run, memory: Memory::per_byte(16) };

/// Offset of a header's checksum.
const CHECKSUM: usize = HEADER_SIZE as usize - 4;

fn run(input: &[u8]) -> Outcome {
    // Without a corrected checksum nearly every input is refused.
    let _ = Header::parse(input);
    let header = Header::parse(&sealed(input));
    if let Ok(header) = &header {
        let written = header.encode().expect("a parsed version can be written");
        assert_eq!(Header::parse(&written).as_ref(), Ok(header));
        assert!(
            !header.version.is_empty()
                && header.version.bytes().all(|byte| byte.is_ascii_graphic()),
            "{header:?}"
        );
    }
    let report = variable::volatile(input).and_then(BootReport::decode);
    if let Some(report) = &report {
        assert!(
            report.text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()),
            "{report:?}"
        );
        round_trips(report);
    }
    if header.is_ok() || report.is_some() { Outcome::Accepted } else { Outcome::Refused }
}

/// A report is read back; only its sentence may be cut, to make room for the fields.
fn round_trips(report: &BootReport) {
    let text = report.to_string();
    assert!(text.len() <= MAX_REPORT, "{text}");
    let mut read = BootReport::decode(text.as_bytes()).expect("our own report can be read");
    assert!(report.text.starts_with(&read.text), "{read:?}");
    read.text.clone_from(&report.text);
    assert_eq!(&read, report);
}

/// A header that begins with the input, with the right checksum.
fn sealed(input: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    bytes.resize(CHECKSUM, 0);
    let sum = crc32fast::hash(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

fn seeds() -> Vec<Vec<u8>> {
    let header = Header { length: 70 << 20, sha256: [7; 32], version: "1.35.8".to_owned() };
    let header = header.encode().expect("the version can be written");
    let report = |rest: &str| {
        format!("\x06\0\0\0881b7c28-2e50-5a7c-bdb6-f8aaeb4bbb06 SLOT-B {rest}").into_bytes()
    };
    vec![
        header[..128].to_vec(),
        header[..CHECKSUM].to_vec(),
        report("good; passed over SLOT-A: it is empty"),
        report("on trial, tries left: 2 [format=1 started=2 tries=2 passed=3]"),
        report("good [format=2 started=1 colour=blue]"),
        b"OSBSLOT\0\x02".to_vec(),
    ]
}
