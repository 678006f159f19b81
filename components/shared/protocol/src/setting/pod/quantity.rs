//! Amounts of processor time and of memory, as Kubernetes writes them (`resource.Quantity`).

use std::fmt;

use crate::Refusal;

/// The maximum processor time: 1024 processors.
const MAX_MILLIS: u64 = 1_024_000;
/// The maximum memory: one tebibyte.
const MAX_BYTES: u64 = 1 << 40;
/// The maximum digits of a number.
const MAX_DIGITS: usize = 15;
/// The units of bytes.
const UNITS: [(&str, u64); 8] = [
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
    ("Ti", 1 << 40),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
];
/// Those in which a size is written, from the largest.
const WRITTEN: usize = 3;

/// Processor time in thousandths of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuTime(u64);

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

impl CpuTime {
    /// Reads `100m`, `2` or `0.5`.
    ///
    /// # Errors
    /// It has another form, is nothing, finer than a thousandth, or more than 1024 processors.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let millis = match text.strip_suffix('m') {
            Some(millis) => digits(millis),
            None => {
                let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
                let part = (part.len() <= 3).then(|| digits(&format!("{part:0<3}"))).flatten();
                digits(whole).zip(part).map(|(whole, part)| whole * 1000 + part)
            }
        };
        match millis.filter(|millis| (1..=MAX_MILLIS).contains(millis)) {
            Some(millis) => Ok(Self(millis)),
            None => Err(refusal(text, "processor time, such as `100m` or `2`")),
        }
    }
}

impl ByteSize {
    /// This many bytes, at least one.
    pub const fn of(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Reads `64Mi`, `1G` or a number of bytes.
    ///
    /// # Errors
    /// It has another form, is nothing, or more than a tebibyte.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let read = UNITS
            .iter()
            .find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)))
            .or(Some((text, 1)))
            .and_then(|(number, unit)| digits(number)?.checked_mul(unit));
        match read.filter(|bytes| (1..=MAX_BYTES).contains(bytes)) {
            Some(bytes) => Ok(Self(bytes)),
            None => Err(refusal(text, "a size, such as `64Mi` or `1Gi`")),
        }
    }

    /// The bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

fn digits(text: &str) -> Option<u64> {
    let is_number = (1..=MAX_DIGITS).contains(&text.len());
    let is_number = is_number && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

fn refusal(text: &str, form: &str) -> Refusal {
    let start: String = text.chars().take(32).collect();
    Refusal::malformed(format!("`{start}` is not {form}"))
}

impl fmt::Display for CpuTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 % 1000 {
            0 => write!(f, "{}", self.0 / 1000),
            _ => write!(f, "{}m", self.0),
        }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS[..WRITTEN].iter().find(|(_, bytes)| self.0.is_multiple_of(*bytes)) {
            Some((unit, bytes)) => write!(f, "{}{unit}", self.0 / bytes),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_read_as_kubernetes_reads_it() {
        for (text, written) in
            [("100m", "100m"), ("2", "2"), ("0.5", "500m"), ("1000m", "1"), ("1.25", "1250m")]
        {
            assert_eq!(CpuTime::parse(text).unwrap().to_string(), written, "{text}");
        }
        for text in ["", "0", "m", "-1", "+1", "1.0001", ".5", "1k", "1025", "0.5m"] {
            assert!(CpuTime::parse(text).is_err(), "{text}");
        }
        for (text, bytes, written) in [
            ("64Mi", 64 << 20, "64Mi"),
            ("1024Ki", 1 << 20, "1Mi"),
            ("1G", 1_000_000_000, "1000000000"),
            ("4097", 4097, "4097"),
            ("1Ti", 1 << 40, "1024Gi"),
        ] {
            let size = ByteSize::parse(text).unwrap();
            assert_eq!((size.bytes(), size.to_string().as_str()), (bytes, written), "{text}");
        }
        for text in ["", "0", "Mi", "1.5Gi", "64mi", "64 Mi", "2Ti", "99999999999999Ti", "1e3"] {
            assert!(ByteSize::parse(text).is_err(), "{text}");
        }
    }
}
