//! `StaticPods.osbuild`: pods that the kubelet runs without a cluster.

mod message;

use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET, SET_BY, SettingType, Wanted, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{StaticPodSpec, StaticPodStatusSpec};
use osbuild_protocol::{Observed, PodName, Refusal, Setting, SettingName, StaticPod};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("StaticPods", "StaticPod"),
    columns: &[NAME, column("Image", "{.containers[:].image}")],
    status_names: names("StaticPodStatuses", "StaticPodStatus"),
    status_columns: &[
        NAME,
        SET,
        column("Running", "{.running}"),
        column("Restarts", "{.restarts}"),
        column("Reason", "{.reason}"),
        SET_BY,
        ERROR,
    ],
    // A pod runs programs, with rights on the node where the recipe allows them.
    writer: Role::Admin,
    may_disconnect: false,
    read: spec::read::<StaticPodSpec>,
    write: spec::write::<StaticPodSpec>,
    subject: |settings| format!("a static pod `{}`", StaticPodSpec::of(settings).name),
    conflict: |_| None,
    covers: |name| matches!(name, SettingName::StaticPod(_)),
    statuses,
};

const NAME: PrintColumn = column("Name", "{.name}");

impl HostSpec for StaticPodSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        Ok(vec![Setting::StaticPod(StaticPod::new(message::read(self)?)?)])
    }

    fn of(settings: &[Setting]) -> Self {
        let pod = settings.iter().find_map(|setting| match setting {
            Setting::StaticPod(pod) => Some(message::write(pod.spec())),
            _ => None,
        });
        pod.unwrap_or_default()
    }
}

/// A status for each resource, with its identifier, and for each other pod, with its name.
fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let others = report.others(TYPE.covers).filter_map(|observed| other(report, observed));
    others.chain(report.wanted.iter().map(|wanted| status(report, wanted))).collect()
}

fn status(report: &Report, wanted: &Wanted) -> (String, Spec) {
    let (mut status, mut set_by) = (StaticPodStatusSpec::default(), "");
    for name in wanted.settings.iter().map(Setting::name) {
        set_by = report.observed(&name).and_then(|one| one.source).map_or("", |one| one.name());
        if let SettingName::StaticPod(name) = name {
            status = state(report, &name);
        }
    }
    let status = StaticPodStatusSpec {
        set: report.is_set(wanted),
        set_by: set_by.to_owned(),
        error: report.error(wanted),
        version: wanted.version.clone(),
        ..status
    };
    (wanted.id.clone(), spec::both(&status))
}

/// The status of a pod that no resource asks for.
fn other(report: &Report, observed: &Observed) -> Option<(String, Spec)> {
    let SettingName::StaticPod(name) = &observed.name else { return None };
    let status = StaticPodStatusSpec {
        set: !observed.current.is_empty(),
        set_by: observed.source.map_or("", |source| source.name()).to_owned(),
        error: observed.error.clone(),
        ..state(report, name)
    };
    Some((name.to_string(), spec::both(&status)))
}

/// The state of the pod with this name.
fn state(report: &Report, name: &PodName) -> StaticPodStatusSpec {
    let mut status = StaticPodStatusSpec { name: name.to_string(), ..Default::default() };
    if let Some(found) = report.pods.iter().find(|state| state.name == *name) {
        status.running = found.running;
        status.restarts = found.restarts;
        status.reason.clone_from(&found.reason);
        status.message.clone_from(&found.message);
    }
    status
}
