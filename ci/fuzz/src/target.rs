//! A parser under test: its seeds, its properties and its memory limit.

use allocation_counter::measure;
use std::fmt::Debug;

/// A parser under test.
pub struct Target {
    /// Its name, and the name of its folder in `regressions/`.
    pub name: &'static str,
    /// Makes the seeds with our own writers. The parser accepts the first one.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Parses an input, and panics if a property does not hold.
    pub run: fn(&[u8]) -> Outcome,
    /// The memory that `run` may have allocated at any time.
    pub memory: Memory,
}

/// The outcome of parsing an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It accepted the input, and all properties hold.
    Accepted,
    /// It refused the input with an error.
    Refused,
}

/// A memory limit.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Bytes independent of the input.
    pub base: u64,
    /// Additional bytes per byte of the input.
    pub per_byte: u64,
}

impl Memory {
    /// One MiB, and `per_byte` bytes per byte of the input.
    pub const fn per_byte(per_byte: u64) -> Self {
        Memory { base: 1 << 20, per_byte }
    }
}

impl Target {
    /// Runs the target on one input, and panics if a property does not hold or the memory limit is
    /// exceeded.
    pub fn check(&self, input: &[u8]) -> Outcome {
        let mut outcome = Outcome::Refused;
        let peak = measure(|| outcome = (self.run)(input)).bytes_max;
        let limit = self.memory.base + self.memory.per_byte * input.len() as u64;
        assert!(
            peak <= limit,
            "{peak} bytes of memory for {} bytes of input, more than {limit}",
            input.len()
        );
        outcome
    }
}

/// Calls `read` with the bytes behind the first one, and with the size of the pieces in which they
/// arrive, which is the first byte. Returns the lines, or `None` for an empty input.
///
/// # Panics
/// The lines depend on the pieces.
pub fn in_pieces<T: Debug + PartialEq>(
    input: &[u8],
    read: fn(&[u8], usize) -> Vec<T>,
) -> Option<Vec<T>> {
    let (size, bytes) = input.split_first()?;
    let lines = read(bytes, usize::from(*size).max(1));
    assert_eq!(lines, read(bytes, bytes.len().max(1)), "the pieces change the lines");
    Some(lines)
}

impl Outcome {
    /// The outcome for a parser's result.
    pub fn of<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() { Outcome::Accepted } else { Outcome::Refused }
    }
}
