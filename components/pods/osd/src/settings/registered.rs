//! The common part of the statuses of labels and taints: the cluster has one of each name, which a
//! resource or another source requests.

use super::spec::HostSpec;
use super::{Report, Wanted};
use osbuild_protocol::{Observed, Setting, SettingName};

/// A label or a taint, and whether the node has it in its cluster.
pub struct Registered<S> {
    /// As the resource asks for it; without a resource, with the value that the node has.
    pub spec: S,
    /// The value that the node has, in the words of `init`; empty without one.
    pub current: String,
    /// Whether the node has it.
    pub set: bool,
    /// The source that is in effect, or empty.
    pub set_by: String,
    /// Why the node does not have it, or empty.
    pub error: String,
    /// The version of the resource; empty without one.
    pub version: String,
}

/// One for each resource, with its identifier, and one for each other label or taint, with the
/// identifier and the spec that `named` makes of its name, or nothing for other names.
pub fn registered<S: HostSpec>(
    report: &Report,
    named: fn(&SettingName) -> Option<(String, S)>,
) -> Vec<(String, Registered<S>)> {
    let others = report.others(|_| true);
    let others = others.filter_map(|observed| Some(other(observed, named(&observed.name)?)));
    others.chain(report.wanted.iter().map(|wanted| of_resource(report, wanted))).collect()
}

fn of_resource<S: HostSpec>(report: &Report, wanted: &Wanted) -> (String, Registered<S>) {
    let observed = wanted.settings.iter().find_map(|setting| report.observed(&setting.name()));
    let registered = Registered {
        spec: S::of(&wanted.settings),
        current: observed.map(|observed| observed.current.clone()).unwrap_or_default(),
        set: report.is_set(wanted),
        set_by: observed.map(source).unwrap_or_default(),
        error: report.error(wanted),
        version: wanted.version.clone(),
    };
    (wanted.id.clone(), registered)
}

fn other<S: HostSpec>(observed: &Observed, (id, named): (String, S)) -> (String, Registered<S>) {
    let current = Setting::parse(&format!("{} {}", observed.name, observed.current)).ok();
    let registered = Registered {
        current: observed.current.clone(),
        set: current.is_some() && observed.error.is_empty(),
        spec: current.map_or(named, |setting| S::of(&[setting])),
        set_by: source(observed),
        error: observed.error.clone(),
        version: String::new(),
    };
    (id, registered)
}

fn source(observed: &Observed) -> String {
    observed.source.map_or("", |source| source.name()).to_owned()
}
