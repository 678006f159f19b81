//! The values that the sources give for the settings of which a node has one. It is pure.

use osbuild_protocol::{Setting, Single};
use osbuild_ranks::{Ranked, Source};

/// The values: words with one space between, as they are on the wire.
#[derive(Default)]
pub struct Values {
    /// In the order of [`Single::ALL`].
    ranked: [Ranked<String>; Single::ALL.len()],
}

impl Values {
    /// Replaces the value of `source`; `None` withdraws it. Returns the former value.
    pub fn set(&mut self, source: Source, single: Single, value: Option<String>) -> Option<String> {
        self.ranked[single as usize].set(source, value)
    }

    /// The value that shall be in effect; empty if no source has one.
    pub fn effective(&self, single: Single) -> &str {
        self.ranked(single).effective().map_or("", |(_, value)| value)
    }

    /// The source of that value.
    pub fn source(&self, single: Single) -> Option<Source> {
        self.ranked(single).effective().map(|(source, _)| source)
    }

    /// The words of that value.
    pub fn words(&self, single: Single) -> Vec<String> {
        self.effective(single).split_whitespace().map(str::to_owned).collect()
    }

    /// The setting with the value of a source.
    pub fn of(&self, source: Source, single: Single) -> Option<Setting> {
        let value = self.ranked(single).get(source)?;
        Setting::parse(&format!("{} {value}", single.word())).ok()
    }

    fn ranked(&self, single: Single) -> &Ranked<String> {
        &self.ranked[single as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Single::{HostName, NameServers, SearchDomains, TimeServers};

    #[test]
    fn each_setting_has_its_place() {
        for (index, single) in Single::ALL.into_iter().enumerate() {
            assert_eq!(single as usize, index);
        }
    }

    #[test]
    fn a_network_without_time_servers_brings_back_those_of_the_image() {
        let mut values = Values::default();
        let value = |name: &str| Some(name.to_owned());
        values.set(Source::Image, TimeServers, value("time.example:124 10.0.2.5"));
        values.set(Source::Dhcp, TimeServers, value("10.0.2.4"));
        assert_eq!(values.words(TimeServers), ["10.0.2.4"]);
        values.set(Source::Dhcp, TimeServers, None);
        assert_eq!(values.words(TimeServers), ["time.example:124", "10.0.2.5"]);
    }

    #[test]
    fn a_requested_search_list_leaves_the_name_servers_of_the_network() {
        let mut values = Values::default();
        values.set(Source::Dhcp, NameServers, Some("10.0.2.3".to_owned()));
        values.set(Source::Dhcp, SearchDomains, Some("example.org".to_owned()));
        values.set(Source::Api, SearchDomains, Some("local".to_owned()));
        assert_eq!(values.effective(NameServers), "10.0.2.3");
        assert_eq!(values.effective(SearchDomains), "local");
        assert_eq!(values.of(Source::Api, NameServers), None);
        let requested = values.of(Source::Api, SearchDomains).unwrap();
        assert_eq!(requested.to_string(), "search-domains local");
    }

    #[test]
    fn a_host_name_of_a_higher_rank_outlasts_a_later_lease() {
        let mut values = Values::default();
        assert_eq!((values.effective(HostName), values.source(HostName)), ("", None));
        values.set(Source::Api, HostName, Some("chosen".to_owned()));
        values.set(Source::Dhcp, HostName, Some("edge-7".to_owned()));
        assert_eq!(values.effective(HostName), "chosen");
        assert_eq!(values.source(HostName), Some(Source::Api));
    }
}
