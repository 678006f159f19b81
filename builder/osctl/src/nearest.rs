//! The name that was meant.

/// How many edits a word may be away from the one that is meant.
const MAX_EDITS: usize = 3;

/// The name that is most like the wanted one, in any case, if one is like it at all.
pub fn nearest<'a>(names: impl Iterator<Item = &'a str>, wanted: &str) -> Option<&'a str> {
    let wanted = wanted.to_ascii_lowercase();
    let edits = |name: &str| strsim::levenshtein(&name.to_ascii_lowercase(), &wanted);
    let near = names.map(|name| (edits(name), name)).min();
    near.filter(|(edits, _)| *edits <= MAX_EDITS).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_near_within_three_edits() {
        let names = || ["nameserver", "search"].into_iter();
        assert_eq!(nearest(names(), "nameServers"), Some("nameserver"));
        assert_eq!(nearest(names(), "serach"), Some("search"));
        assert_eq!(nearest(names(), "hostname"), None);
        assert_eq!(nearest([].into_iter(), "search"), None);
    }
}
