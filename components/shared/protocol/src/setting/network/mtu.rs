//! The largest packets of links.

use std::fmt;

use crate::Refusal;

/// The fewest bytes that every machine takes (RFC 791).
const MIN: u16 = 576;

/// The largest packet of a link in bytes, without the link's own header. IPv6 needs 1280.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mtu(u16);

impl Mtu {
    /// This number of bytes.
    ///
    /// # Errors
    /// It is less than 576, or more than 65535.
    pub fn new(bytes: u32) -> Result<Self, Refusal> {
        let number = u16::try_from(bytes).ok().filter(|bytes| *bytes >= MIN);
        let refuse = || Refusal::malformed(format!("an MTU is {MIN} to {} bytes", u16::MAX));
        number.map(Self).ok_or_else(refuse)
    }

    /// Reads a number as everybody writes it.
    pub(crate) fn parse(word: &str) -> Result<Self, Refusal> {
        let number = word.parse::<u32>().ok().filter(|number| number.to_string() == word);
        Self::new(number.ok_or_else(|| Refusal::malformed(format!("`{word}` is not an MTU")))?)
    }

    /// The bytes.
    pub fn bytes(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Mtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
