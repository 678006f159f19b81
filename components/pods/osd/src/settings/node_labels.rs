//! `NodeLabels.osbuild`: labels of the node in its cluster.

use super::registered::{Registered, registered};
use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET, SET_BY, SettingType, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{NodeLabelSpec, NodeLabelStatusSpec};
use osbuild_protocol::{NodeLabel, Refusal, Setting, SettingName};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("NodeLabels", "NodeLabel"),
    columns: &[KEY, VALUE],
    status_names: names("NodeLabelStatuses", "NodeLabelStatus"),
    status_columns: &[KEY, VALUE, SET, SET_BY, ERROR],
    // Workloads choose their nodes by labels.
    writer: Role::Admin,
    may_disconnect: false,
    read: spec::read::<NodeLabelSpec>,
    write: spec::write::<NodeLabelSpec>,
    subject: |settings| format!("the label `{}`", NodeLabelSpec::of(settings).key),
    conflict: |_| None,
    covers: |name| matches!(name, SettingName::NodeLabel(_)),
    statuses,
};

const KEY: PrintColumn = column("Key", "{.key}");
const VALUE: PrintColumn = column("Value", "{.value}");

impl HostSpec for NodeLabelSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        Ok(vec![Setting::NodeLabel(NodeLabel::parse(&self.key, &self.value)?)])
    }

    fn of(settings: &[Setting]) -> Self {
        let label = settings.iter().find_map(|setting| match setting {
            Setting::NodeLabel(NodeLabel { key, value }) => {
                Some(NodeLabelSpec { key: key.to_string(), value: value.as_str().to_owned() })
            }
            _ => None,
        });
        label.unwrap_or_default()
    }
}

fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let all = registered(report, named).into_iter();
    all.map(|(id, Registered { spec, set, set_by, error, version, .. })| {
        let NodeLabelSpec { key, value } = spec;
        let status = NodeLabelStatusSpec { key, value, set, set_by, error, version };
        (id, spec::both(&status))
    })
    .collect()
}

/// The identifier of a label without a resource, and the label without its value.
fn named(name: &SettingName) -> Option<(String, NodeLabelSpec)> {
    let SettingName::NodeLabel(key) = name else { return None };
    Some((key.to_string(), NodeLabelSpec { key: key.to_string(), value: String::new() }))
}
