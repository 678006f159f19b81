//! Writes marshalled values ("Marshaling" in the D-Bus specification).

use crate::reader::Order;

/// Appends values. Alignment counts from the first one.
#[derive(Default)]
pub struct Writer {
    bytes: Vec<u8>,
    order: Order,
}

impl Writer {
    pub fn new(order: Order) -> Self {
        Writer { bytes: Vec::new(), order }
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// How many bytes were written.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn align(&mut self, alignment: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(alignment), 0);
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub fn uint32(&mut self, number: u32) {
        self.align(4);
        let bytes = self.ordered(number);
        self.raw(&bytes);
    }

    /// Replaces the number that [`Self::uint32`] has written at `at`.
    pub fn replace_uint32(&mut self, at: usize, number: u32) {
        let bytes = self.ordered(number);
        self.bytes[at..at + 4].copy_from_slice(&bytes);
    }

    pub fn uint64(&mut self, number: u64) {
        self.align(8);
        self.raw(&match self.order {
            Order::Little => number.to_le_bytes(),
            Order::Big => number.to_be_bytes(),
        });
    }

    pub fn boolean(&mut self, value: bool) {
        self.uint32(value.into());
    }

    /// Writes a string or an object path.
    pub fn text(&mut self, text: &str) {
        self.uint32(text.len() as u32);
        self.raw(text.as_bytes());
        self.byte(0);
    }

    /// Writes a signature of at most 255 bytes.
    pub fn signature(&mut self, signature: &str) {
        self.byte(signature.len() as u8);
        self.raw(signature.as_bytes());
        self.byte(0);
    }

    fn ordered(&self, number: u32) -> [u8; 4] {
        match self.order {
            Order::Little => number.to_le_bytes(),
            Order::Big => number.to_be_bytes(),
        }
    }
}
