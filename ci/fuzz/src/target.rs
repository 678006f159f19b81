//! A parser under test: what it is given first, what it must hold to, and how much memory it may
//! take.

use allocation_counter::measure;

/// A parser under test.
pub struct Target {
    /// Its name, and that of its folder in `regressions/`.
    pub name: &'static str,
    /// What the fuzzer begins with, made by our own writers. The parser takes the first one.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Gives an input to the parser, and panics when one of its properties does not hold.
    pub run: fn(&[u8]) -> Answer,
    /// What parser and properties may have allocated at one time.
    pub memory: Memory,
}

/// What a parser made of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was read, and all properties of what was read hold.
    Taken,
    /// It was refused with an error.
    Refused,
}

/// A limit of memory.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Bytes for any input.
    pub base: u64,
    /// Bytes for each byte of the input besides.
    pub per_byte: u64,
}

impl Memory {
    /// A mebibyte, and some for each byte of the input.
    pub const fn per_byte(per_byte: u64) -> Self {
        Memory { base: 1 << 20, per_byte }
    }
}

impl Target {
    /// Runs the target on one input, and panics when a property does not hold or it took more
    /// memory than it may.
    pub fn check(&self, input: &[u8]) -> Answer {
        let mut answer = Answer::Refused;
        let took = measure(|| answer = (self.run)(input)).bytes_max;
        let most = self.memory.base + self.memory.per_byte * input.len() as u64;
        assert!(
            took <= most,
            "{took} bytes of memory for {} bytes of input, of at most {most}",
            input.len()
        );
        answer
    }
}

impl Answer {
    /// Whether something was read.
    pub fn of<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() { Answer::Taken } else { Answer::Refused }
    }
}
