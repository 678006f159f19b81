//! `NodeLabels.osbuild`: labels of the node in its cluster.

use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET, SettingType, Wanted, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{NodeLabelSpec, NodeLabelStatusSpec};
use osbuild_protocol::{NodeLabel, Observed, Refusal, Setting, SettingName};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("NodeLabels", "NodeLabel"),
    columns: &[KEY, VALUE],
    status_names: names("NodeLabelStatuses", "NodeLabelStatus"),
    status_columns: &[KEY, VALUE, SET, column("Set by", "{.setBy}"), ERROR],
    // Workloads choose their nodes by labels.
    writer: Role::Admin,
    read: spec::read::<NodeLabelSpec>,
    write: spec::write::<NodeLabelSpec>,
    subject: |settings| format!("the label `{}`", NodeLabelSpec::of(settings).key),
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

/// A status for each resource, with its identifier, and for each other label, with its key.
fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let others = report.others(TYPE.covers).filter_map(other);
    others.chain(report.wanted.iter().map(|wanted| status(report, wanted))).collect()
}

fn status(report: &Report, wanted: &Wanted) -> (String, Spec) {
    let NodeLabelSpec { key, value } = NodeLabelSpec::of(&wanted.settings);
    let observed = wanted.settings.iter().find_map(|setting| report.observed(&setting.name()));
    let status = NodeLabelStatusSpec {
        key,
        value,
        set: report.is_set(wanted),
        set_by: observed.map(source).unwrap_or_default(),
        error: report.error(wanted),
        version: wanted.version.clone(),
    };
    (wanted.id.clone(), spec::both(&status))
}

/// The status of a label that no resource asks for: with the value that the node has.
fn other(observed: &Observed) -> Option<(String, Spec)> {
    let SettingName::NodeLabel(key) = &observed.name else { return None };
    let current = Setting::parse(&format!("{} {}", observed.name, observed.current)).ok();
    let NodeLabelSpec { value, .. } = NodeLabelSpec::of(current.as_slice());
    let status = NodeLabelStatusSpec {
        key: key.to_string(),
        value,
        set: current.is_some() && observed.error.is_empty(),
        set_by: source(observed),
        error: observed.error.clone(),
        version: String::new(),
    };
    Some((key.to_string(), spec::both(&status)))
}

fn source(observed: &Observed) -> String {
    observed.source.map_or("", |source| source.name()).to_owned()
}
