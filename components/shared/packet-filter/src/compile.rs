//! Programs of conditions.

use crate::assembler::{Assembler, Instruction, Label, code};
use crate::condition::{Comparison, Condition, Known, Place, Relation, Size};
use crate::framing::Framing;

/// The offset of the kernel's ancillary data of a packet, as if in the packet (`SKF_AD_OFF`).
const KNOWN: u32 = -0x1000_i32 as u32;

/// The bytes of a VLAN tag, and the bits of its identifier.
const TAG: u32 = 4;
const TAG_ID: u32 = 0xfff;

/// The bytes of both addresses of Ethernet.
const ADDRESSES: u32 = 12;

/// The protocol identifiers of VLAN tags (TPID): those of IEEE 802.1Q and 802.1ad, and the one that
/// was in use before 802.1ad.
const TAGGED: [u32; 3] = [0x8100, 0x88a8, 0x9100];

/// The bytes that a program for cooked packets does not see, and their readers do (`LINUX_SLL2`).
const COOKED_HEADER: u32 = 20;

/// The program that takes the first bytes of the packets that fulfil the condition.
pub fn program(condition: &Condition, framing: Framing, snap_length: u32) -> Vec<Instruction> {
    let mut assembler = Assembler::default();
    let (take, leave) = (assembler.label(), assembler.label());
    let mut code = Code { assembler, framing, taken_tags: 0 };
    if condition.has_tags() {
        // The kernel takes the first tag from a packet that it receives, and leaves it in some
        // that it sends. What follows the tag is at one of two places.
        let (taken, left) = (code.assembler.label(), code.assembler.label());
        code.known(Known::HasTag);
        code.assembler.branch(code::JUMP_IF_EQUAL, 1, taken, left);
        code.assembler.place(taken);
        Code { taken_tags: 1, ..code }.of_both(condition, (take, leave), left, snap_length)
    } else {
        code.condition(condition, take, leave);
        code.end(take, leave, snap_length)
    }
}

/// The compiler of conditions into instructions.
struct Code {
    assembler: Assembler,
    framing: Framing,
    /// The VLAN tags that the kernel has taken from the packet.
    taken_tags: u32,
}

impl Code {
    /// The code for packets whose tag was taken, and behind it that for others.
    fn of_both(
        mut self,
        condition: &Condition,
        (take, leave): (Label, Label),
        left: Label,
        snap_length: u32,
    ) -> Vec<Instruction> {
        self.condition(condition, take, leave);
        self.assembler.place(left);
        self.taken_tags = 0;
        self.condition(condition, take, leave);
        self.end(take, leave, snap_length)
    }

    fn end(mut self, take: Label, leave: Label, snap_length: u32) -> Vec<Instruction> {
        self.assembler.place(take);
        self.assembler.add(code::TAKE, snap_length);
        self.assembler.place(leave);
        self.assembler.add(code::TAKE, 0);
        self.assembler.finish()
    }

    /// Goes on at `yes` if the condition holds, else at `no`.
    fn condition(&mut self, condition: &Condition, yes: Label, no: Label) {
        match condition {
            // An instruction, as the label may be elsewhere: a length is never less than 0.
            Condition::Always => {
                self.assembler.add(code::LOAD_LENGTH, 0);
                self.assembler.branch(code::JUMP_IF_AT_LEAST, 0, yes, no);
            }
            Condition::Not(one) => self.condition(one, no, yes),
            Condition::And(one, other) => {
                let next = self.assembler.label();
                self.condition(one, next, no);
                self.assembler.place(next);
                self.condition(other, yes, no);
            }
            Condition::Or(one, other) => {
                let next = self.assembler.label();
                self.condition(one, yes, next);
                self.assembler.place(next);
                self.condition(other, yes, no);
            }
            Condition::Compare(comparison) => self.comparison(comparison, yes, no),
            Condition::Vlan { id, behind } => self.vlan(*id, *behind, yes, no),
        }
    }

    fn comparison(&mut self, comparison: &Comparison, yes: Label, no: Label) {
        let Comparison { place, size, mask, relation, value } = *comparison;
        self.load(place, size);
        if mask != u32::MAX {
            self.assembler.add(code::MASK, mask);
        }
        let code = match relation {
            Relation::Equal => code::JUMP_IF_EQUAL,
            Relation::AtLeast => code::JUMP_IF_AT_LEAST,
            Relation::Greater => code::JUMP_IF_GREATER,
            Relation::SharesBits => code::JUMP_IF_BITS,
        };
        let hidden = match (place, self.framing) {
            (Place::Length, Framing::Cooked) => COOKED_HEADER,
            _ => 0,
        };
        self.assembler.branch(code, value.saturating_sub(hidden), yes, no);
    }

    fn load(&mut self, place: Place, size: Size) {
        let at_start = match size {
            Size::Byte => code::LOAD_BYTE,
            Size::Half => code::LOAD_HALF,
            Size::Word => code::LOAD_WORD,
        };
        let behind_x = match size {
            Size::Byte => code::LOAD_BYTE_BEHIND_X,
            Size::Half => code::LOAD_HALF_BEHIND_X,
            Size::Word => code::LOAD_WORD_BEHIND_X,
        };
        match place {
            Place::Frame(offset) => self.assembler.add(at_start, offset),
            Place::EtherType { tags } => match self.framing {
                Framing::Cooked => self.known(Known::Protocol),
                Framing::Ethernet => {
                    self.assembler.add(at_start, ADDRESSES + self.tags(tags));
                }
            },
            Place::Network { offset, tags } => {
                self.assembler.add(at_start, self.network(tags) + offset);
            }
            Place::BehindIpv4 { offset, tags } => {
                let network = self.network(tags);
                self.assembler.add(code::LOAD_HEADER_LENGTH, network);
                self.assembler.add(behind_x, network + offset);
            }
            Place::Known(known) => self.known(known),
            Place::Length => self.assembler.add(code::LOAD_LENGTH, 0),
        }
    }

    fn known(&mut self, known: Known) {
        self.assembler.add(code::LOAD_WORD, KNOWN.wrapping_add(known as u32));
    }

    /// The bytes of so many tags, as far as they are in the packet.
    fn tags(&self, tags: u32) -> u32 {
        TAG * tags.saturating_sub(self.taken_tags)
    }

    fn network(&self, tags: u32) -> u32 {
        self.framing.header() + self.tags(tags)
    }

    fn vlan(&mut self, id: Option<u16>, behind: u32, yes: Label, no: Label) {
        if behind < self.taken_tags {
            // This code is for packets that had a tag.
            let Some(id) = id else { return self.condition(&Condition::Always, yes, no) };
            self.known(Known::Tag);
            return self.tag_id(id, yes, no);
        }
        let start = self.tags(behind);
        let found = if id.is_some() { self.assembler.label() } else { yes };
        self.assembler.add(code::LOAD_HALF, ADDRESSES + start);
        for protocol in &TAGGED[1..] {
            let next = self.assembler.label();
            self.assembler.branch(code::JUMP_IF_EQUAL, *protocol, found, next);
            self.assembler.place(next);
        }
        self.assembler.branch(code::JUMP_IF_EQUAL, TAGGED[0], found, no);
        if let Some(id) = id {
            self.assembler.place(found);
            self.assembler.add(code::LOAD_HALF, self.framing.header() + start);
            self.tag_id(id, yes, no);
        }
    }

    fn tag_id(&mut self, id: u16, yes: Label, no: Label) {
        self.assembler.add(code::MASK, TAG_ID);
        self.assembler.branch(code::JUMP_IF_EQUAL, id.into(), yes, no);
    }
}
