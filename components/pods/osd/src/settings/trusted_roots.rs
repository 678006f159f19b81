//! `TrustedRoots.osbuild`: authorities that the node's own programs trust.

use super::certificates;
use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET, SET_BY, SettingType, Wanted, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{TrustedRootSpec, TrustedRootStatusSpec};
use osbuild_protocol::{
    Authorities, Observed, Refusal, RootName, Setting, SettingName, TrustedRoot,
};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("TrustedRoots", "TrustedRoot"),
    columns: &[NAME],
    status_names: names("TrustedRootStatuses", "TrustedRootStatus"),
    status_columns: &[NAME, column("Subject", "{.subject[:]}"), SET, SET_BY, ERROR],
    // The owner of the key of an authority can be each registry, with the images of all pods.
    writer: Role::Admin,
    may_disconnect: false,
    read: spec::read::<TrustedRootSpec>,
    write: spec::write::<TrustedRootSpec>,
    subject: |settings| format!("the authorities `{}`", TrustedRootSpec::of(settings).name),
    conflict: |_| None,
    covers: |name| matches!(name, SettingName::TrustedRoot(_)),
    statuses,
};

const NAME: PrintColumn = column("Name", "{.name}");

impl HostSpec for TrustedRootSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let authorities = Authorities::from_pem(&self.certificates)?;
        certificates::check_authorities("certificates", &authorities)?;
        let root = TrustedRoot::new(RootName::parse(&self.name)?, authorities)?;
        Ok(vec![Setting::TrustedRoot(root)])
    }

    fn of(settings: &[Setting]) -> Self {
        let root = settings.iter().find_map(|setting| match setting {
            Setting::TrustedRoot(root) => Some(TrustedRootSpec {
                name: root.name().to_string(),
                certificates: root.certificates().to_pem(),
            }),
            _ => None,
        });
        root.unwrap_or_default()
    }
}

/// A status for each resource, with its identifier, and for each other name.
fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let others = report.others(TYPE.covers).filter_map(other);
    others.chain(report.wanted.iter().map(|wanted| status(report, wanted))).collect()
}

fn status(report: &Report, wanted: &Wanted) -> (String, Spec) {
    let observed = wanted.settings.iter().find_map(|setting| report.observed(&setting.name()));
    let status = TrustedRootStatusSpec {
        name: TrustedRootSpec::of(&wanted.settings).name,
        subject: subjects(&wanted.settings),
        set: report.is_set(wanted),
        set_by: observed.map(source).unwrap_or_default(),
        error: report.error(wanted),
        version: wanted.version.clone(),
    };
    (wanted.id.clone(), spec::both(&status))
}

/// The status of authorities that no resource asks for.
fn other(observed: &Observed) -> Option<(String, Spec)> {
    let SettingName::TrustedRoot(name) = &observed.name else { return None };
    let current = Setting::parse(&format!("{} {}", observed.name, observed.current)).ok();
    let status = TrustedRootStatusSpec {
        name: name.to_string(),
        subject: subjects(current.as_slice()),
        set: current.is_some(),
        set_by: source(observed),
        error: observed.error.clone(),
        version: String::new(),
    };
    Some((name.to_string(), spec::both(&status)))
}

/// Whose the certificates are. Those of the node document may not be X.509.
fn subjects(settings: &[Setting]) -> Vec<String> {
    let roots = settings.iter().filter_map(|setting| match setting {
        Setting::TrustedRoot(root) => certificates::read(root.certificates()).ok(),
        _ => None,
    });
    roots.flatten().map(|certificate| certificates::subject(&certificate)).collect()
}

fn source(observed: &Observed) -> String {
    observed.source.map_or("", |source| source.name()).to_owned()
}
