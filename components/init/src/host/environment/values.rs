//! The environment of the daemons that follows from settings. It is pure.

use std::collections::BTreeMap;

use osbuild_protocol::{Proxy, ProxyExclusion, RootName, Setting, SettingName, TrustedRoot};
use osbuild_ranks::{Ranked, Source};

/// Names and values of variables.
pub type Variables = Vec<(&'static str, String)>;

/// Where programs in Go look for certificates of authorities, and where they find those of
/// settings.
const SSL_CERT_DIR: (&str, &str) = ("SSL_CERT_DIR", "/etc/ssl/certs:/run/osbuild/trusted-roots");

/// The values of all sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// The proxy.
    pub proxy: Ranked<Proxy>,
    /// Authorities by their names.
    pub roots: BTreeMap<RootName, Ranked<TrustedRoot>>,
}

/// The environment with which a daemon is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// The variables of its proxy.
    pub proxy: Variables,
    /// The authorities that it trusts beside those of the image, in PEM. It reads them once.
    pub roots: String,
}

impl Environment {
    /// The variables, beside those that every process has.
    pub fn variables(&self) -> Variables {
        let (name, folders) = SSL_CERT_DIR;
        let roots = (!self.roots.is_empty()).then(|| (name, folders.to_owned()));
        self.proxy.iter().cloned().chain(roots).collect()
    }
}

impl Values {
    /// The environment with these values. `cluster` has the proxy exclusions of the node's
    /// cluster.
    pub fn environment(&self, cluster: &[ProxyExclusion]) -> Environment {
        let proxy = self.proxy.effective();
        let roots = self.roots.values().filter_map(Ranked::effective);
        Environment {
            proxy: proxy.map(|(_, proxy)| proxy.environment(cluster)).unwrap_or_default(),
            roots: roots.map(|(_, root)| root.certificates().to_pem()).collect(),
        }
    }

    /// The settings that have a value of any source, each with the source of that in effect.
    pub fn effective(&self) -> Vec<(SettingName, Source, Setting)> {
        let proxy = self.proxy.effective();
        let proxy = proxy.map(|(source, proxy)| (source, Setting::Proxy(proxy.clone())));
        let roots = self.roots.values().filter_map(Ranked::effective);
        let roots = roots.map(|(source, root)| (source, Setting::TrustedRoot(root.clone())));
        let all = proxy.into_iter().chain(roots);
        all.map(|(source, setting)| (setting.name(), source, setting)).collect()
    }

    /// The settings with the values of a source.
    pub fn of(&self, source: Source) -> impl Iterator<Item = Setting> {
        let proxy = self.proxy.get(source).cloned().map(Setting::Proxy);
        let roots = self.roots.values().filter_map(move |values| values.get(source).cloned());
        proxy.into_iter().chain(roots.map(Setting::TrustedRoot))
    }
}
