//! The suggestion behind "did you mean".

/// The name that `written` most likely misspells, if one is near enough.
pub fn nearest<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |name: &str| strsim::damerau_levenshtein(written, name);
    let near = names.into_iter().map(|name| (distance(name), name)).min()?;
    // Up to a third of the letters can be wrong; beyond that it is another word.
    (near.0 * 3 <= written.chars().count().max(3)).then_some(near.1)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_misspelling_is_found_and_another_word_is_not() {
        assert_eq!(nearest("kernal", ["kernel", "files"]), Some("kernel"));
        assert_eq!(nearest("banana", ["kernel", "files"]), None);
        assert_eq!(nearest("banana", []), None);
    }
}
