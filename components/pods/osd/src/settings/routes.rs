//! `Routes.osbuild`: static routes.

use super::registered::{Registered, registered};
use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET, SET_BY, SettingType, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{RouteSettingStatusSpec, RouteSpec};
use osbuild_protocol::{
    LinkName, Metric, NetworkKind, NetworkName, NetworkSetting, Refusal, RouteTable, Setting,
    SettingName, StaticRoute, Subnet,
};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("Routes", "Route"),
    columns: &[DESTINATION, GATEWAY, LINK, METRIC, TABLE],
    status_names: names("RouteSettingStatuses", "RouteSettingStatus"),
    status_columns: &[DESTINATION, GATEWAY, LINK, METRIC, TABLE, SET, SET_BY, ERROR],
    // A client that sets a route can read the traffic, and answer in place of other machines.
    writer: Role::Admin,
    may_disconnect: true,
    read: spec::read::<RouteSpec>,
    write: spec::write::<RouteSpec>,
    subject: |settings| spec::subject(settings),
    conflict: |_| None,
    covers: |name| matches!(name, SettingName::Network(name) if name.kind() == NetworkKind::Route),
    statuses,
};

const DESTINATION: PrintColumn = column("Destination", "{.destination}");
const GATEWAY: PrintColumn = column("Gateway", "{.gateway}");
const LINK: PrintColumn = column("Link", "{.link}");
const METRIC: PrintColumn = column("Metric", "{.metric}");
const TABLE: PrintColumn = column("Table", "{.table}");

impl HostSpec for RouteSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let RouteSpec { destination, gateway, link, metric, table } = self;
        let gateway = Some(gateway.as_str()).filter(|gateway| !gateway.is_empty());
        let route = StaticRoute::new(
            Subnet::parse(destination)?,
            if *metric == 0 { Metric::default() } else { Metric::new(*metric)? },
            gateway.map(StaticRoute::gateway_of).transpose()?,
            LinkName::parse(link)?,
        )?;
        let route = match table {
            0 => route,
            table => route.in_table(RouteTable::new(*table)?),
        };
        Ok(vec![Setting::Network(NetworkSetting::Route(route))])
    }

    fn of(settings: &[Setting]) -> Self {
        let route = settings.iter().find_map(|setting| match setting {
            Setting::Network(NetworkSetting::Route(route)) => Some(RouteSpec {
                destination: route.destination().to_string(),
                gateway: route.gateway().map(|gateway| gateway.to_string()).unwrap_or_default(),
                link: route.link().to_string(),
                metric: route.metric().number(),
                // As most are written.
                table: if route.table().is_main() { 0 } else { route.table().number() },
            }),
            _ => None,
        });
        route.unwrap_or_default()
    }
}

/// A status for each resource, with its identifier, and for each other route, with its subnet,
/// metric and table.
fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let all = registered(report, |name| {
        let SettingName::Network(NetworkName::Route(subnet, metric, table)) = name else {
            return None;
        };
        let (metric, table) = (metric.number(), table.number());
        let destination = subnet.to_string();
        let id = format!("{destination}-{metric}-{table}");
        Some((id, RouteSpec { destination, metric, table, ..RouteSpec::default() }))
    });
    all.into_iter().map(|(id, found)| (id, spec::both(&shown(found)))).collect()
}

fn shown(found: Registered<RouteSpec>) -> RouteSettingStatusSpec {
    let Registered { spec, set, set_by, error, version, .. } = found;
    let RouteSpec { destination, gateway, link, metric, table } = spec;
    RouteSettingStatusSpec {
        destination,
        gateway,
        link,
        metric,
        table,
        set,
        set_by,
        error,
        version,
    }
}
