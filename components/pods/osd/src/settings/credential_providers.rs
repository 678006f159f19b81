//! `CredentialProviders.osbuild`: programs that give the kubelet the credentials of registries.

use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET, SET_BY, SettingType, Wanted, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{
    CredentialProviderSpec, CredentialProviderStatusSpec, CredentialProviderVariable,
};
use osbuild_protocol::{
    CredentialProvider, Observed, ProviderName, ProviderOptions, Refusal, Setting, SettingName,
};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("CredentialProviders", "CredentialProvider"),
    columns: &[NAME, IMAGES],
    status_names: names("CredentialProviderStatuses", "CredentialProviderStatus"),
    status_columns: &[NAME, IMAGES, SET, SET_BY, ERROR],
    // The kubelet executes the program as root.
    writer: Role::Admin,
    may_disconnect: false,
    read: spec::read::<CredentialProviderSpec>,
    write: spec::write::<CredentialProviderSpec>,
    subject: |settings| {
        format!("the credential provider `{}`", CredentialProviderSpec::of(settings).name)
    },
    conflict: |_| None,
    covers: |name| matches!(name, SettingName::CredentialProvider(_)),
    statuses,
};

const NAME: PrintColumn = column("Name", "{.name}");
const IMAGES: PrintColumn = column("Images", "{.matchImages[:]}");

impl HostSpec for CredentialProviderSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let variable = |one: &CredentialProviderVariable| (one.name.clone(), one.value.clone());
        let options = ProviderOptions {
            images: self.match_images.clone(),
            cache: self.default_cache_duration.clone(),
            api_version: self.api_version.clone(),
            arguments: self.args.clone(),
            variables: self.env.iter().map(variable).collect(),
        };
        let provider = CredentialProvider::new(ProviderName::parse(&self.name)?, options)?;
        Ok(vec![Setting::CredentialProvider(provider)])
    }

    fn of(settings: &[Setting]) -> Self {
        let Some(provider) = provider(settings) else { return Self::default() };
        let options = provider.options().clone();
        let variable = |(name, value)| CredentialProviderVariable { name, value };
        Self {
            name: provider.name().to_string(),
            match_images: options.images,
            default_cache_duration: options.cache,
            api_version: options.api_version,
            args: options.arguments,
            env: options.variables.into_iter().map(variable).collect(),
        }
    }
}

fn provider(settings: &[Setting]) -> Option<&CredentialProvider> {
    settings.iter().find_map(|setting| match setting {
        Setting::CredentialProvider(provider) => Some(provider),
        _ => None,
    })
}

/// A status for each resource, with its identifier, and for each other name.
fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let others = report.others(TYPE.covers).filter_map(other);
    others.chain(report.wanted.iter().map(|wanted| status(report, wanted))).collect()
}

fn status(report: &Report, wanted: &Wanted) -> (String, Spec) {
    let observed = wanted.settings.iter().find_map(|setting| report.observed(&setting.name()));
    let CredentialProviderSpec { name, match_images, .. } =
        CredentialProviderSpec::of(&wanted.settings);
    let status = CredentialProviderStatusSpec {
        name,
        match_images,
        set: report.is_set(wanted),
        set_by: observed.map(source).unwrap_or_default(),
        error: report.error(wanted),
        version: wanted.version.clone(),
    };
    (wanted.id.clone(), spec::both(&status))
}

/// The status of a provider that no resource asks for.
fn other(observed: &Observed) -> Option<(String, Spec)> {
    let SettingName::CredentialProvider(name) = &observed.name else { return None };
    let current = Setting::parse(&format!("{} {}", observed.name, observed.current)).ok();
    let status = CredentialProviderStatusSpec {
        name: name.to_string(),
        match_images: CredentialProviderSpec::of(current.as_slice()).match_images,
        set: current.is_some(),
        set_by: source(observed),
        error: observed.error.clone(),
        version: String::new(),
    };
    Some((name.to_string(), spec::both(&status)))
}

fn source(observed: &Observed) -> String {
    observed.source.map_or("", |source| source.name()).to_owned()
}
