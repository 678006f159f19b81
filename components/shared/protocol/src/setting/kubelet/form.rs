//! The forms of values in the kubelet's configuration.

use std::ops::RangeInclusive;

/// The form of a field's value.
pub(super) enum Form {
    /// A number in this range.
    Count(RangeInclusive<u32>),
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A time such as `1h30m` of at most so many seconds.
    Time(u32),
    /// An amount of bytes, such as `10Mi`.
    Size,
    /// An amount of a resource, such as `500m` or `1Gi`.
    Amount,
    /// An amount, or a part such as `10%`.
    Threshold,
}

/// A value as the kubelet's configuration has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubeletValue<'a> {
    /// A number.
    Number(u32),
    /// `true` or `false`.
    Flag(bool),
    /// A text.
    Text(&'a str),
}

/// The suffixes of amounts, beside none.
const SUFFIXES: [&str; 10] = ["m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "Pi"];
/// The maximum digits of an amount.
const MAX_DIGITS: usize = 12;
/// The units of a time, in their order, with their seconds.
const UNITS: [(char, u32); 3] = [('h', 3600), ('m', 60), ('s', 1)];

impl Form {
    /// Reads a value.
    pub(super) fn read<'a>(&self, text: &'a str) -> Option<KubeletValue<'a>> {
        let is_valid = match self {
            Self::Count(range) => {
                return number(text)
                    .filter(|count| range.contains(count))
                    .map(KubeletValue::Number);
            }
            Self::Flag => return text.parse().ok().map(KubeletValue::Flag),
            Self::Word(words) => words.contains(&text),
            Self::Time(max) => seconds(text).is_some_and(|seconds| seconds <= *max),
            Self::Size => is_amount(text) && !text.ends_with('m'),
            Self::Amount => is_amount(text),
            Self::Threshold => match text.strip_suffix('%') {
                Some(part) => number(part).is_some_and(|part| part <= 100),
                None => is_amount(text) && !text.ends_with('m'),
            },
        };
        is_valid.then_some(KubeletValue::Text(text))
    }

    /// The form in words, for a person who has used another.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Count(range) => format!("a number from {} to {}", range.start(), range.end()),
            Self::Flag => "`true` or `false`".to_owned(),
            Self::Word(words) => format!("one of `{}`", words.join("`, `")),
            Self::Time(max) => format!("a time such as `1m30s`, of at most {max} s"),
            Self::Size => "an amount of bytes such as `10Mi`".to_owned(),
            Self::Amount => "an amount such as `500m` or `1Gi`".to_owned(),
            Self::Threshold => "an amount of bytes such as `100Mi`, or a part such as `10%`".into(),
        }
    }
}

/// The seconds of a time: `30s`, `1h30m`.
pub(in super::super) fn seconds(text: &str) -> Option<u32> {
    let (mut rest, mut total) = (text, 0_u32);
    for (unit, seconds) in UNITS {
        if let Some((count, after)) = rest.split_once(unit) {
            total = total.checked_add(number(count)?.checked_mul(seconds)?)?;
            rest = after;
        }
    }
    (!text.is_empty() && rest.is_empty()).then_some(total)
}

/// A number without a sign and without zeros before it.
fn number(text: &str) -> Option<u32> {
    let is_plain = text == "0" || !text.starts_with('0');
    let is_number = is_plain && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Whether this is an amount: digits and perhaps a suffix.
fn is_amount(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let suffix = &text[digits..];
    (1..=MAX_DIGITS).contains(&digits) && (suffix.is_empty() || SUFFIXES.contains(&suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_its_units_in_order_each_once() {
        for (text, expected) in
            [("0s", 0), ("90s", 90), ("1h30m", 5400), ("1m1s", 61), ("2h", 7200)]
        {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        for text in ["", "30", "s", "1m1m", "1s1m", "-1s", "1.5h", "01s", " 1s", "9999999h", "é"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn an_amount_is_digits_with_a_suffix_that_fits_the_form() {
        for text in ["0", "500m", "1Gi", "100Mi", "4k"] {
            assert_eq!(Form::Amount.read(text), Some(KubeletValue::Text(text)));
        }
        for text in ["", "Mi", "1 Gi", "1gi", "-1", "1.5Gi", "1e3", "1234567890123", "10%", "1é"] {
            assert_eq!(Form::Amount.read(text), None, "{text}");
        }
        assert!(Form::Size.read("500m").is_none() && Form::Threshold.read("500m").is_none());
        assert!(Form::Threshold.read("10%").is_some() && Form::Threshold.read("101%").is_none());
        assert!(Form::Threshold.read("%").is_none());
    }
}
