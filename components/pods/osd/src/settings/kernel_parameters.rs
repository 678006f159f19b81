//! `KernelParameters.osbuild`: parameters of the kernel.

use super::registered::{Registered, registered};
use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET_BY, SettingType, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{KernelParameterSpec, KernelParameterStatusSpec};
use osbuild_protocol::{KernelParameter, Refusal, Setting, SettingName};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("KernelParameters", "KernelParameter"),
    columns: &[KEY, VALUE],
    status_names: names("KernelParameterStatuses", "KernelParameterStatus"),
    status_columns: &[KEY, VALUE, column("Current", "{.current}"), SET_BY, ERROR],
    writer: Role::Admin,
    may_disconnect: false,
    read: spec::read::<KernelParameterSpec>,
    write: spec::write::<KernelParameterSpec>,
    subject: |settings| format!("`{}`", KernelParameterSpec::of(settings).key),
    conflict: |_| None,
    covers: |name| matches!(name, SettingName::KernelParameter(_)),
    statuses,
};

const KEY: PrintColumn = column("Key", "{.key}");
const VALUE: PrintColumn = column("Value", "{.value}");

impl HostSpec for KernelParameterSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        Ok(vec![Setting::KernelParameter(KernelParameter::parse(&self.key, &self.value)?)])
    }

    fn of(settings: &[Setting]) -> Self {
        let parameter = settings.iter().find_map(|setting| match setting {
            Setting::KernelParameter(KernelParameter { key, value }) => {
                Some(KernelParameterSpec { key: key.to_string(), value: value.to_string() })
            }
            _ => None,
        });
        parameter.unwrap_or_default()
    }
}

/// A status for each resource, with its identifier, and for each other parameter, with its name.
fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let all = registered(report, |name| {
        let SettingName::KernelParameter(key) = name else { return None };
        let spec = KernelParameterSpec { key: key.to_string(), ..KernelParameterSpec::default() };
        Some((key.to_string(), spec))
    });
    all.into_iter().map(|(id, found)| (id, spec::both(&shown(found)))).collect()
}

fn shown(found: Registered<KernelParameterSpec>) -> KernelParameterStatusSpec {
    let Registered { spec, current, set_by, error, version, .. } = found;
    let KernelParameterSpec { key, value } = spec;
    // Without a resource it is the kernel's.
    let value = if version.is_empty() { String::new() } else { value };
    KernelParameterStatusSpec { key, value, current, error, version, set_by }
}
