//! `RoutingRules.osbuild`: rules that choose the table of routes for a packet.

use super::registered::{Registered, registered};
use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET, SET_BY, SettingType, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{RoutingRuleSpec, RoutingRuleStatusSpec};
use osbuild_protocol::{
    NetworkKind, NetworkName, NetworkSetting, Refusal, RoutingRule, RoutingRuleOptions, Setting,
    SettingName,
};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("RoutingRules", "RoutingRule"),
    columns: &[FAMILY, PRIORITY, FROM, TO, IIF, OIF, FWMARK, TABLE],
    status_names: names("RoutingRuleStatuses", "RoutingRuleStatus"),
    status_columns: &[FAMILY, PRIORITY, FROM, TO, IIF, OIF, FWMARK, TABLE, SET, SET_BY, ERROR],
    // As a route does, a rule leads packets elsewhere.
    writer: Role::Admin,
    may_disconnect: true,
    read: spec::read::<RoutingRuleSpec>,
    write: spec::write::<RoutingRuleSpec>,
    subject: |settings| spec::subject(settings),
    conflict: |_| None,
    covers: is_rule,
    statuses,
};

const FAMILY: PrintColumn = column("Family", "{.family}");
const PRIORITY: PrintColumn = column("Priority", "{.priority}");
const FROM: PrintColumn = column("From", "{.from}");
const TO: PrintColumn = column("To", "{.to}");
const IIF: PrintColumn = column("Iif", "{.iif}");
const OIF: PrintColumn = column("Oif", "{.oif}");
const FWMARK: PrintColumn = column("Fwmark", "{.fwmark}");
const TABLE: PrintColumn = column("Table", "{.table}");

impl HostSpec for RoutingRuleSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let rule = RoutingRule::new(RoutingRuleOptions {
            family: &self.family,
            priority: self.priority,
            table: self.table,
            from: &self.from,
            to: &self.to,
            iif: &self.iif,
            oif: &self.oif,
            fwmark: &self.fwmark,
        })?;
        Ok(vec![Setting::Network(NetworkSetting::RoutingRule(rule))])
    }

    fn of(settings: &[Setting]) -> Self {
        let rule = settings.iter().find_map(|setting| match setting {
            Setting::Network(NetworkSetting::RoutingRule(rule)) => Some(rule),
            _ => None,
        });
        let Some(rule) = rule else { return Self::default() };
        fn text(value: Option<impl ToString>) -> String {
            value.map(|value| value.to_string()).unwrap_or_default()
        }
        RoutingRuleSpec {
            family: rule.family().to_string(),
            priority: rule.priority().number(),
            table: rule.table().number(),
            from: text(rule.from()),
            to: text(rule.to()),
            iif: text(rule.iif()),
            oif: text(rule.oif()),
            fwmark: text(rule.fwmark()),
        }
    }
}

fn is_rule(name: &SettingName) -> bool {
    matches!(name, SettingName::Network(name) if name.kind() == NetworkKind::RoutingRule)
}

/// A status for each resource, with its identifier, and for each other rule, with its name.
fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let all = registered(report, |name| {
        let SettingName::Network(NetworkName::RoutingRule(family, priority)) = name else {
            return None;
        };
        let spec = RoutingRuleSpec {
            family: family.to_string(),
            priority: priority.number(),
            ..RoutingRuleSpec::default()
        };
        Some((format!("{family}-{priority}"), spec))
    });
    all.into_iter().map(|(id, found)| (id, spec::both(&shown(found)))).collect()
}

fn shown(found: Registered<RoutingRuleSpec>) -> RoutingRuleStatusSpec {
    let Registered { spec, set, set_by, error, version, .. } = found;
    let RoutingRuleSpec { family, priority, table, from, to, iif, oif, fwmark } = spec;
    RoutingRuleStatusSpec {
        family,
        priority,
        table,
        from,
        to,
        iif,
        oif,
        fwmark,
        set,
        set_by,
        error,
        version,
    }
}
