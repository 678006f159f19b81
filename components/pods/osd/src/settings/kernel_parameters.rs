//! `KernelParameters.osbuild`: parameters of the kernel.

use super::spec::{self, HostSpec};
use super::{ERROR, Report, SettingType, Wanted, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{KernelParameterSpec, KernelParameterStatusSpec};
use osbuild_protocol::{KernelParameter, Refusal, Setting, SettingName};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("KernelParameters", "KernelParameter"),
    columns: &[KEY, VALUE],
    status_names: names("KernelParameterStatuses", "KernelParameterStatus"),
    status_columns: &[KEY, VALUE, column("Current", "{.current}"), ERROR],
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

/// A status for each resource, with its identifier.
fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let status = |wanted: &Wanted| {
        let KernelParameterSpec { key, value } = KernelParameterSpec::of(&wanted.settings);
        let current = wanted.settings.iter().find_map(|setting| report.observed(&setting.name()));
        let status = KernelParameterStatusSpec {
            key,
            value,
            current: current.map_or_else(String::new, |observed| observed.current.clone()),
            error: report.error(wanted),
            version: wanted.version.clone(),
        };
        (wanted.id.clone(), spec::both(&status))
    };
    report.wanted.iter().map(status).collect()
}
