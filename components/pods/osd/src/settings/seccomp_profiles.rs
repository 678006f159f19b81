//! `SeccompProfiles.osbuild`: which system calls containers of pods that name a profile may make.

use super::registered::{Registered, registered};
use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET, SET_BY, SettingType, column, names};
use crate::access::Role;
use osbuild_abi::paths::SECCOMP_LINK;
use osbuild_cosi::v1::{
    SeccompArgument as Argument, SeccompProfileSpec, SeccompProfileStatusSpec, SeccompSyscalls,
};
use osbuild_protocol::{
    Refusal, SeccompAction, SeccompArgument, SeccompFilter, SeccompName, SeccompRule, Setting,
    SettingName,
};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("SeccompProfiles", "SeccompProfile"),
    columns: &[NAME, column("Default action", "{.defaultAction}")],
    status_names: names("SeccompProfileStatuses", "SeccompProfileStatus"),
    status_columns: &[NAME, column("Localhost profile", "{.localhostProfile}"), SET, SET_BY, ERROR],
    // One that allows everything takes a protection from the pods that name it.
    writer: Role::Admin,
    may_disconnect: false,
    read: spec::read::<SeccompProfileSpec>,
    write: spec::write::<SeccompProfileSpec>,
    subject: |settings| format!("the seccomp profile `{}`", SeccompProfileSpec::of(settings).name),
    conflict: |_| None,
    covers: |name| matches!(name, SettingName::SeccompProfile(_)),
    statuses,
};

const NAME: PrintColumn = column("Name", "{.name}");

impl HostSpec for SeccompProfileSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let name = SeccompName::parse(&self.name)?;
        let default = SeccompAction::parse(&self.default_action, self.default_errno_ret)?;
        let rules = self.syscalls.iter().map(rule).collect::<Result<_, _>>()?;
        let architectures = self.architectures.iter().map(String::as_str);
        let profile = SeccompFilter::new(name, default, architectures, rules)?;
        Ok(vec![Setting::SeccompProfile(profile)])
    }

    fn of(settings: &[Setting]) -> Self {
        let spec = settings.iter().find_map(|setting| match setting {
            Setting::SeccompProfile(profile) => Some(SeccompProfileSpec {
                name: profile.name().to_string(),
                default_action: profile.default().oci(),
                default_errno_ret: profile.default().errno(),
                architectures: profile.architectures().collect(),
                syscalls: profile.rules().iter().map(syscalls).collect(),
            }),
            _ => None,
        });
        spec.unwrap_or_default()
    }
}

fn rule(message: &SeccompSyscalls) -> Result<SeccompRule, Refusal> {
    let action = SeccompAction::parse(&message.action, message.errno_ret)?;
    let arguments = message.args.iter();
    let arguments =
        arguments.map(|one| SeccompArgument::new(one.index, one.value, one.value_two, &one.op));
    SeccompRule::new(
        message.names.iter().map(String::as_str),
        action,
        arguments.collect::<Result<_, _>>()?,
    )
}

fn syscalls(rule: &SeccompRule) -> SeccompSyscalls {
    let args = rule.arguments().iter().map(|one| Argument {
        index: one.index,
        value: one.value,
        value_two: one.value_two,
        op: one.oci(),
    });
    SeccompSyscalls {
        names: rule.names().to_vec(),
        action: rule.action().oci(),
        errno_ret: rule.action().errno(),
        args: args.collect(),
    }
}

fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let all = registered(report, named).into_iter();
    all.map(|(id, Registered { spec, set, set_by, error, version, .. })| {
        let SeccompProfileSpec { name, .. } = spec;
        let folder = SECCOMP_LINK.rsplit('/').next().unwrap_or_default();
        let localhost_profile = format!("{folder}/{name}.json");
        let status =
            SeccompProfileStatusSpec { name, localhost_profile, set, set_by, error, version };
        (id, spec::both(&status))
    })
    .collect()
}

/// The identifier of a profile without a resource, and its spec.
fn named(name: &SettingName) -> Option<(String, SeccompProfileSpec)> {
    let SettingName::SeccompProfile(name) = name else { return None };
    let name = name.to_string();
    Some((name.clone(), SeccompProfileSpec { name, ..SeccompProfileSpec::default() }))
}
