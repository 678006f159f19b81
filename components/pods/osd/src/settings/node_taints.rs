//! `NodeTaints.osbuild`: taints of the node in its cluster.

use super::registered::{Registered, registered};
use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET, SET_BY, SettingType, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{NodeTaintSpec, NodeTaintStatusSpec};
use osbuild_protocol::{NodeTaint, Refusal, Setting, SettingName};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("NodeTaints", "NodeTaint"),
    columns: &[KEY, VALUE, EFFECT],
    status_names: names("NodeTaintStatuses", "NodeTaintStatus"),
    status_columns: &[KEY, VALUE, EFFECT, SET, SET_BY, ERROR],
    // A taint keeps pods from the node, or evicts them.
    writer: Role::Admin,
    may_disconnect: false,
    read: spec::read::<NodeTaintSpec>,
    write: spec::write::<NodeTaintSpec>,
    subject: |settings| {
        let NodeTaintSpec { key, effect, .. } = NodeTaintSpec::of(settings);
        format!("the taint `{key}:{effect}`")
    },
    conflict: |_| None,
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

fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let all = registered(report, named).into_iter();
    all.map(|(id, Registered { spec, set, set_by, error, version, .. })| {
        let NodeTaintSpec { key, value, effect } = spec;
        let status = NodeTaintStatusSpec { key, value, effect, set, set_by, error, version };
        (id, spec::both(&status))
    })
    .collect()
}

/// The identifier of a taint without a resource, and the taint without its value.
fn named(name: &SettingName) -> Option<(String, NodeTaintSpec)> {
    let SettingName::NodeTaint(name) = name else { return None };
    let (key, effect) = (name.key().to_owned(), name.effect().word().to_owned());
    Some((name.to_string(), NodeTaintSpec { key, value: String::new(), effect }))
}
