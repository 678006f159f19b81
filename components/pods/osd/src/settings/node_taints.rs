//! `NodeTaints.osbuild`: taints of the node in its cluster.

use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET, SettingType, Wanted, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{NodeTaintSpec, NodeTaintStatusSpec};
use osbuild_protocol::{NodeTaint, Observed, Refusal, Setting, SettingName};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("NodeTaints", "NodeTaint"),
    columns: &[KEY, VALUE, EFFECT],
    status_names: names("NodeTaintStatuses", "NodeTaintStatus"),
    status_columns: &[KEY, VALUE, EFFECT, SET, column("Set by", "{.setBy}"), ERROR],
    // A taint keeps pods from the node, or evicts them.
    writer: Role::Admin,
    read: spec::read::<NodeTaintSpec>,
    write: spec::write::<NodeTaintSpec>,
    subject: |settings| {
        let NodeTaintSpec { key, effect, .. } = NodeTaintSpec::of(settings);
        format!("the taint `{key}:{effect}`")
    },
    covers: |name| matches!(name, SettingName::NodeTaint(_)),
    statuses,
};

const KEY: PrintColumn = column("Key", "{.key}");
const VALUE: PrintColumn = column("Value", "{.value}");
const EFFECT: PrintColumn = column("Effect", "{.effect}");

impl HostSpec for NodeTaintSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        Ok(vec![Setting::NodeTaint(NodeTaint::new(&self.key, &self.value, &self.effect)?)])
    }

    fn of(settings: &[Setting]) -> Self {
        let taint = settings.iter().find_map(|setting| match setting {
            Setting::NodeTaint(NodeTaint { name, value }) => Some(NodeTaintSpec {
                key: name.key().to_owned(),
                value: value.as_str().to_owned(),
                effect: name.effect().word().to_owned(),
            }),
            _ => None,
        });
        taint.unwrap_or_default()
    }
}

/// A status for each resource, with its identifier, and for each other taint, with its key and
/// effect.
fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let others = report.others(TYPE.covers).filter_map(other);
    others.chain(report.wanted.iter().map(|wanted| status(report, wanted))).collect()
}

fn status(report: &Report, wanted: &Wanted) -> (String, Spec) {
    let NodeTaintSpec { key, value, effect } = NodeTaintSpec::of(&wanted.settings);
    let observed = wanted.settings.iter().find_map(|setting| report.observed(&setting.name()));
    let status = NodeTaintStatusSpec {
        key,
        value,
        effect,
        set: report.is_set(wanted),
        set_by: observed.map(source).unwrap_or_default(),
        error: report.error(wanted),
        version: wanted.version.clone(),
    };
    (wanted.id.clone(), spec::both(&status))
}

/// The status of a taint that no resource asks for: with the value that the node has.
fn other(observed: &Observed) -> Option<(String, Spec)> {
    let SettingName::NodeTaint(name) = &observed.name else { return None };
    let current = Setting::parse(&format!("{} {}", observed.name, observed.current)).ok();
    let NodeTaintSpec { value, .. } = NodeTaintSpec::of(current.as_slice());
    let status = NodeTaintStatusSpec {
        key: name.key().to_owned(),
        value,
        effect: name.effect().word().to_owned(),
        set: current.is_some() && observed.error.is_empty(),
        set_by: source(observed),
        error: observed.error.clone(),
        version: String::new(),
    };
    Some((name.to_string(), spec::both(&status)))
}

fn source(observed: &Observed) -> String {
    observed.source.map_or("", |source| source.name()).to_owned()
}
