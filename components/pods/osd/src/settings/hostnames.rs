//! `Hostnames.osbuild`: the host name.

use super::spec::{self, HostSpec};
use super::{ERROR, NODE, Report, SOURCE, SettingType, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{HostnameSpec, HostnameStatusSpec};
use osbuild_protocol::{HostName, Refusal, Setting, Single};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("Hostnames", "Hostname"),
    columns: &[HOSTNAME],
    status_names: names("HostnameStatuses", "HostnameStatus"),
    status_columns: &[HOSTNAME, SOURCE, ERROR],
    writer: Role::Operator,
    may_disconnect: false,
    read: spec::read::<HostnameSpec>,
    write: spec::write::<HostnameSpec>,
    subject: |_| "the host name".to_owned(),
    conflict: |_| None,
    covers: |name| *name == Single::HostName.into(),
    statuses,
};

const HOSTNAME: PrintColumn = column("Hostname", "{.hostname}");

impl HostSpec for HostnameSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        Ok(vec![Setting::HostName(HostName::parse(&self.hostname)?)])
    }

    fn of(settings: &[Setting]) -> Self {
        HostnameSpec { hostname: settings.iter().map(Setting::value).collect() }
    }
}

fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let (words, source) = report.current(Single::HostName);
    let [error, resource, version] = report.only();
    let status = HostnameStatusSpec { hostname: words.join(" "), source, error, resource, version };
    BTreeMap::from([(NODE.to_owned(), spec::both(&status))])
}
