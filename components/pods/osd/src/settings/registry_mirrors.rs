//! `RegistryMirrors.osbuild`: from where the node pulls the images of a registry.

use super::certificates;
use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET, SET_BY, SettingType, Wanted, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{RegistryHost, RegistryMirrorSpec, RegistryMirrorStatusSpec};
use osbuild_protocol::{
    Authorities, MirrorHost, Observed, Refusal, RefusalCode, RegistryMirror, RegistryName,
    RegistryUrl, Setting, SettingName,
};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("RegistryMirrors", "RegistryMirror"),
    columns: &[REGISTRY, MIRRORS, SERVER],
    status_names: names("RegistryMirrorStatuses", "RegistryMirrorStatus"),
    status_columns: &[REGISTRY, MIRRORS, SERVER, SET, SET_BY, ERROR],
    // A mirror that resolves tags chooses the programs that pods run.
    writer: Role::Admin,
    may_disconnect: false,
    read: spec::read::<RegistryMirrorSpec>,
    write: spec::write::<RegistryMirrorSpec>,
    subject: |settings| format!("the mirrors of `{}`", RegistryMirrorSpec::of(settings).registry),
    conflict: |_| None,
    covers: |name| matches!(name, SettingName::RegistryMirror(_)),
    statuses,
};

const REGISTRY: PrintColumn = column("Registry", "{.registry}");
const MIRRORS: PrintColumn = column("Mirrors", "{.mirrors[:].url}");
const SERVER: PrintColumn = column("Server", "{.server}");

impl HostSpec for RegistryMirrorSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let RegistryMirrorSpec { registry, mirrors, server, certificate_authority } = self;
        let mirrors = mirrors.iter().map(|RegistryHost { url, capabilities }| {
            MirrorHost::parse(url, capabilities.iter().map(String::as_str))
        });
        let mirror = RegistryMirror::new(
            RegistryName::parse(registry)?,
            mirrors.collect::<Result<_, _>>()?,
            (!server.is_empty()).then(|| RegistryUrl::parse(server)).transpose()?,
            authorities(certificate_authority)?,
        )?;
        Ok(vec![Setting::RegistryMirror(mirror)])
    }

    fn of(settings: &[Setting]) -> Self {
        let mirror = settings.iter().find_map(|setting| match setting {
            Setting::RegistryMirror(mirror) => Some(RegistryMirrorSpec {
                registry: mirror.registry().to_string(),
                mirrors: mirror.mirrors().iter().map(host).collect(),
                server: mirror.server().map(ToString::to_string).unwrap_or_default(),
                certificate_authority: mirror.authorities().to_pem(),
            }),
            _ => None,
        });
        mirror.unwrap_or_default()
    }
}

/// Reads certificates, which `init` does not.
fn authorities(pem: &str) -> Result<Authorities, Refusal> {
    if pem.is_empty() {
        return Ok(Authorities::default());
    }
    let authorities = Authorities::from_pem(pem)?;
    match certificates::read(&authorities) {
        Ok(_) => Ok(authorities),
        Err(error) => {
            let reason = format!("`certificateAuthority` has no X.509 certificates: {error}");
            Err(Refusal::new(RefusalCode::Malformed, reason))
        }
    }
}

fn host(host: &MirrorHost) -> RegistryHost {
    let capabilities = match host.resolves {
        true => Vec::new(),
        false => host.capabilities().iter().map(ToString::to_string).collect(),
    };
    RegistryHost { url: host.url.to_string(), capabilities }
}

/// A status for each resource, with its identifier, and for each other registry, with its name.
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
    let observed = wanted.settings.iter().find_map(|setting| report.observed(&setting.name()));
    let status = RegistryMirrorStatusSpec {
        set: report.is_set(wanted),
        set_by: observed.map(source).unwrap_or_default(),
        error: report.error(wanted),
        version: wanted.version.clone(),
        ..of(&wanted.settings)
    };
    (wanted.id.clone(), spec::both(&status))
}

/// The status of mirrors that no resource asks for.
fn other(observed: &Observed) -> Option<(String, Spec)> {
    let SettingName::RegistryMirror(registry) = &observed.name else { return None };
    let current = Setting::parse(&format!("{} {}", observed.name, observed.current));
    let status = RegistryMirrorStatusSpec {
        registry: registry.to_string(),
        set: current.is_ok(),
        set_by: source(observed),
        error: observed.error.clone(),
        ..current.map(|current| of(&[current])).unwrap_or_default()
    };
    Some((registry.to_string(), spec::both(&status)))
}

fn of(settings: &[Setting]) -> RegistryMirrorStatusSpec {
    let RegistryMirrorSpec { registry, mirrors, server, .. } = RegistryMirrorSpec::of(settings);
    let authorities = settings.iter().map(|setting| match setting {
        Setting::RegistryMirror(mirror) => mirror.authorities().len(),
        _ => 0,
    });
    RegistryMirrorStatusSpec {
        registry,
        mirrors,
        server,
        authorities: authorities.sum::<usize>().try_into().unwrap_or(u32::MAX),
        ..RegistryMirrorStatusSpec::default()
    }
}

fn source(observed: &Observed) -> String {
    observed.source.map_or("", |source| source.name()).to_owned()
}
