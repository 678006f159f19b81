//! Instructions of classic BPF, and jumps to labels.

/// An instruction of classic BPF (`struct sock_filter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The operation: one of the codes of linux/bpf_common.h.
    pub code: u16,
    /// How many instructions it skips if its condition holds.
    pub yes: u8,
    /// How many it skips otherwise.
    pub no: u8,
    /// The number that it has.
    pub value: u32,
}

/// Codes of instructions (linux/bpf_common.h).
pub mod code {
    /// `A = value` from a place in the packet, of 4, 2 or 1 bytes.
    pub const LOAD_WORD: u16 = 0x20;
    pub const LOAD_HALF: u16 = 0x28;
    pub const LOAD_BYTE: u16 = 0x30;
    /// The same from `X` bytes behind it.
    pub const LOAD_WORD_BEHIND_X: u16 = 0x40;
    pub const LOAD_HALF_BEHIND_X: u16 = 0x48;
    pub const LOAD_BYTE_BEHIND_X: u16 = 0x50;
    /// `A` is the length of the packet.
    pub const LOAD_LENGTH: u16 = 0x80;
    /// `X` is four times the lower half of a byte: the length of a header of IPv4.
    pub const LOAD_HEADER_LENGTH: u16 = 0xb1;
    /// `A &= value`
    pub const MASK: u16 = 0x54;
    pub const JUMP: u16 = 0x05;
    pub const JUMP_IF_EQUAL: u16 = 0x15;
    pub const JUMP_IF_GREATER: u16 = 0x25;
    pub const JUMP_IF_AT_LEAST: u16 = 0x35;
    pub const JUMP_IF_BITS: u16 = 0x45;
    /// Takes so many bytes of the packet.
    pub const TAKE: u16 = 0x06;
}

/// A place in the program, to which instructions before it jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// An instruction, or a label before the next one.
#[derive(Clone, Copy, Debug)]
enum Line {
    Plain { code: u16, value: u32 },
    Branch { code: u16, value: u32, yes: Label, no: Label },
    Label(Label),
}

/// The farthest that a condition skips directly. It leaves room for two longer jumps behind it.
const MAX_SKIP: usize = u8::MAX as usize - 2;

/// A program that is being written.
#[derive(Debug, Default)]
pub struct Assembler {
    lines: Vec<Line>,
    labels: usize,
}

impl Assembler {
    /// A label without a place.
    pub fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }

    /// Puts the label before the next instruction. Only instructions before it may jump to it.
    pub fn place(&mut self, label: Label) {
        self.lines.push(Line::Label(label));
    }

    /// Adds an instruction.
    pub fn add(&mut self, code: u16, value: u32) {
        self.lines.push(Line::Plain { code, value });
    }

    /// Adds a jump with a condition.
    pub fn branch(&mut self, code: u16, value: u32, yes: Label, no: Label) {
        self.lines.push(Line::Branch { code, value, yes, no });
    }

    /// The program. All jumps lead forward, so it is made from its end, where the places of their
    /// targets are known already.
    pub fn finish(self) -> Vec<Instruction> {
        let mut reversed = Reversed { program: Vec::new(), labels: vec![0; self.labels] };
        for line in self.lines.into_iter().rev() {
            match line {
                Line::Plain { code, value } => reversed.add(code, value, (0, 0)),
                Line::Label(Label(label)) => reversed.labels[label] = reversed.program.len(),
                Line::Branch { code, value, yes, no } => {
                    let (yes, no) = (reversed.reach(yes), reversed.reach(no));
                    let skips = (reversed.skip(yes), reversed.skip(no));
                    reversed.add(code, value, (skips.0 as u8, skips.1 as u8));
                }
            }
        }
        reversed.program.reverse();
        reversed.program
    }
}

/// The end of a program, with its last instruction first. A place is the number of instructions
/// from it to the end.
struct Reversed {
    program: Vec<Instruction>,
    labels: Vec<usize>,
}

impl Reversed {
    fn add(&mut self, code: u16, value: u32, (yes, no): (u8, u8)) {
        self.program.push(Instruction { code, yes, no, value });
    }

    /// How many instructions one before this end skips to reach the place.
    fn skip(&self, place: usize) -> usize {
        self.program.len() - place
    }

    /// A place near this end from which the label is reached.
    fn reach(&mut self, Label(label): Label) -> usize {
        let skip = self.skip(self.labels[label]);
        if skip <= MAX_SKIP {
            return self.labels[label];
        }
        self.add(code::JUMP, skip as u32, (0, 0));
        self.program.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_that_is_too_far_for_a_condition_has_an_instruction_of_its_own() {
        for distance in [0, 1, 252, 253, 254, 255, 256, 1000] {
            let mut assembler = Assembler::default();
            let (near, far) = (assembler.label(), assembler.label());
            assembler.branch(code::JUMP_IF_EQUAL, 7, far, near);
            assembler.place(near);
            for _ in 0..distance {
                assembler.add(code::LOAD_LENGTH, 0);
            }
            assembler.place(far);
            assembler.add(code::TAKE, 1);
            let program = assembler.finish();
            let mut at = 1 + usize::from(program[0].yes);
            if program[at].code == code::JUMP {
                at += 1 + program[at].value as usize;
            }
            assert_eq!(program[at].code, code::TAKE, "{distance}");
            let near = program.len() - 1 - distance;
            assert_eq!(1 + usize::from(program[0].no), near, "{distance}");
        }
    }
}
