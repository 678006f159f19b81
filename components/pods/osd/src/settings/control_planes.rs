//! `ControlPlanes.osbuild`: the configuration of the control plane that runs on the node.

use super::spec::{self, HostSpec};
use super::{ERROR, NODE, Report, SET_BY, SettingType, column, names};
use crate::access::Role;
use crate::yaml;
use osbuild_cosi::v1::{ControlPlaneSpec, ControlPlaneStatusSpec};
use osbuild_protocol::{ControlPlane, Refusal, RefusalCode, Setting, SettingName};
use osbuild_resources::Spec;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("ControlPlanes", "ControlPlane"),
    columns: &[],
    status_names: names("ControlPlaneStatuses", "ControlPlaneStatus"),
    status_columns: &[column("Made", "{.made}"), SET_BY, ERROR],
    // The static pods of the control plane may mount any folder of the node.
    writer: Role::Admin,
    // The node API is reached as before.
    may_disconnect: false,
    read: spec::read::<ControlPlaneSpec>,
    write: spec::write::<ControlPlaneSpec>,
    subject: |_| "the control plane".to_owned(),
    conflict: |_| None,
    covers: |name| *name == SettingName::ControlPlane,
    statuses,
};

impl HostSpec for ControlPlaneSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let plane = ControlPlane::parse(&self.configuration)?;
        if let Err(reason) = yaml::read::<Map<String, Value>>(plane.as_str()) {
            let first = reason.lines().next().unwrap_or_default();
            let reason = format!("the configuration of the control plane is not YAML: {first}");
            return Err(Refusal::new(RefusalCode::Malformed, reason));
        }
        Ok(vec![Setting::ControlPlane(plane)])
    }

    fn of(settings: &[Setting]) -> Self {
        let text = settings.iter().find_map(|setting| match setting {
            Setting::ControlPlane(plane) => Some(plane.as_str().to_owned()),
            _ => None,
        });
        ControlPlaneSpec { configuration: text.unwrap_or_default() }
    }
}

fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let [error, resource, version] = report.only();
    let Some(observed) = report.observed(&SettingName::ControlPlane) else {
        // A resource that the node refuses.
        let status = ControlPlaneStatusSpec { error, resource, version, ..Default::default() };
        let is_there = !status.resource.is_empty();
        return is_there.then(|| (NODE.to_owned(), spec::both(&status))).into_iter().collect();
    };
    let status = ControlPlaneStatusSpec {
        made: observed.current == ControlPlane::MADE,
        set_by: observed.source.map_or("", |source| source.name()).to_owned(),
        error: if error.is_empty() { observed.error.clone() } else { error },
        resource,
        version,
    };
    BTreeMap::from([(NODE.to_owned(), spec::both(&status))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Wanted;
    use osbuild_protocol::Observed;
    use osbuild_ranks::Source;

    const TEXT: &str = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n";

    #[test]
    fn a_status_shows_whether_kubeadm_has_made_it() {
        let spec = ControlPlaneSpec { configuration: TEXT.to_owned() };
        let settings = spec.settings().unwrap();
        assert_eq!(ControlPlaneSpec::of(&settings), spec);
        let (id, version) = ("mine".to_owned(), "3".to_owned());
        let wanted = [Wanted { id, version, settings, unreadable: None }];
        let yaml = |wanted: &[Wanted], source: Option<Source>, current: &str, error: &str| {
            let observed = source.map(|source| Observed {
                name: SettingName::ControlPlane,
                wanted: None,
                source: Some(source),
                current: current.to_owned(),
                error: error.to_owned(),
            });
            let (observed, errors): (Vec<_>, _) = (observed.into_iter().collect(), BTreeMap::new());
            let report = Report {
                wanted,
                observed: &observed,
                errors: &errors,
                pods: &[],
                wireguard: &[],
                cluster: None,
            };
            statuses(&report).get(NODE).map(|spec| spec.yaml.clone())
        };
        assert_eq!(
            yaml(&wanted, Some(Source::Api), "made", "").unwrap(),
            "made: true\nsetBy: api\nresource: mine\nversion: \"3\"\n"
        );
        assert_eq!(
            yaml(&[], Some(Source::Document), "", "kubeadm failed").unwrap(),
            "made: false\nsetBy: document\nerror: kubeadm failed\n"
        );
        assert_eq!(yaml(&[], None, "", ""), None);
        assert!(yaml(&wanted, None, "", "").is_some());
    }

    #[test]
    fn a_text_that_is_not_yaml_is_refused() {
        for end in ["apiServer: [\n", "a: b: c\n", "kind: Other\n"] {
            let spec = ControlPlaneSpec { configuration: format!("{TEXT}{end}") };
            let refusal = spec.settings().unwrap_err();
            assert!(refusal.reason.contains("is not YAML: "), "{refusal}");
        }
    }
}
