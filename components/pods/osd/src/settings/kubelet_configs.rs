//! `KubeletConfigs.osbuild`: fields of the kubelet's configuration.

use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET_BY, SettingType, Wanted, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{KubeletConfigSpec, KubeletConfigStatusSpec};
use osbuild_protocol::{
    KubeletField, KubeletKey, KubeletValue, Observed, Refusal, RefusalCode, Setting, SettingName,
};
use osbuild_resources::{PrintColumn, Spec};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("KubeletConfigs", "KubeletConfig"),
    columns: &[MAX_PODS],
    status_names: names("KubeletConfigStatuses", "KubeletConfigStatus"),
    status_columns: &[
        column("Field", "{.field}"),
        column("Value", "{.value}"),
        column("Current", "{.current}"),
        SET_BY,
        ERROR,
    ],
    // Thresholds decide which pods are evicted, and reservations whether the kubelet starts.
    writer: Role::Admin,
    may_disconnect: false,
    read: spec::read::<KubeletConfigSpec>,
    write: spec::write::<KubeletConfigSpec>,
    subject: |_| "the kubelet's configuration".to_owned(),
    conflict: |_| None,
    covers: |name| matches!(name, SettingName::Kubelet(_)),
    statuses,
};

const MAX_PODS: PrintColumn = column("Max pods", "{.maxPods}");

impl HostSpec for KubeletConfigSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let Ok(Value::Object(spec)) = serde_json::to_value(self) else { return Ok(Vec::new()) };
        let mut fields = Vec::new();
        for (name, value) in &spec {
            match value {
                Value::Object(values) => {
                    for (key, value) in values {
                        fields.push(KubeletField::parse(&format!("{name}.{key}"), &word(value))?);
                    }
                }
                value => fields.push(KubeletField::parse(name, &word(value))?),
            }
        }
        if fields.is_empty() {
            return Err(Refusal::new(RefusalCode::Malformed, "there is no field"));
        }
        KubeletField::check(&fields)?;
        Ok(fields.into_iter().map(Setting::Kubelet).collect())
    }

    fn of(settings: &[Setting]) -> Self {
        let mut spec = Map::new();
        for setting in settings {
            let Setting::Kubelet(field) = setting else { continue };
            let value = match field.scalar() {
                KubeletValue::Number(number) => json!(number),
                KubeletValue::Flag(flag) => json!(flag),
                KubeletValue::Text(text) => json!(text),
            };
            match field.key().parts() {
                (name, Some(key)) => spec.entry(name).or_insert_with(|| json!({}))[key] = value,
                (name, None) => drop(spec.insert(name.to_owned(), value)),
            }
        }
        // The message has all fields that a setting has: a test goes through them.
        serde_json::from_value(Value::Object(spec)).unwrap_or_default()
    }
}

/// A value as a word.
fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A status for each field, with its path.
fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let mut statuses = BTreeMap::new();
    for observed in report.observed {
        if let SettingName::Kubelet(key) = &observed.name {
            statuses.insert(key.to_string(), of_observed(key, observed));
        }
    }
    for wanted in report.wanted {
        let Wanted { id, version, settings, unreadable } = wanted;
        if unreadable.is_some() {
            let (error, version) = (report.error(wanted), version.clone());
            let status = KubeletConfigStatusSpec { error, version, ..Default::default() };
            statuses.insert(id.clone(), status);
        }
        for setting in settings {
            let Setting::Kubelet(field) = setting else { continue };
            let status = statuses.entry(field.key().to_string());
            let status = status.or_insert_with(|| of_key(field.key()));
            status.value = field.value().to_owned();
            status.version = version.clone();
            if let Some(error) = report.errors.get(&setting.name()) {
                status.error = error.clone();
            }
        }
    }
    statuses.iter().map(|(id, status)| (id.clone(), spec::both(status))).collect()
}

fn of_observed(key: &KubeletKey, observed: &Observed) -> KubeletConfigStatusSpec {
    KubeletConfigStatusSpec {
        current: observed.current.clone(),
        set_by: observed.source.map_or("", |source| source.name()).to_owned(),
        error: observed.error.clone(),
        ..of_key(key)
    }
}

fn of_key(key: &KubeletKey) -> KubeletConfigStatusSpec {
    KubeletConfigStatusSpec { field: key.to_string(), ..KubeletConfigStatusSpec::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value of each form.
    const VALUES: [&str; 9] = ["50", "500", "true", "static", "pod", "none", "30s", "10Mi", "10%"];
    const KEYS: [&str; 2] = ["memory.available", "memory"];

    #[test]
    fn the_message_has_every_field_that_a_setting_has() {
        for name in KubeletKey::FIELDS {
            let paths = KEYS.map(|key| format!("{name}.{key}"));
            let paths = paths.iter().map(String::as_str).chain([*name]);
            let path = paths.into_iter().find(|path| KubeletKey::parse(path).is_ok()).unwrap();
            let mut read = VALUES.iter().filter_map(|value| KubeletField::parse(path, value).ok());
            let settings = vec![Setting::Kubelet(read.next().unwrap())];
            let spec = KubeletConfigSpec::of(&settings);
            assert_ne!(spec, KubeletConfigSpec::default(), "{path}");
            if *name != "evictionSoft" {
                assert_eq!(spec.settings(), Ok(settings));
            }
        }
    }
}
