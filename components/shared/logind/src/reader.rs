//! Reads marshalled values ("Marshaling" in the D-Bus specification).

/// Why bytes are not a message, or not a handshake. The connection of their client is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// The byte order of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The lowest byte comes first.
    #[default]
    Little,
    /// The highest byte comes first.
    Big,
}

/// Reads values from the front of a message or of its body. Alignment counts from there.
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    order: Order,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8], order: Order) -> Self {
        Reader { bytes, at: 0, order }
    }

    /// The offset of the next value.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Whether all bytes were read.
    pub fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Skips the padding in front of a value with this alignment.
    pub fn align(&mut self, alignment: usize) -> Result<(), Malformed> {
        let padding = self.take(self.at.next_multiple_of(alignment) - self.at)?;
        if padding.iter().all(|byte| *byte == 0) {
            Ok(())
        } else {
            Err(Malformed("padding is not zero"))
        }
    }

    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(length);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or(Malformed("a value ends behind its message"))?;
        self.at += length;
        Ok(taken)
    }

    pub fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    pub fn uint32(&mut self) -> Result<u32, Malformed> {
        self.align(4)?;
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(4)?);
        Ok(match self.order {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        })
    }

    /// Reads a string or an object path.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        let length = self.uint32()?;
        self.terminated(length as usize)
    }

    pub fn signature(&mut self) -> Result<&'a str, Malformed> {
        let length = self.byte()?;
        self.terminated(length.into())
    }

    fn terminated(&mut self, length: usize) -> Result<&'a str, Malformed> {
        let text = self.take(length)?;
        if self.byte()? != 0 || text.contains(&0) {
            return Err(Malformed("a string does not end with its first NUL"));
        }
        str::from_utf8(text).map_err(|_| Malformed("a string is not UTF-8"))
    }
}
