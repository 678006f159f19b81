//! Swap in compressed memory.

use std::fmt;

use super::ByteSize;
use crate::Refusal;
use crate::fields::number;

/// The unit in which swap is made.
const MEBIBYTE: u64 = 1 << 20;
/// The largest size, in hundredths of the machine's memory. Pages compress to a third of their size
/// or so, and what is larger never fills.
const MAX_PERCENT: u64 = 200;

const SIZE: &str = "size";
const MEMORY_LIMIT: &str = "memory-limit";
const PODS: &str = "pods";

/// The swap that the node shall have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swap {
    size: SwapSize,
    memory_limit: Option<SwapSize>,
    pods: bool,
}

/// A size of swap, or of the memory that its compressed pages take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapSize(Unit);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Bytes(ByteSize),
    /// Hundredths of the machine's memory.
    Percent(u64),
}

/// The sizes on one machine, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapAmounts {
    /// The size of all pages before they are compressed.
    pub size: u64,
    /// The most memory that they take when they are compressed.
    pub memory_limit: u64,
}

/// The swap that the node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwapState {
    /// The size of it in bytes.
    pub bytes: u64,
    /// How much of that is in use.
    pub used_bytes: u64,
    /// The memory that this takes.
    pub memory_bytes: u64,
}

impl Swap {
    /// Combines what was read. Without a limit it is half of the size.
    ///
    /// # Errors
    /// The limit is above the size, as far as that is known without the machine.
    pub fn new(
        size: SwapSize,
        memory_limit: Option<SwapSize>,
        pods: bool,
    ) -> Result<Self, Refusal> {
        let is_above = match (size.0, memory_limit.map(|limit| limit.0)) {
            (Unit::Bytes(size), Some(Unit::Bytes(limit))) => limit > size,
            (Unit::Percent(size), Some(Unit::Percent(limit))) => limit > size,
            _ => false,
        };
        match is_above {
            true => Err(Refusal::malformed("the memory limit of swap is above its size")),
            false => Ok(Self { size, memory_limit, pods }),
        }
    }

    /// Reads `size=SIZE [memory-limit=SIZE] [pods]`.
    pub(super) fn parse_words(words: &str) -> Result<Self, Refusal> {
        let (mut size, mut memory_limit, mut pods) = (None, None, None);
        for word in words.split(' ') {
            let is_new = match word.split_once('=') {
                Some((SIZE, text)) => size.replace(SwapSize::parse(text)?).is_none(),
                Some((MEMORY_LIMIT, text)) => {
                    memory_limit.replace(SwapSize::parse(text)?).is_none()
                }
                None if word == PODS => pods.replace(()).is_none(),
                _ => false,
            };
            if !is_new {
                size = None;
                break;
            }
        }
        let form = || Refusal::malformed("swap is `swap size=SIZE [memory-limit=SIZE] [pods]`");
        Self::new(size.ok_or_else(form)?, memory_limit, pods.is_some())
    }

    /// Its size.
    pub fn size(&self) -> SwapSize {
        self.size
    }

    /// The most memory that its pages take when they are compressed, if it has a limit of its own.
    pub fn memory_limit(&self) -> Option<SwapSize> {
        self.memory_limit
    }

    /// Whether pods get a part of it.
    pub fn pods(&self) -> bool {
        self.pods
    }

    /// The words that [`Self::parse_words`] reads.
    pub(super) fn words(&self) -> String {
        let limit = self.memory_limit.map(|limit| format!(" {MEMORY_LIMIT}={limit}"));
        let pods = if self.pods { format!(" {PODS}") } else { String::new() };
        format!("{SIZE}={}{}{pods}", self.size, limit.unwrap_or_default())
    }

    /// The sizes on a machine with this memory in bytes, in whole mebibytes.
    ///
    /// # Errors
    /// It is too large for the machine, or the limit is above the size.
    pub fn amounts(&self, memory: u64) -> Result<SwapAmounts, Refusal> {
        let size = self.size.bytes(memory);
        let most = percent(MAX_PERCENT, memory);
        if size > most {
            return Err(Refusal::malformed(format!(
                "swap of {} MiB is more than {MAX_PERCENT} % of the node's memory, which is {} MiB",
                size / MEBIBYTE,
                most / MEBIBYTE
            )));
        }
        let memory_limit = match self.memory_limit {
            Some(limit) => limit.bytes(memory),
            None => whole(size / 2),
        };
        if memory_limit > size {
            return Err(Refusal::malformed(format!(
                "the memory limit of swap, {} MiB, is above its size, {} MiB",
                memory_limit / MEBIBYTE,
                size / MEBIBYTE
            )));
        }
        Ok(SwapAmounts { size, memory_limit })
    }
}

impl SwapSize {
    /// Reads `512Mi`, or `50%` of the machine's memory.
    ///
    /// # Errors
    /// It has another form, is less than a mebibyte, or more than twice the memory.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let Some(number) = text.strip_suffix('%') else {
            let bytes = ByteSize::parse(text)?;
            return match bytes.bytes() >= MEBIBYTE {
                true => Ok(Self(Unit::Bytes(bytes))),
                false => Err(Refusal::malformed(format!("`{text}` of swap is less than `1Mi`"))),
            };
        };
        let is_number = number.len() <= 3 && number.bytes().all(|byte| byte.is_ascii_digit());
        let percent = number.parse().ok().filter(|percent| (1..=MAX_PERCENT).contains(percent));
        match percent.filter(|_| is_number) {
            Some(percent) => Ok(Self(Unit::Percent(percent))),
            None => {
                let start: String = text.chars().take(32).collect();
                let reason = format!("`{start}` is not `1%` to `{MAX_PERCENT}%` of the memory");
                Err(Refusal::malformed(reason))
            }
        }
    }

    /// The whole mebibytes of a machine with this memory, in bytes.
    fn bytes(self, memory: u64) -> u64 {
        match self.0 {
            Unit::Bytes(bytes) => whole(bytes.bytes()),
            Unit::Percent(hundredths) => whole(percent(hundredths, memory)),
        }
    }
}

