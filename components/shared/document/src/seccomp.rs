//! Seccomp profiles for pods: `[[seccomp-profiles]]`. Their names and values are those of the specs
//! of `osbuild.v1`.

use crate::bounded::bounded;
use osbuild_protocol::{
    MAX_PROFILES, Refusal, SeccompAction, SeccompArgument, SeccompFilter, SeccompName, SeccompRule,
};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Entry {
    name: String,
    default_action: String,
    default_errno_ret: Option<u32>,
    #[serde(default)]
    architectures: Vec<String>,
    #[serde(default)]
    syscalls: Vec<Syscalls>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Syscalls {
    names: Vec<String>,
    action: String,
    errno_ret: Option<u32>,
    #[serde(default)]
    args: Vec<Argument>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Argument {
    index: u32,
    value: u64,
    #[serde(default)]
    value_two: u64,
    op: String,
}

impl Entry {
    fn filter(&self) -> Result<SeccompFilter, Refusal> {
        let name = SeccompName::parse(&self.name)?;
        let default = SeccompAction::parse(&self.default_action, self.default_errno_ret)?;
        let rules = self.syscalls.iter().map(Syscalls::rule).collect::<Result<_, _>>()?;
        let architectures = self.architectures.iter().map(String::as_str);
        SeccompFilter::new(name, default, architectures, rules)
    }
}

impl Syscalls {
    fn rule(&self) -> Result<SeccompRule, Refusal> {
        let action = SeccompAction::parse(&self.action, self.errno_ret)?;
        let arguments = self.args.iter();
        let arguments = arguments
            .map(|one| SeccompArgument::new(one.index, one.value, one.value_two, &one.op))
            .collect::<Result<_, _>>()?;
        SeccompRule::new(self.names.iter().map(String::as_str), action, arguments)
    }
}

/// Reads profiles, of which no two have the same name.
pub fn profiles<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<SeccompFilter>, D::Error> {
    let mut profiles: Vec<SeccompFilter> = Vec::new();
    for entry in Vec::<Entry>::deserialize(deserializer)? {
        let profile = entry.filter().map_err(|refusal| D::Error::custom(refusal.reason))?;
        if profiles.iter().any(|other| other.name() == profile.name()) {
            let name = profile.name();
            return Err(D::Error::custom(format!("the seccomp profile `{name}` is there twice")));
        }
        profiles.push(profile);
    }
    bounded(profiles, MAX_PROFILES, "seccomp profiles")
}
