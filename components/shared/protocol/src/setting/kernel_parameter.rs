//! Kernel parameters: the files below `/proc/sys` (proc_sys(5)), by the names of sysctl(8).

use std::fmt;

use crate::Refusal;

/// The maximum bytes of a key.
pub const MAX_KEY: usize = 96;
/// The maximum bytes of a value.
pub const MAX_VALUE: usize = 256;
/// The maximum number of parameters that `init` holds.
pub const MAX_PARAMETERS: usize = 64;

/// Parameters that the kernel sets to zero when their counterpart is set, and whose zero it does
/// not take: neither the value of another source nor the one before could be in effect again.
const ONE_WAY: [(&str, &str); 2] = [
    ("vm.dirty_bytes", "vm.dirty_ratio"),
    ("vm.dirty_background_bytes", "vm.dirty_background_ratio"),
];

/// The name of a parameter: the path of its file below `/proc/sys`, with dots for slashes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ParameterKey(String);

/// The value of a parameter: words of printable ASCII with one space between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterValue(String);

/// A parameter that shall have a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelParameter {
    /// The parameter.
    pub key: ParameterKey,
    /// Its value.
    pub value: ParameterValue,
}

impl ParameterKey {
    /// Reads a name.
    ///
    /// # Errors
    /// It is longer than [`MAX_KEY`], or has another character than letters, digits, `-`, `_` and
    /// single dots in between, or the parameter could not be taken back.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        if let Some((_, counterpart)) = ONE_WAY.iter().find(|(one_way, _)| *one_way == text) {
            let reason = format!("`{text}` cannot be taken back: set `{counterpart}`");
            return Err(Refusal::malformed(reason));
        }
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_part = |part: &str| !part.is_empty() && part.bytes().all(known);
        match text.len() <= MAX_KEY && text.contains('.') && text.split('.').all(is_part) {
            true => Ok(Self(text.to_owned())),
            false => Err(Refusal::malformed(format!(
                "`{text}` is not the name of a kernel parameter, such as `net.core.somaxconn`"
            ))),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ParameterValue {
    /// Reads a value. White space between its words becomes one space, as the kernel prints tabs.
    ///
    /// # Errors
    /// It is empty, longer than [`MAX_VALUE`], or has characters beyond printable ASCII.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let value = words(text);
        let is_printable = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        match (1..=MAX_VALUE).contains(&value.len()) && is_printable {
            true => Ok(Self(value)),
            false => Err(Refusal::malformed(format!(
                "the value of a kernel parameter has 1 to {MAX_VALUE} printable ASCII characters"
            ))),
        }
    }

    /// The value.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl KernelParameter {
    /// Reads both.
    ///
    /// # Errors
    /// One of them is malformed.
    pub fn parse(key: &str, value: &str) -> Result<Self, Refusal> {
        Ok(Self { key: ParameterKey::parse(key)?, value: ParameterValue::parse(value)? })
    }
}

/// The words of a text with one space between, in which two texts of the kernel are compared.
pub fn words(text: &str) -> String {
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

impl fmt::Display for ParameterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ParameterValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for KernelParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_path_below_proc_sys_and_nothing_else() {
        for key in ["net.core.somaxconn", "net.ipv4.conf.eth0.rp_filter", "fs.aio-max-nr"] {
            assert_eq!(ParameterKey::parse(key).unwrap().as_str(), key);
        }
        let long = format!("a.{}", "b".repeat(MAX_KEY));
        for key in ["", "a", "a.", ".a", "a..b", "../a", "a/b", "a.b c", "a.\u{e4}", &long] {
            assert!(ParameterKey::parse(key).is_err(), "{key}");
        }
    }

    #[test]
    fn a_parameter_that_cannot_be_taken_back_is_refused_with_its_counterpart() {
        let refused = ParameterKey::parse("vm.dirty_bytes").unwrap_err().reason;
        assert_eq!(refused, "`vm.dirty_bytes` cannot be taken back: set `vm.dirty_ratio`");
        assert!(ParameterKey::parse("vm.dirty_background_bytes").is_err());
        assert!(ParameterKey::parse("vm.dirty_ratio").is_ok());
    }

    #[test]
    fn a_value_is_words_with_one_space_between() {
        let value = |text: &str| ParameterValue::parse(text).map(|value| value.0);
        assert_eq!(value(" 4096\t131072  6291456\n").unwrap(), "4096 131072 6291456");
        for text in ["", " \n", "\u{e4}", "a\u{7}", &"1".repeat(MAX_VALUE + 1)] {
            assert!(value(text).is_err(), "{text:?}");
        }
    }
}
