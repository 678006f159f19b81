//! `Proxies.osbuild`: the proxy of the node's own programs.

use super::spec::{self, HostSpec};
use super::{ERROR, NODE, Report, SOURCE, SettingType, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{ProxySpec, ProxyStatusSpec};
use osbuild_protocol::{Proxy, ProxyExclusion, ProxyUrl, Refusal, Setting, SettingName};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("Proxies", "Proxy"),
    columns: &[HTTP, HTTPS, NO_PROXY],
    status_names: names("ProxyStatuses", "ProxyStatus"),
    status_columns: &[HTTP, HTTPS, NO_PROXY, SOURCE, ERROR],
    // A proxy reads what is requested without TLS, and a wrong one keeps the node from pulling.
    writer: Role::Admin,
    may_disconnect: false,
    read: spec::read::<ProxySpec>,
    write: spec::write::<ProxySpec>,
    subject: |_| "the proxy".to_owned(),
    conflict: |_| None,
    covers: |name| *name == SettingName::Proxy,
    statuses,
};

const HTTP: PrintColumn = column("HTTP", "{.http}");
const HTTPS: PrintColumn = column("HTTPS", "{.https}");
const NO_PROXY: PrintColumn = column("No proxy", "{.noProxy[:]}");

impl HostSpec for ProxySpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let url = |text: &str| (!text.is_empty()).then(|| ProxyUrl::parse(text)).transpose();
        let exclusions = self.no_proxy.iter().map(|entry| ProxyExclusion::parse(entry));
        let exclusions = exclusions.collect::<Result<_, _>>()?;
        let proxy = Proxy::new(url(&self.http)?, url(&self.https)?, exclusions)?;
        Ok(vec![Setting::Proxy(proxy)])
    }

    fn of(settings: &[Setting]) -> Self {
        let proxy = settings.iter().find_map(|setting| match setting {
            Setting::Proxy(proxy) => Some(ProxySpec {
                http: proxy.http().map(ToString::to_string).unwrap_or_default(),
                https: proxy.https().map(ToString::to_string).unwrap_or_default(),
                no_proxy: proxy.exclusions().iter().map(ToString::to_string).collect(),
            }),
            _ => None,
        });
        proxy.unwrap_or_default()
    }
}

fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let (words, source) = report.current(SettingName::Proxy);
    let current = Setting::parse(&format!("{} {}", SettingName::Proxy, words.join(" ")));
    let ProxySpec { http, https, no_proxy } =
        ProxySpec::of(&current.into_iter().collect::<Vec<_>>());
    let [error, resource, version] = report.only();
    // A setting that was taken back may have no resource, so the error comes from the host.
    let observed = report.observed(&SettingName::Proxy);
    let error = match (error.is_empty(), observed) {
        (true, Some(observed)) => observed.error.clone(),
        _ => error,
    };
    let status = ProxyStatusSpec { http, https, no_proxy, source, error, resource, version };
    BTreeMap::from([(NODE.to_owned(), spec::both(&status))])
}
