//! `RegistryCredentials.osbuild`: what the node sends to hosts that serve images. The password or
//! the token is kept apart from both forms of the spec.

use super::spec;
use super::{ERROR, Report, SET, SET_BY, SettingType, Wanted, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{RegistryCredentialSpec, RegistryCredentialStatusSpec};
use osbuild_protocol::{
    Observed, REDACTED, Refusal, RegistryCredential, RegistryLogin, RegistryName, Secret, Setting,
    SettingName,
};
use osbuild_resources::{PrintColumn, Secrets, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("RegistryCredentials", "RegistryCredential"),
    columns: &[REGISTRY, USERNAME],
    status_names: names("RegistryCredentialStatuses", "RegistryCredentialStatus"),
    status_columns: &[REGISTRY, USERNAME, SET, SET_BY, ERROR],
    // Every pod of the node gets the images that the credentials are good for.
    writer: Role::Admin,
    may_disconnect: false,
    read,
    write,
    subject: |settings| match credential(settings) {
        Some(one) => format!("the credentials of `{}`", one.registry()),
        None => String::new(),
    },
    conflict: |_| None,
    covers: |name| matches!(name, SettingName::RegistryCredential(_)),
    statuses,
};

const REGISTRY: PrintColumn = column("Registry", "{.registry}");
const USERNAME: PrintColumn = column("Username", "{.username}");

/// The secret fields.
const PASSWORD: &str = "password";
const TOKEN: &str = "token";

fn read(spec: &Spec) -> Result<Vec<Setting>, String> {
    let settings = |message| setting(message, &spec.secrets).map_err(|refusal| refusal.reason);
    spec::read_settings(spec, settings)
}

fn setting(message: RegistryCredentialSpec, secrets: &Secrets) -> Result<Vec<Setting>, Refusal> {
    let RegistryCredentialSpec { registry, username, password, token, plain_http } = message;
    let username = (!username.is_empty()).then_some(username);
    let [password, token] = [(PASSWORD, password), (TOKEN, token)].map(|(field, written)| {
        let kept = secrets.reveal(field).filter(|_| written == REDACTED);
        let secret = Secret::new(kept.map_or(written, str::to_owned));
        Some(secret).filter(|secret| !secret.reveal().is_empty())
    });
    let login = RegistryLogin::of(username, password, token)?;
    let registry = RegistryName::parse(&registry)?;
    Ok(vec![Setting::RegistryCredential(RegistryCredential::new(registry, login, plain_http)?)])
}

fn write(settings: &[Setting]) -> Spec {
    let Some(one) = credential(settings) else { return Spec::default() };
    let mut message = RegistryCredentialSpec {
        registry: one.registry().to_string(),
        plain_http: one.is_plain_http(),
        ..RegistryCredentialSpec::default()
    };
    let mut secrets = Secrets::default();
    match one.login() {
        RegistryLogin::Basic { username, password } => {
            username.clone_into(&mut message.username);
            message.password = password.to_string();
            secrets.insert(PASSWORD, password.reveal());
        }
        RegistryLogin::Bearer(token) => {
            message.token = token.to_string();
            secrets.insert(TOKEN, token.reveal());
        }
    }
    Spec { secrets, ..spec::both(&message) }
}

fn credential(settings: &[Setting]) -> Option<&RegistryCredential> {
    settings.iter().find_map(|setting| match setting {
        Setting::RegistryCredential(one) => Some(one),
        _ => None,
    })
}

/// A status for each resource, with its identifier, and for each other host, with its name.
fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let others = report.others(TYPE.covers).filter_map(other);
    others.chain(report.wanted.iter().map(|wanted| status(report, wanted))).collect()
}

fn status(report: &Report, wanted: &Wanted) -> (String, Spec) {
    let observed = wanted.settings.iter().find_map(|setting| report.observed(&setting.name()));
    let one = credential(&wanted.settings);
    let status = RegistryCredentialStatusSpec {
        registry: one.map(|one| one.registry().to_string()).unwrap_or_default(),
        username: one.map(username).unwrap_or_default(),
        set: report.is_set(wanted),
        set_by: observed.map(source).unwrap_or_default(),
        error: report.error(wanted),
        version: wanted.version.clone(),
    };
    (wanted.id.clone(), spec::both(&status))
}

/// The status of credentials that no resource asks for.
fn other(observed: &Observed) -> Option<(String, Spec)> {
    let SettingName::RegistryCredential(registry) = &observed.name else { return None };
    let username = observed.current.split(' ').find_map(|word| word.strip_prefix("user="));
    let status = RegistryCredentialStatusSpec {
        registry: registry.to_string(),
        username: username.unwrap_or_default().to_owned(),
        set: !observed.current.is_empty(),
        set_by: source(observed),
        error: observed.error.clone(),
        version: String::new(),
    };
    Some((registry.to_string(), spec::both(&status)))
}

fn username(one: &RegistryCredential) -> String {
    match one.login() {
        RegistryLogin::Basic { username, .. } => username.clone(),
        RegistryLogin::Bearer(_) => String::new(),
    }
}

fn source(observed: &Observed) -> String {
    observed.source.map_or("", |source| source.name()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(text: &str) -> Spec {
        Spec { yaml: text.to_owned(), ..Spec::default() }
    }

    #[test]
    fn no_form_of_a_spec_has_the_secret() {
        for text in
            ["{registry: a, username: b, password: hunter2}", "{registry: a, token: hunter2}"]
        {
            let spec = write(&read(&yaml(text)).unwrap());
            assert!(!String::from_utf8_lossy(&spec.proto).contains("hunter2"));
            assert!(
                !spec.yaml.contains("hunter2") && spec.yaml.contains(REDACTED),
                "{}",
                spec.yaml
            );
            assert!(!format!("{spec:?}").contains("hunter2"));
            assert_eq!(
                spec.secrets.reveal_all().map(|(_, value)| value).collect::<Vec<_>>(),
                ["hunter2"]
            );
        }
    }

    #[test]
    fn no_reason_of_a_refusal_has_the_secret() {
        for text in [
            "{registry: a, password: hunter2}",
            "{registry: a, username: b, password: [hunter2]}",
            "{registry: a, username: b, password: {hunter2: c}}",
            "{registry: a, username: b, pasword: hunter2}",
            "{registry: a, username: 'b:c', password: hunter2}",
            "{registry: a, username: b, password: hunter2, token: c}",
            "{registry: A, username: b, password: hunter2}",
            "{registry: a, token: 'hunter2 c'}",
            "{registry: a, token: hunter2, plainHttp: true}",
            "{registry: a, token: hunter2",
        ] {
            let reason = read(&yaml(text)).unwrap_err();
            assert!(!reason.contains("hunter2"), "{text}: {reason}");
        }
        let message = write(&read(&yaml("{registry: a, token: hunter2}")).unwrap());
        let both = Spec { yaml: "{registry: a, token: hunter3}".to_owned(), ..message };
        let reason = read(&both).unwrap_err();
        assert!(!reason.contains("hunter"), "{reason}");
    }
}
