//! A parser under test: its seeds, its properties and its memory limit.

use allocation_counter::measure;

/// A parser under test.
pub struct Target {
    /// Its name, and that of its folder in `regressions/`.
    pub name: &'static str,
    /// The seeds, made by our own writers. The parser accepts the first one.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Parses an input, and panics if a property does not hold.
    pub run: fn(&[u8]) -> Answer,
    /// The memory that parser and properties may have allocated at one time.
    pub memory: Memory,
}

/// The result of a parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The input was accepted, and all properties hold.
    Taken,
    /// The input was refused with an error.
    Refused,
}

/// A limit of memory.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Bytes for any input.
    pub base: u64,
    /// Further bytes for each byte of the input.
    pub per_byte: u64,
}

impl Memory {
    /// A mebibyte, and `per_byte` for each byte of the input.
    pub const fn per_byte(per_byte: u64) -> Self {
        Memory { base: 1 << 20, per_byte }
    }
}

impl Target {
    /// Runs the target on one input, and panics if a property does not hold or the memory limit is
    /// exceeded.
    pub fn check(&self, input: &[u8]) -> Answer {
        let mut answer = Answer::Refused;
        let took = measure(|| answer = (self.run)(input)).bytes_max;
        let limit = self.memory.base + self.memory.per_byte * input.len() as u64;
        assert!(
            took <= limit,
            "{took} bytes of memory for {} bytes of input, more than {limit}",
            input.len()
        );
        answer
    }
}

impl Answer {
    /// The answer for a parser's result.
    pub fn of<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() { Answer::Taken } else { Answer::Refused }
    }
}
