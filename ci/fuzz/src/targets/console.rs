//! A node's serial console, as `osbuild run` shows it.

use osbuild::ship::vm::console::{Console, Event, Line};

use crate::target::{Memory, Outcome, Target, in_pieces};

/// See the module. For inputs see [`in_pieces`].
pub const TARGET: Target = Target { name: "console", seeds, run, memory: Memory::per_byte(256) };

fn run(input: &[u8]) -> Outcome {
    let Some(lines) = in_pieces(input, lines) else { return Outcome::Refused };
    for Line { text, event } in &lines {
        assert!(text.chars().all(|c| c == '\t' || !c.is_ascii_control()), "{text:?}");
        if let Some(Event::Phase { seconds, .. }) = event {
            assert!(seconds.is_finite());
        }
    }
    if lines.iter().any(|line| line.event.is_some()) { Outcome::Accepted } else { Outcome::Refused }
}

fn lines(bytes: &[u8], size: usize) -> Vec<Line> {
    let mut console = Console::default();
    let mut lines: Vec<Line> = bytes.chunks(size).flat_map(|piece| console.feed(piece)).collect();
    lines.extend(console.rest());
    lines
}

fn seeds() -> Vec<Vec<u8>> {
    let console = "\u{1b}[2J\u{1b}[01;01HBdsDxe: start\r\n[    4.01] init: phase mounts 4.013\r\n\
                   init: address 10.0.2.15/24 on eth0\ninit: memory: too little: 900 MiB\n\
                   init: READY 18.9\ninit: FAILED data: no disk\n\
                   Kernel panic - not syncing: VFS\nUEFI Interactive Shell v2.2\nno end";
    [1, 7, 200].map(|size| [&[size], console.as_bytes()].concat()).into()
}
