//! Numbers with units, as labels contain them.

/// The value of a text such as `10`, `-3`, `4k`, `10 kg` or `2GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number(i128);

/// Prefixes of units, in lower case. Those with two letters are before those with one.
const UNITS: [(&str, i128); 10] = [
    ("ki", 1 << 10),
    ("mi", 1 << 20),
    ("gi", 1 << 30),
    ("ti", 1 << 40),
    ("pi", 1 << 50),
    ("k", 1_000),
    ("m", 1_000_000),
    ("g", 1_000_000_000),
    ("t", 1_000_000_000_000),
    ("p", 1_000_000_000_000_000),
];

impl Number {
    /// Reads an integer and the prefix of its unit; what follows the prefix is ignored. A text that
    /// begins with no integer, or whose unit has no known prefix, is no number.
    pub fn parse(text: &str) -> Option<Number> {
        let text = text.trim();
        let is_sign_or_digit = |c: char| c.is_ascii_digit() || c == '-';
        let (digits, unit) =
            text.split_at(text.find(|c| !is_sign_or_digit(c)).unwrap_or(text.len()));
        let integer: i64 = digits.parse().ok()?;
        let unit = unit.trim().to_lowercase();
        let factor = match UNITS.iter().find(|(prefix, _)| unit.starts_with(prefix)) {
            Some((_, factor)) => *factor,
            None if unit.is_empty() => 1,
            None => return None,
        };
        Some(Number(i128::from(integer) * factor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_prefix_of_the_unit_multiplies_and_the_rest_is_ignored() {
        for (text, number) in [
            ("10", 10),
            (" -3 ", -3),
            ("4k", 4_000),
            ("10 kg", 10_000),
            ("1Ki", 1_024),
            ("2GiB", 2 << 30),
            ("3M", 3_000_000),
            ("1ti", 1 << 40),
            ("7P", 7_000_000_000_000_000),
        ] {
            assert_eq!(Number::parse(text), Some(Number(number)), "{text}");
        }
    }

    #[test]
    fn a_text_without_an_integer_or_with_another_unit_is_no_number() {
        for text in ["", "k", "ten", "10 apples", "5-3", "--5", "1.5", "99999999999999999999"] {
            assert_eq!(Number::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_and_no_unit_overflows(text in "[-0-9]{0,20}\\PC{0,4}") {
            let number = Number::parse(&text).map_or(0, |number| number.0);
            prop_assert!(number.unsigned_abs() <= 1 << (63 + 50));
        }
    }
}
