//! `ClusterJoins.osbuild`: the cluster that the node joins. The token is kept apart from both forms
//! of the spec.

use super::certificates;
use super::spec;
use super::{ERROR, NODE, Report, SOURCE, SettingType, column, names, time};
use crate::access::Role;
use osbuild_cosi::v1::{ClusterJoinSpec, ClusterJoinStatusSpec};
use osbuild_protocol::{
    Authorities, BootstrapToken, ClusterDomain, ClusterJoin, REDACTED, Readiness, Refusal,
    RefusalCode, Secret, ServerUrl, Setting, SettingName,
};
use osbuild_resources::{PrintColumn, Secrets, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("ClusterJoins", "ClusterJoin"),
    columns: &[SERVER],
    status_names: names("ClusterJoinStatuses", "ClusterJoinStatus"),
    status_columns: &[
        SERVER,
        column("Ready", "{.ready}"),
        column("Certificate until", "{.certificateUntil}"),
        SOURCE,
        ERROR,
    ],
    // The administrators of the cluster run any pod on the node.
    writer: Role::Admin,
    // The node API is reached as before, and its Node object stays after a try.
    may_disconnect: false,
    read,
    write,
    subject: |_| "the cluster".to_owned(),
    conflict: |_| None,
    covers: |name| *name == SettingName::ClusterJoin,
    statuses,
};

const SERVER: PrintColumn = column("Server", "{.server}");

/// The secret field.
const TOKEN: &str = "token";

fn read(spec: &Spec) -> Result<Vec<Setting>, String> {
    let settings = |message| setting(message, &spec.secrets).map_err(|refusal| refusal.reason);
    spec::read_settings(spec, settings)
}

fn setting(message: ClusterJoinSpec, secrets: &Secrets) -> Result<Vec<Setting>, Refusal> {
    let ClusterJoinSpec { server, certificate_authority, token, dns, domain } = message;
    let authorities = Authorities::from_pem(&certificate_authority)?;
    certificates::check_authorities("certificateAuthority", &authorities)?;
    let kept = secrets.reveal(TOKEN).filter(|_| token == REDACTED);
    let token = Secret::new(kept.map_or(token, str::to_owned));
    let token = Some(token.reveal()).filter(|token| !token.is_empty());
    let domain = Some(domain.as_str()).filter(|domain| !domain.is_empty());
    let address = |text: &String| {
        text.parse().map_err(|_| {
            let start: String = text.chars().take(64).collect();
            Refusal::new(RefusalCode::Malformed, format!("`{start}` is not an IP address"))
        })
    };
    let join = ClusterJoin::new(
        ServerUrl::parse(&server)?,
        authorities,
        token.map(BootstrapToken::parse).transpose()?,
        dns.iter().map(address).collect::<Result<_, _>>()?,
        domain.map(ClusterDomain::parse).transpose()?.unwrap_or_default(),
    )?;
    Ok(vec![Setting::ClusterJoin(join)])
}

fn write(settings: &[Setting]) -> Spec {
    let Some(join) = join(settings) else { return Spec::default() };
    let mut secrets = Secrets::default();
    if let Some(token) = join.token() {
        secrets.insert(TOKEN, token.reveal());
    }
    let domain = Some(join.domain()).filter(|domain| **domain != ClusterDomain::default());
    let message = ClusterJoinSpec {
        server: join.server().to_string(),
        certificate_authority: join.authority().to_pem(),
        token: join.token().map(|_| REDACTED.to_owned()).unwrap_or_default(),
        dns: join.dns().iter().map(ToString::to_string).collect(),
        domain: domain.map(ToString::to_string).unwrap_or_default(),
    };
    Spec { secrets, ..spec::both(&message) }
}

fn join(settings: &[Setting]) -> Option<&ClusterJoin> {
    settings.iter().find_map(|setting| match setting {
        Setting::ClusterJoin(join) => Some(join),
        _ => None,
    })
}

fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let [error, resource, version] = report.only();
    let observed = report.observed(&SettingName::ClusterJoin);
    // A cluster of the node document has no resource, so the error comes from the host.
    let error = match (error.is_empty(), observed) {
        (true, Some(observed)) => observed.error.clone(),
        _ => error,
    };
    let mut status = ClusterJoinStatusSpec { error, resource, version, ..Default::default() };
    if let Some(observed) = observed {
        status.source = observed.source.map_or("", |source| source.name()).to_owned();
        for word in observed.current.split(' ') {
            match word.split_once('=').unwrap_or_default() {
                ("server", server) => server.clone_into(&mut status.server),
                ("dns", list) => status.dns = list.split(',').map(str::to_owned).collect(),
                ("domain", domain) => domain.clone_into(&mut status.domain),
                _ => {}
            }
        }
        if !status.server.is_empty() && status.domain.is_empty() {
            status.domain = ClusterDomain::default().to_string();
        }
    }
    if let Some(state) = report.cluster {
        status.certificate_until = state.certificate_until.map(time).unwrap_or_default();
        let (ready, reason) = match &state.readiness {
            Readiness::Unknown => ("Unknown", ""),
            Readiness::Ready => ("True", ""),
            Readiness::NotReady(reason) => ("False", reason.as_str()),
        };
        (status.ready, status.reason) = (ready.to_owned(), reason.to_owned());
    }
    BTreeMap::from([(NODE.to_owned(), spec::both(&status))])
}

#[cfg(test)]
mod tests {
    use super::*;

    use osbuild_protocol::{ClusterState, Observed};
    use osbuild_ranks::Source;

    fn report<'a>(
        observed: &'a [Observed],
        errors: &'a BTreeMap<SettingName, String>,
        cluster: Option<&'a ClusterState>,
    ) -> Report<'a> {
        Report { wanted: &[], observed, errors, pods: &[], wireguard: &[], cluster }
    }

    #[test]
    fn a_status_has_the_server_the_certificate_and_the_answer_of_the_cluster() {
        let current = "server=https://a:6443 ca=MIIB token=(hidden) dns=10.96.0.10";
        let observed = [Observed {
            name: SettingName::ClusterJoin,
            wanted: None,
            source: Some(Source::Document),
            current: current.to_owned(),
            error: String::new(),
        }];
        let readiness = Readiness::NotReady("no CNI".to_owned());
        let state = ClusterState { certificate_until: Some(1_790_000_000), readiness };
        let errors = BTreeMap::new();
        let statuses = (TYPE.statuses)(&report(&observed, &errors, Some(&state)));
        assert_eq!(
            statuses[NODE].yaml,
            "server: https://a:6443\ndns:\n- \"10.96.0.10\"\ndomain: cluster.local\n\
             certificateUntil: \"2026-09-21T14:13:20Z\"\nready: \"False\"\nreason: no CNI\n\
             source: document\n"
        );
        let statuses = (TYPE.statuses)(&report(&[], &errors, None));
        assert_eq!(statuses[NODE].yaml, "server: \"\"\nsource: \"\"\n");
    }
}
