//! `TimeServers.osbuild`: the servers by which the node sets its clock.

use super::spec::{self, HostSpec};
use super::{ERROR, NODE, Report, SOURCE, SettingType, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{TimeServerSpec, TimeServerStatusSpec};
use osbuild_protocol::{List, Refusal, Setting, Single};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("TimeServers", "TimeServer"),
    columns: &[SERVERS],
    status_names: names("TimeServerStatuses", "TimeServerStatus"),
    status_columns: &[SERVERS, SOURCE, ERROR],
    writer: Role::Operator,
    may_disconnect: false,
    read: spec::read::<TimeServerSpec>,
    write: spec::write::<TimeServerSpec>,
    subject: |_| "the list of time servers".to_owned(),
    conflict: |_| None,
    covers: |name| *name == Single::TimeServers.into(),
    statuses,
};

const SERVERS: PrintColumn = column("Servers", "{.server[:]}");

impl HostSpec for TimeServerSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let servers = List::parse(self.server.iter().map(String::as_str))?;
        Ok(vec![Setting::TimeServers(servers)])
    }

    fn of(settings: &[Setting]) -> Self {
        let servers = settings.iter().filter_map(|setting| match setting {
            Setting::TimeServers(servers) => Some(servers.iter().map(ToString::to_string)),
            _ => None,
        });
        TimeServerSpec { server: servers.flatten().collect() }
    }
}

fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let (server, source) = report.current(Single::TimeServers);
    let [error, resource, version] = report.only();
    let status = TimeServerStatusSpec { server, source, error, resource, version };
    BTreeMap::from([(NODE.to_owned(), spec::both(&status))])
}
