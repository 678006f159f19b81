//! `KernelModules.osbuild`: modules that the kernel has built in, or has not.

use super::registered::{Registered, registered};
use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET_BY, SettingType, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{KernelModuleSpec, KernelModuleStatusSpec};
use osbuild_protocol::{KernelModule, MAX_MODULES, ModuleName, Refusal, Setting, SettingName};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("KernelModules", "KernelModule"),
    columns: &[NAME],
    status_names: names("KernelModuleStatuses", "KernelModuleStatus"),
    status_columns: &[NAME, column("Built in", "{.builtIn}"), SET_BY, ERROR],
    // It changes nothing on the node.
    writer: Role::Operator,
    may_disconnect: false,
    read: spec::read::<KernelModuleSpec>,
    write: spec::write::<KernelModuleSpec>,
    subject: |settings| format!("the kernel module `{}`", KernelModuleSpec::of(settings).name),
    // Each generation has all of them.
    conflict: |settings| (settings.len() > MAX_MODULES).then(too_many),
    covers: |name| matches!(name, SettingName::KernelModule(_)),
    statuses,
};

const NAME: PrintColumn = column("Name", "{.name}");

impl HostSpec for KernelModuleSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let module = KernelModule::new(ModuleName::parse(&self.name)?);
        Ok(vec![Setting::KernelModule(module)])
    }

    fn of(settings: &[Setting]) -> Self {
        let name = settings.iter().find_map(|setting| match setting {
            Setting::KernelModule(module) => Some(module.name().to_string()),
            _ => None,
        });
        KernelModuleSpec { name: name.unwrap_or_default() }
    }
}

fn too_many() -> String {
    format!("there are at most {MAX_MODULES} kernel modules")
}

fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let all = registered(report, named).into_iter();
    all.map(|(id, Registered { spec, set: built_in, set_by, error, version, .. })| {
        let KernelModuleSpec { name } = spec;
        let status = KernelModuleStatusSpec { name, built_in, set_by, error, version };
        (id, spec::both(&status))
    })
    .collect()
}

/// The identifier of a module without a resource, and its spec.
fn named(name: &SettingName) -> Option<(String, KernelModuleSpec)> {
    let SettingName::KernelModule(name) = name else { return None };
    let name = name.to_string();
    Some((name.clone(), KernelModuleSpec { name }))
}
