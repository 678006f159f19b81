//! Lines of `KEY=VALUE` fields with one space between.

/// The value of a field. If a key occurs several times, the first one counts.
pub fn value<'t>(fields: &'t str, key: &str) -> Option<&'t str> {
    fields.split(' ').find_map(|field| field.strip_prefix(key)?.strip_prefix('='))
}

/// The value of a field that is a number in decimal digits. `parse` alone would accept a sign.
pub fn number<T: core::str::FromStr>(fields: &str, key: &str) -> Option<T> {
    let digits = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
    value(fields, key).filter(digits)?.parse().ok()
}

/// Splits a text with fields in brackets at its end into the text and the fields. `first` is the
/// key of the first field.
pub fn split_trailer<'t>(text: &'t str, first: &str) -> (&'t str, Option<&'t str>) {
    let split = || {
        let inside = text.strip_suffix(']')?;
        let at = inside.rfind(" [")?;
        let fields = &inside[at + 2..];
        fields.strip_prefix(first)?.starts_with('=').then_some((&text[..at], Some(fields)))
    };
    split().unwrap_or((text, None))
}

/// Replaces everything but printable ASCII, so that a text stays on its line.
pub fn printable(text: &str) -> alloc::string::String {
    text.chars().map(|letter| if matches!(letter, ' '..='~') { letter } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_key() {
        assert_eq!(value("tries=3 state=a=b", "state"), Some("a=b"));
        assert_eq!(value("tries=3", "trie"), None);
        assert_eq!(number::<u8>("tries=3", "tries"), Some(3));
        for fields in ["tries=", "tries=+3", "tries=256", "tries=x"] {
            assert_eq!(number::<u8>(fields, "tries"), None, "{fields}");
        }
    }

    #[test]
    fn only_a_bracket_with_the_right_key_is_a_trailer() {
        assert_eq!(split_trailer("a [b] [code=3]", "code"), ("a [b]", Some("code=3")));
        for text in ["", "]", "a [b]", "a [code=3] ", "a[code=3]", "a [codes=3]"] {
            assert_eq!(split_trailer(text, "code"), (text, None), "{text}");
        }
    }
}
