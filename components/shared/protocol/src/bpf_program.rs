//! The BPF programs of the kernel, lines of the node's state.

use std::time::Duration;

use crate::fields::{number, printable, value};
use crate::setting::escape::{escaped, unescape};

/// The maximum number of programs.
pub const MAX_BPF_PROGRAMS: usize = 512;
/// The maximum number of maps of a program: the kernel's own.
const MAX_MAPS: usize = 64;
/// The targets of a program that are named. The others are counted.
const MAX_TARGETS: usize = 4;
/// The maximum characters of a name, and of a target: the path of a container's control group is
/// the longest one that is expected.
const MAX_NAME: usize = 32;
const MAX_TARGET: usize = 192;
/// The maximum bytes of all lines, so that they fit into the report of a child of `init`.
const MAX_BYTES: usize = 192 << 10;

/// The keys of the lines: of the number of programs, and of each.
const COUNT: &str = "bpf-programs";
const PROGRAM: &str = "bpf-program";

/// The BPF programs that the kernel has loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BpfPrograms {
    /// How many are missing because there are too many.
    pub left_out: u64,
    /// The others.
    pub programs: Vec<BpfProgram>,
}

/// A BPF program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BpfProgram {
    /// The kernel's identifier of it.
    pub id: u32,
    /// The name of its type, as `bpftool` has it; a number if this release does not know it.
    pub program_type: String,
    /// Its name; empty if it has none.
    pub name: String,
    /// The digest of its instructions.
    pub tag: u64,
    /// When it was loaded, since boot.
    pub loaded: Duration,
    /// The user who has loaded it.
    pub uid: u32,
    /// The bytes of its instructions, as the kernel has translated them.
    pub translated_bytes: u32,
    /// The bytes of its machine code; 0 if the kernel interprets it.
    pub jited_bytes: u32,
    /// The identifiers of its maps.
    pub maps: Vec<u32>,
    /// At how many targets it is attached.
    pub target_count: u32,
    /// The first of them, each with how it is attached: `xdp eth0`, `cgroup /kubepods`.
    pub targets: Vec<String>,
    /// How often it has run, and for how long, as far as the kernel has counted.
    pub runs: u64,
    /// For how long it has run.
    pub run_time: Duration,
}

impl BpfPrograms {
    /// The lines for them. Texts are cut, and the last programs are left out if all have no room.
    pub fn encode(&self) -> String {
        let (mut lines, mut count) = (String::new(), 0);
        for line in self.programs.iter().take(MAX_BPF_PROGRAMS).map(line) {
            if lines.len() + line.len() > MAX_BYTES {
                break;
            }
            lines.push_str(&line);
            count += 1;
        }
        let left_out = self.left_out.saturating_add((self.programs.len() - count) as u64);
        format!("{COUNT} left-out={left_out}\n{lines}")
    }

    /// Finds the lines among others; `None` if there are none.
    pub fn decode<'t>(lines: impl Iterator<Item = &'t str>) -> Option<Self> {
        let (mut left_out, mut programs) = (None, Vec::new());
        for (key, fields) in lines.filter_map(|line| line.split_once(' ')) {
            match key {
                COUNT => left_out = number(fields, "left-out"),
                PROGRAM if programs.len() < MAX_BPF_PROGRAMS => programs.extend(program(fields)),
                _ => {}
            }
        }
        Some(Self { left_out: left_out?, programs })
    }
}

fn line(program: &BpfProgram) -> String {
    let maps: Vec<String> = program.maps.iter().take(MAX_MAPS).map(u32::to_string).collect();
    let targets: Vec<String> =
        program.targets.iter().take(MAX_TARGETS).map(|target| word(target, MAX_TARGET)).collect();
    format!(
        "{PROGRAM} id={} type={} name={} tag={:016x} loaded={} uid={} translated={} jited={} \
         maps={} attached={} to={} runs={} run-time={}\n",
        program.id,
        word(&program.program_type, MAX_NAME),
        word(&program.name, MAX_NAME),
        program.tag,
        program.loaded.as_millis(),
        program.uid,
        program.translated_bytes,
        program.jited_bytes,
        maps.join(","),
        program.target_count,
        targets.join(","),
        program.runs,
        nanoseconds(program.run_time),
    )
}

