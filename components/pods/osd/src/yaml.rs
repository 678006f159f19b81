//! YAML that clients write, read with the memory of a request: an alias of two bytes can stand for
//! megabytes.

use crate::limits::MAX_MESSAGE;
use serde::de::DeserializeOwned;
use serde_saphyr::{Options, alias_limits, budget};

/// The most parts of a document that aliases may stand for.
const MAX_REPEATED: usize = 10_000;

/// Reads a text with one document.
///
/// # Errors
/// It is malformed, or its aliases stand for more than a request may have.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_saphyr::from_str_with_options(text, options()).map_err(reason)
}

/// Reads a text with documents whose values have no type yet. Of a number or a boolean only its
/// value is known further on, and not how it is written. What some versions of YAML take for one is
/// a text here: a boolean field still accepts `yes`, and a number `1_000`, but not `0755`.
///
/// # Errors
/// The same.
pub fn read_all<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    let mut options = options();
    options.strict_booleans = true;
    options.leading_zero_numbers_as_strings = true;
    options.underscored_numbers_as_strings = true;
    serde_saphyr::from_multiple_with_options(text, options).map_err(reason)
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: budget! {
            max_total_scalar_bytes: MAX_MESSAGE,
            max_recorded_anchor_bytes: MAX_MESSAGE,
        },
        alias_limits: alias_limits! { max_total_replayed_events: MAX_REPEATED },
    }
}

fn reason(error: serde_saphyr::Error) -> String {
    error.without_snippet().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn aliases_stand_for_no_more_than_a_request_may_have() {
        let ten = |alias: &str| [alias; 10].join(",");
        let text = |length| {
            let [a, b] = ["*a", "*b"].map(ten);
            format!("[&a {},&b [{a}],[{b}]]", "x".repeat(length))
        };
        assert!(read::<Value>(&text(1000)).is_ok());
        assert!(read_all::<Value>(&text(1000)).is_ok());
        for length in [10_000, 100_000] {
            assert!(read::<Value>(&text(length)).is_err(), "{length}");
            assert!(read_all::<Value>(&text(length)).is_err(), "{length}");
        }
        let [a, b, c, d] = ["*a", "*b", "*c", "*d"].map(ten);
        let many = format!("[&a [],&b [{a}],&c [{b}],&d [{c}],[{d}]]");
        assert!(read::<Value>(&many).is_err());
    }

    #[test]
    fn a_text_without_aliases_may_be_as_long_as_a_request() {
        let long = format!("a: {}\n", "x".repeat(MAX_MESSAGE - 10));
        assert!(read::<Value>(&long).is_ok());
    }
}
