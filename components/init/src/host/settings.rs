//! The settings for which several sources can give a value. The highest rank wins, and a source
//! that withdraws its value gives way to the next one.

use osbuild_failure::Outcome;
use osbuild_ranks::{Ranked, Source};

use super::resolver::{self, Resolver};
use super::{host_name, pod_resolvers, time_servers};

/// The values of all sources.
#[derive(Default)]
pub struct Settings {
    host_name: Ranked<String>,
    resolver: Ranked<Resolver>,
    time_servers: Ranked<Vec<String>>,
}

impl Settings {
    /// Sets what the image gives, before any other source: no name servers, as containerd copies
    /// the file into every pod, and these time servers.
    pub fn set_image(&mut self, time_servers: Vec<String>) -> Outcome {
        resolver::apply(&Resolver::default())?;
        self.set_time_servers(Source::Image, Some(time_servers))
    }

    /// Sets what `source` gives as host name, and applies the name in effect.
    pub fn set_host_name(&mut self, source: Source, name: Option<String>) -> Outcome {
        self.host_name.set(source, name);
        host_name::apply(self.host_name())
    }

    /// The host name in effect.
    pub fn host_name(&self) -> &str {
        self.host_name.effective().map_or("", |(_, name)| name)
    }

    /// The host name, if it comes from a source above the image.
    pub fn chosen_host_name(&self) -> Option<&str> {
        let (source, name) = self.host_name.effective()?;
        (source > Source::Image).then_some(name)
    }

    /// Sets what `source` gives as name servers, and applies those in effect. Without a source the
    /// file is empty.
    pub fn set_resolver(&mut self, source: Source, value: Option<Resolver>) -> Outcome {
        pod_resolvers::note()?;
        self.resolver.set(source, value);
        match self.resolver.effective() {
            Some((_, resolver)) => resolver::apply(resolver),
            None => resolver::apply(&Resolver::default()),
        }
    }

    /// Sets what `source` gives as time servers, and applies those in effect.
    pub fn set_time_servers(&mut self, source: Source, servers: Option<Vec<String>>) -> Outcome {
        self.time_servers.set(source, servers);
        time_servers::apply(self.time_servers())
    }

    fn time_servers(&self) -> &[String] {
        self.time_servers.effective().map_or(&[], |(_, servers)| servers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_of_the_image_is_not_a_chosen_one() {
        let mut settings = Settings::default();
        settings.host_name.set(Source::Image, Some("node-d79c5e6d".to_owned()));
        assert_eq!((settings.host_name(), settings.chosen_host_name()), ("node-d79c5e6d", None));
        settings.host_name.set(Source::Dhcp, Some("edge-7".to_owned()));
        assert_eq!((settings.host_name(), settings.chosen_host_name()), ("edge-7", Some("edge-7")));
    }

    #[test]
    fn a_network_without_time_servers_brings_back_those_of_the_image() {
        let mut settings = Settings::default();
        let server = |name: &str| Some(vec![name.to_owned()]);
        settings.time_servers.set(Source::Image, server("time.example:124"));
        settings.time_servers.set(Source::Dhcp, server("10.0.2.4"));
        assert_eq!(settings.time_servers(), ["10.0.2.4"]);
        settings.time_servers.set(Source::Dhcp, None);
        assert_eq!(settings.time_servers(), ["time.example:124"]);
    }

    #[test]
    fn a_host_name_of_a_higher_rank_outlasts_a_later_lease() {
        let mut settings = Settings::default();
        settings.host_name.set(Source::Api, Some("chosen".to_owned()));
        settings.host_name.set(Source::Dhcp, Some("edge-7".to_owned()));
        assert_eq!(settings.host_name(), "chosen");
    }
}
