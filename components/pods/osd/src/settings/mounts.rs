//! `Mounts.osbuild`: mounts beyond those that every node has.

use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET_BY, SettingType, Wanted, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{MountSpec, MountStatusSpec};
use osbuild_protocol::{Mount, Observed, Refusal, Setting, SettingName};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("Mounts", "Mount"),
    columns: &[TARGET, KIND, SOURCE, OPTIONS],
    status_names: names("MountStatuses", "MountStatus"),
    status_columns: &[
        TARGET,
        KIND,
        SOURCE,
        OPTIONS,
        column("Mounted", "{.mounted}"),
        SET_BY,
        ERROR,
    ],
    // A mount hides the files of other programs, and a tmpfs takes memory.
    writer: Role::Admin,
    may_disconnect: false,
    read: spec::read::<MountSpec>,
    write: spec::write::<MountSpec>,
    subject: |settings| format!("a mount at `{}`", MountSpec::of(settings).target),
    conflict: |_| None,
    covers: |name| matches!(name, SettingName::Mount(_)),
    statuses,
};

const TARGET: PrintColumn = column("Target", "{.target}");
const KIND: PrintColumn = column("Type", "{.type}");
const SOURCE: PrintColumn = column("Source", "{.source}");
const OPTIONS: PrintColumn = column("Options", "{.options[:]}");

impl HostSpec for MountSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let MountSpec { source, target, r#type, options } = self;
        let options = options.iter().map(String::as_str);
        Ok(vec![Setting::Mount(Mount::parse(target, r#type, source, options)?)])
    }

    fn of(settings: &[Setting]) -> Self {
        let mount = settings.iter().find_map(|setting| match setting {
            Setting::Mount(mount) => Some(MountSpec {
                source: mount.source().as_str().to_owned(),
                target: mount.target().to_string(),
                r#type: mount.source().kind().to_owned(),
                options: mount.option_words(),
            }),
            _ => None,
        });
        mount.unwrap_or_default()
    }
}

/// A status for each resource, with its identifier, and for each other mount, with its target.
fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let is_of_a_resource = |observed: &&Observed| {
        let mut settings = report.wanted.iter().flat_map(|wanted| &wanted.settings);
        settings.any(|setting| setting.name() == observed.name)
    };
    let others = report.observed.iter().filter(|observed| !is_of_a_resource(observed));
    let others = others.filter_map(other);
    others.chain(report.wanted.iter().map(|wanted| status(report, wanted))).collect()
}

fn status(report: &Report, wanted: &Wanted) -> (String, Spec) {
    let spec = MountSpec::of(&wanted.settings);
    let observed = wanted.settings.iter().find_map(|setting| report.observed(&setting.name()));
    let status = MountStatusSpec {
        set_by: observed.map(source).unwrap_or_default(),
        mounted: report.is_set(wanted),
        error: report.error(wanted),
        version: wanted.version.clone(),
        ..of(spec)
    };
    (wanted.id.clone(), spec::both(&status))
}

/// The status of a mount that no resource asks for.
fn other(observed: &Observed) -> Option<(String, Spec)> {
    let SettingName::Mount(target) = &observed.name else { return None };
    let mounted = Setting::parse(&format!("{} {}", observed.name, observed.current));
    let spec = match &mounted {
        Ok(mounted) => MountSpec::of(std::slice::from_ref(mounted)),
        Err(_) => MountSpec { target: target.to_string(), ..MountSpec::default() },
    };
    let status = MountStatusSpec {
        set_by: source(observed),
        mounted: mounted.is_ok(),
        error: observed.error.clone(),
        ..of(spec)
    };
    Some((target.to_string(), spec::both(&status)))
}

fn of(MountSpec { source, target, r#type, options }: MountSpec) -> MountStatusSpec {
    MountStatusSpec { source, target, r#type, options, ..MountStatusSpec::default() }
}

fn source(observed: &Observed) -> String {
    observed.source.map_or("", |source| source.name()).to_owned()
}
