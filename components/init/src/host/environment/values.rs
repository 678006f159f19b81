//! What settings give for the environment of the daemons. It is pure.

use osbuild_protocol::{Proxy, ProxyExclusion, Setting, SettingName};
use osbuild_ranks::{Ranked, Source};

/// Names and values of variables.
pub type Variables = Vec<(&'static str, String)>;

/// The values of all sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// The proxy.
    pub proxy: Ranked<Proxy>,
}

/// What a daemon is started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// Its variables, beside those that every process has.
    pub variables: Variables,
}

impl Values {
    /// The environment with these values. `cluster` is what the cluster of the node adds to what is
    /// reached without the proxy.
    pub fn environment(&self, cluster: &[ProxyExclusion]) -> Environment {
        let proxy = self.proxy.effective();
        let variables = proxy.map(|(_, proxy)| proxy.environment(cluster)).unwrap_or_default();
        Environment { variables }
    }

    /// The settings that have a value of any source, each with the source of that in effect.
    pub fn effective(&self) -> Vec<(SettingName, Source, Setting)> {
        let proxy = self.proxy.effective();
        let proxy = proxy
            .map(|(source, proxy)| (SettingName::Proxy, source, Setting::Proxy(proxy.clone())));
        proxy.into_iter().collect()
    }

    /// The settings with the values of a source.
    pub fn of(&self, source: Source) -> impl Iterator<Item = Setting> {
        self.proxy.get(source).cloned().map(Setting::Proxy).into_iter()
    }
}
