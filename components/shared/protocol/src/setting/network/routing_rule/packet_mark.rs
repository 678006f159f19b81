//! Marks of packets.

use std::fmt;

use super::super::options::number;
use crate::Refusal;

/// The mark that another program of the node has given a packet, and which of its bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketMark {
    value: u32,
    mask: u32,
}

impl PacketMark {
    /// Reads `MARK` or `MARK/MASK`, decimal or hexadecimal numbers. Without a mask all bits count.
    ///
    /// # Errors
    /// One is no number, no bit counts, or no packet can have the mark.
    pub fn parse(word: &str) -> Result<Self, Refusal> {
        let (value, mask) = word.split_once('/').unwrap_or((word, "0xffffffff"));
        let refuse = |reason: &str| Refusal::malformed(format!("`{word}` {reason}"));
        let no_mark = || refuse("is not a mark of packets: `0x100`, or `0x100/0xff00`");
        let value = bits(value).ok_or_else(no_mark)?;
        let mask = bits(mask).ok_or_else(no_mark)?;
        match (mask, value & !mask) {
            (0, _) => Err(refuse("has a mask in which no bit counts")),
            (_, 0) => Ok(Self { value, mask }),
            _ => Err(refuse("has bits outside its mask, so no packet has the mark")),
        }
    }

    /// The mark.
    pub fn value(self) -> u32 {
        self.value
    }

    /// The bits that count.
    pub fn mask(self) -> u32 {
        self.mask
    }
}

fn bits(word: &str) -> Option<u32> {
    match word.strip_prefix("0x") {
        // A sign is no digit.
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            u32::from_str_radix(digits, 16).ok()
        }
        Some(_) => None,
        None => number(word),
    }
}

impl fmt::Display for PacketMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mask {
            u32::MAX => write!(f, "{:#x}", self.value),
            mask => write!(f, "{:#x}/{mask:#x}", self.value),
        }
    }
}
