//! Decides which of several sources sets a setting of the node. Each source has a rank, and the
//! highest rank that has a value wins, whatever came last.
//!
//! The crate is pure: it performs no I/O and allocates nothing.

#![no_std]

/// Where a value comes from, lowest rank first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The signed image: its command line, its files, and what `init` derives from the machine.
    Image,
    /// The platform that the node runs on, such as a cloud's metadata service.
    Platform,
    /// The network, through DHCP.
    Dhcp,
    /// The node document.
    Document,
    /// The configuration API.
    Api,
    /// A person at a console of the machine.
    Console,
}

impl Source {
    /// Every source, lowest rank first.
    pub const ALL: [Source; 6] =
        [Self::Image, Self::Platform, Self::Dhcp, Self::Document, Self::Api, Self::Console];

    /// The word for it in protocols and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Platform => "platform",
            Self::Dhcp => "dhcp",
            Self::Document => "document",
            Self::Api => "api",
            Self::Console => "console",
        }
    }

    /// The source with this [name](Self::name).
    pub fn from_name(name: &str) -> Option<Source> {
        Self::ALL.into_iter().find(|source| source.name() == name)
    }
}

/// The values that the sources give for one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked<T> {
    /// One value for each source, in the order of [`Source::ALL`].
    values: [Option<T>; Source::ALL.len()],
}

impl<T> Ranked<T> {
    /// A setting for which no source has a value.
    pub const fn new() -> Self {
        Ranked { values: [const { None }; Source::ALL.len()] }
    }

    /// Replaces the value of `source`; `None` withdraws it. Returns the former value.
    pub fn set(&mut self, source: Source, value: Option<T>) -> Option<T> {
        core::mem::replace(&mut self.values[source as usize], value)
    }

    /// The value of `source`, whether or not it is in effect.
    pub fn get(&self, source: Source) -> Option<&T> {
        self.values[source as usize].as_ref()
    }

    /// The value in effect and its source: the highest rank that has one.
    pub fn effective(&self) -> Option<(Source, &T)> {
        Source::ALL.into_iter().rev().find_map(|source| Some((source, self.get(source)?)))
    }
}

impl<T> Default for Ranked<T> {
    fn default() -> Self {
        Ranked::new()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn source() -> impl Strategy<Value = Source> {
        prop::sample::select(Source::ALL.to_vec())
    }

    fn changes() -> impl Strategy<Value = Vec<(Source, Option<u8>)>> {
        prop::collection::vec((source(), any::<Option<u8>>()), 0..20)
    }

    #[test]
    fn the_ranks_are_ordered_as_they_are_listed() {
        assert!(Source::ALL.is_sorted());
        for (index, source) in Source::ALL.into_iter().enumerate() {
            assert_eq!(source as usize, index);
            assert_eq!(Source::from_name(source.name()), Some(source));
        }
    }

    #[test]
    fn a_lower_rank_that_comes_later_does_not_win() {
        let mut setting = Ranked::new();
        setting.set(Source::Document, Some("from-document"));
        setting.set(Source::Dhcp, Some("from-dhcp"));
        assert_eq!(setting.effective(), Some((Source::Document, &"from-document")));
        assert_eq!(setting.set(Source::Document, None), Some("from-document"));
        assert_eq!(setting.effective(), Some((Source::Dhcp, &"from-dhcp")));
    }

    #[test]
    fn a_setting_without_a_source_has_no_value() {
        assert_eq!(Ranked::<u8>::default().effective(), None);
    }

    proptest! {
        #[test]
        fn the_last_value_of_the_highest_rank_is_in_effect(changes in changes()) {
            let mut setting = Ranked::new();
            for (source, value) in &changes {
                setting.set(*source, *value);
            }
            let last = |source| changes.iter().rev().find(|change| change.0 == source);
            let expected = Source::ALL.into_iter().rev().find_map(|source| {
                Some((source, last(source)?.1?))
            });
            prop_assert_eq!(setting.effective().map(|(source, value)| (source, *value)), expected);
        }

        #[test]
        fn the_order_in_which_different_sources_speak_does_not_matter(
            mut changes in changes(), seed in any::<u64>(),
        ) {
            changes.sort_by_key(|change| change.0);
            changes.dedup_by_key(|change| change.0);
            let apply = |changes: &[(Source, Option<u8>)]| {
                let mut setting = Ranked::new();
                for (source, value) in changes {
                    setting.set(*source, *value);
                }
                setting
            };
            let forward = apply(&changes);
            let at = seed as usize % changes.len().max(1);
            changes.rotate_left(at);
            prop_assert_eq!(apply(&changes), forward);
        }
    }
}
