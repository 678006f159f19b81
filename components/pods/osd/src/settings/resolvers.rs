//! `Resolvers.osbuild`: name servers and the search list.

use super::spec::{self, HostSpec};
use super::{ERROR, NODE, Report, SettingType, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{ResolverSpec, ResolverStatusSpec};
use osbuild_protocol::{List, Refusal, Setting, SettingName, Single};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("Resolvers", "Resolver"),
    columns: &[NAME_SERVERS, SEARCH],
    status_names: names("ResolverStatuses", "ResolverStatus"),
    status_columns: &[
        NAME_SERVERS,
        column("Source", "{.nameserverSource}"),
        SEARCH,
        column("Source", "{.searchSource}"),
        ERROR,
    ],
    writer: Role::Operator,
    may_disconnect: false,
    read: spec::read::<ResolverSpec>,
    write: spec::write::<ResolverSpec>,
    subject: |_| "the resolver".to_owned(),
    conflict: |_| None,
    covers: |name| matches!(name, SettingName::Single(Single::NameServers | Single::SearchDomains)),
    statuses,
};

const NAME_SERVERS: PrintColumn = column("Nameservers", "{.nameserver[:]}");
const SEARCH: PrintColumn = column("Search", "{.search[:]}");

impl HostSpec for ResolverSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let mut settings = Vec::new();
        if !self.nameserver.is_empty() {
            let servers = List::parse(self.nameserver.iter().map(String::as_str))?;
            settings.push(Setting::NameServers(servers));
        }
        if !self.search.is_empty() || settings.is_empty() {
            let domains = List::parse(self.search.iter().map(String::as_str))?;
            settings.push(Setting::SearchDomains(domains));
        }
        Ok(settings)
    }

    fn of(settings: &[Setting]) -> Self {
        let mut spec = ResolverSpec::default();
        for setting in settings {
            match setting {
                Setting::NameServers(servers) => {
                    spec.nameserver = servers.iter().map(ToString::to_string).collect();
                }
                Setting::SearchDomains(domains) => {
                    spec.search = domains.iter().map(ToString::to_string).collect();
                }
                _ => {}
            }
        }
        spec
    }
}

fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let (nameserver, nameserver_source) = report.current(Single::NameServers);
    let (search, search_source) = report.current(Single::SearchDomains);
    let [error, resource, version] = report.only();
    let status = ResolverStatusSpec {
        nameserver,
        nameserver_source,
        search,
        search_source,
        error,
        resource,
        version,
    };
    BTreeMap::from([(NODE.to_owned(), spec::both(&status))])
}