/// Rounds down to whole mebibytes, but not to none.
fn whole(bytes: u64) -> u64 {
    (bytes / MEBIBYTE * MEBIBYTE).max(MEBIBYTE)
}

/// As many hundredths of `bytes`.
fn percent(hundredths: u64, bytes: u64) -> u64 {
    (bytes / 100).saturating_mul(hundredths)
}

impl SwapState {
    /// Reads the words that its `Display` writes; `None` if they have another form.
    pub fn parse(words: &str) -> Option<Self> {
        Some(Self {
            bytes: number(words, "bytes")?,
            used_bytes: number(words, "used")?,
            memory_bytes: number(words, "memory")?,
        })
    }
}

impl fmt::Display for SwapSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Unit::Bytes(bytes) => bytes.fmt(f),
            Unit::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl fmt::Display for SwapState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, used_bytes, memory_bytes } = self;
        write!(f, "bytes={bytes} used={used_bytes} memory={memory_bytes}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIBIBYTE: u64 = 1 << 30;

    fn amounts(words: &str, memory: u64) -> Result<(u64, u64), String> {
        let amounts = Swap::parse_words(words).unwrap().amounts(memory);
        let SwapAmounts { size, memory_limit } = amounts.map_err(|refusal| refusal.reason)?;
        assert!(size % MEBIBYTE == 0 && memory_limit % MEBIBYTE == 0);
        Ok((size / MEBIBYTE, memory_limit / MEBIBYTE))
    }

    #[test]
    fn a_share_is_that_of_the_machine_and_the_limit_is_half_of_the_size() {
        assert_eq!(amounts("size=50%", 2 * GIBIBYTE), Ok((1023, 511)));
        assert_eq!(amounts("size=512Mi", GIBIBYTE), Ok((512, 256)));
        assert_eq!(amounts("size=512Mi memory-limit=10%", GIBIBYTE), Ok((512, 102)));
        assert_eq!(amounts("size=1Mi", GIBIBYTE), Ok((1, 1)));
        assert_eq!(amounts("size=1% memory-limit=1Mi", 20 * MEBIBYTE), Ok((1, 1)));
        assert_eq!(amounts("size=2G", GIBIBYTE), Ok((1907, 953)));
    }

    #[test]
    fn more_than_twice_the_memory_and_a_limit_above_the_size_are_refused() {
        let reason = "swap of 3072 MiB is more than 200 % of the node's memory, which is 2047 MiB";
        assert_eq!(amounts("size=3Gi pods", GIBIBYTE), Err(reason.to_owned()));
        assert!(amounts("size=200%", GIBIBYTE).is_ok());
        let reason = "the memory limit of swap, 511 MiB, is above its size, 256 MiB";
        assert_eq!(amounts("size=256Mi memory-limit=50%", GIBIBYTE), Err(reason.to_owned()));
        for words in ["size=1Gi memory-limit=2Gi", "size=10% memory-limit=11%"] {
            let refusal = Swap::parse_words(words).unwrap_err();
            assert_eq!(refusal.reason, "the memory limit of swap is above its size", "{words}");
        }
    }

    #[test]
    fn swap_has_a_size_and_each_word_once() {
        for words in [
            "",
            "pods",
            "memory-limit=1Mi",
            "size=",
            "size=0",
            "size=1048575",
            "size=2Ti",
            "size=0%",
            "size=201%",
            "size=%",
            "size=+1%",
            "size=1.5%",
            "size=18446744073709551617%",
            "size=1Mi size=2Mi",
            "size=1Mi pods pods",
            "size=1Mi pods=true",
            "size=1Mi  pods",
            "size=1Mi device=/dev/vda",
        ] {
            assert!(Swap::parse_words(words).is_err(), "{words}");
        }
    }

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let state = SwapState { bytes: GIBIBYTE, used_bytes: 2 * MEBIBYTE, memory_bytes: 4096 };
        assert_eq!(SwapState::parse(&state.to_string()), Some(state));
        for words in ["", "bytes=1 used=2", "bytes=-1 used=2 memory=3", "off"] {
            assert_eq!(SwapState::parse(words), None, "{words}");
        }
    }

    proptest! {
        #[test]
        fn amounts_are_within_their_bounds_on_every_machine(
            size in "[0-9]{1,3}(%|[KMGT]i|M)|[0-9]{1,14}",
            limit in "[0-9]{1,3}(%|[KMGT]i|M)|[0-9]{1,14}",
            memory in 1u64 << 24..=u64::MAX,
        ) {
            let words = format!("size={size} memory-limit={limit}");
            if let Ok(swap) = Swap::parse_words(&words) {
                prop_assert_eq!(Swap::parse_words(&swap.words()), Ok(swap));
                if let Ok(SwapAmounts { size, memory_limit }) = swap.amounts(memory) {
                    prop_assert!(size >= MEBIBYTE && u128::from(size) <= 2 * u128::from(memory));
                    prop_assert!((MEBIBYTE..=size).contains(&memory_limit));
                }
            }
        }
    }
}