fn program(fields: &str) -> Option<BpfProgram> {
    let text = |key: &str| value(fields, key).and_then(unescape);
    let words = |key: &str| {
        let words = value(fields, key)?.split(',').filter(|word| !word.is_empty());
        Some(words.collect::<Vec<_>>())
    };
    let maps = words("maps")?.into_iter().take(MAX_MAPS).map(|map| map.parse().ok());
    let targets = words("to")?.into_iter().take(MAX_TARGETS).map(unescape);
    Some(BpfProgram {
        id: number(fields, "id")?,
        program_type: text("type")?,
        name: text("name")?,
        tag: u64::from_str_radix(value(fields, "tag")?, 16).ok()?,
        loaded: Duration::from_millis(number(fields, "loaded")?),
        uid: number(fields, "uid")?,
        translated_bytes: number(fields, "translated")?,
        jited_bytes: number(fields, "jited")?,
        maps: maps.collect::<Option<_>>()?,
        target_count: number(fields, "attached")?,
        targets: targets.collect::<Option<_>>()?,
        runs: number(fields, "runs")?,
        run_time: Duration::from_nanos(number(fields, "run-time")?),
    })
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// The word for a name that a pod has chosen.
fn word(text: &str, max: usize) -> String {
    escaped(&printable(&text.chars().take(max).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_read_as_they_were_written() {
        let xdp = BpfProgram {
            id: 42,
            program_type: "xdp".to_owned(),
            name: "cil_xdp_entry".to_owned(),
            tag: 0x0a6d_d1ac_74c4_2d55,
            loaded: Duration::from_millis(61_007),
            uid: 1000,
            translated_bytes: 64,
            jited_bytes: 54,
            maps: vec![7, 9],
            target_count: 5,
            targets: vec!["xdp eth0".to_owned(), "xdp a,b".to_owned()],
            runs: 3,
            run_time: Duration::from_nanos(1_000_000_007),
        };
        let found = BpfPrograms { left_out: 3, programs: vec![xdp, BpfProgram::default()] };
        let text = found.encode();
        assert_eq!(
            text,
            "bpf-programs left-out=3\nbpf-program id=42 type=xdp name=cil_xdp_entry \
             tag=0a6dd1ac74c42d55 loaded=61007 uid=1000 translated=64 jited=54 maps=7,9 attached=5 \
             to=xdp%20eth0,xdp%20a%2cb runs=3 run-time=1000000007\nbpf-program id=0 type= name= \
             tag=0000000000000000 loaded=0 uid=0 translated=0 jited=0 maps= attached=0 to= runs=0 \
             run-time=0\n"
        );
        assert_eq!(BpfPrograms::decode(text.lines()), Some(found));
        assert_eq!(BpfPrograms::decode(text.lines().skip(1)), None);
    }

    #[test]
    fn programs_beyond_the_limits_are_counted() {
        let small = BpfProgram::default();
        let all = BpfPrograms { left_out: 1, programs: vec![small; MAX_BPF_PROGRAMS + 2] };
        let again = BpfPrograms::decode(all.encode().lines()).unwrap();
        assert_eq!((again.left_out, again.programs.len()), (3, MAX_BPF_PROGRAMS));
        let large = BpfProgram {
            name: "%".repeat(999),
            maps: vec![u32::MAX; 99],
            targets: vec!["%".repeat(999); 9],
            ..BpfProgram::default()
        };
        let text = BpfPrograms { left_out: 1, programs: vec![large; MAX_BPF_PROGRAMS] }.encode();
        assert!(text.len() <= MAX_BYTES + 99 && text.lines().all(|line| line.len() < 16 << 10));
        let again = BpfPrograms::decode(text.lines()).unwrap();
        let count = again.programs.len();
        assert!(count > 20 && count as u64 + again.left_out == MAX_BPF_PROGRAMS as u64 + 1);
    }
}
