//! Texts of a node, which may have anything in them.

use crate::error::printable;

/// The characters of a text that are kept. No screen shows more.
pub const MAX_CHARACTERS: usize = 1000;

/// The text as one line that controls no terminal and reorders nothing, cut after
/// [`MAX_CHARACTERS`].
pub fn clean(text: &str) -> String {
    // Escaping lengthens the text, so it is cut before and after.
    let cut: String = text.chars().take(MAX_CHARACTERS).collect();
    printable(&cut).replace('\t', "    ").chars().take(MAX_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::is_deceptive;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_becomes_one_harmless_line(text in any::<String>()) {
            let cleaned = clean(&text);
            prop_assert!(!cleaned.contains(is_deceptive), "{cleaned:?}");
        }
    }

    #[test]
    fn a_long_text_is_cut() {
        assert_eq!(clean(&"\u{1b}".repeat(5000)).chars().count(), MAX_CHARACTERS);
        assert_eq!(clean("a\tb\nc"), "a    b\\nc");
    }
}
