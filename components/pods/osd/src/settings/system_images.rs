//! `SystemImages.osbuild`: images of containers that the node keeps.

use super::spec::{self, HostSpec};
use super::{ERROR, Report, SET_BY, SettingType, Wanted, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{SystemImageSpec, SystemImageStatusSpec};
use osbuild_protocol::{
    Observed, Refusal, Setting, SettingName, SystemImage, SystemImageName, SystemImageState,
};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("SystemImages", "SystemImage"),
    columns: &[IMAGE],
    status_names: names("SystemImageStatuses", "SystemImageStatus"),
    status_columns: &[
        IMAGE,
        column("Kept", "{.kept}"),
        column("Digest", "{.digest}"),
        column("Bytes", "{.bytes}"),
        SET_BY,
        ERROR,
    ],
    // It takes room on DATA that the kubelet cannot make free, and pods may start from it.
    writer: Role::Admin,
    may_disconnect: false,
    read: spec::read::<SystemImageSpec>,
    write: spec::write::<SystemImageSpec>,
    subject: |settings| format!("the image `{}`", SystemImageSpec::of(settings).image),
    conflict: |_| None,
    covers: |name| matches!(name, SettingName::SystemImage(_)),
    statuses,
};

const IMAGE: PrintColumn = column("Image", "{.image}");

impl HostSpec for SystemImageSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let image = SystemImage::new(SystemImageName::parse(&self.image)?);
        Ok(vec![Setting::SystemImage(image)])
    }

    fn of(settings: &[Setting]) -> Self {
        let image = settings.iter().find_map(|setting| match setting {
            Setting::SystemImage(image) => Some(image.name().to_string()),
            _ => None,
        });
        SystemImageSpec { image: image.unwrap_or_default() }
    }
}

/// The identifier of a resource or status for an image that has no other.
pub fn id(name: &SystemImageName) -> String {
    name.as_str().replace(['/', ':', '@'], "-")
}

/// A status for each resource, with its identifier, and for each other image, with its name.
fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let others = report.others(TYPE.covers).filter_map(|observed| {
        let SettingName::SystemImage(name) = &observed.name else { return None };
        let status = state(name, Some(observed));
        let status = SystemImageStatusSpec { error: observed.error.clone(), ..status };
        Some((id(name), spec::both(&status)))
    });
    others.chain(report.wanted.iter().map(|wanted| status(report, wanted))).collect()
}

fn status(report: &Report, wanted: &Wanted) -> (String, Spec) {
    let status = match wanted.settings.first() {
        Some(setting @ Setting::SystemImage(image)) => {
            state(image.name(), report.observed(&setting.name()))
        }
        _ => SystemImageStatusSpec::default(),
    };
    let (error, version) = (report.error(wanted), wanted.version.clone());
    let status = SystemImageStatusSpec { error, version, ..status };
    (wanted.id.clone(), spec::both(&status))
}

/// The status of an image as `init` has it.
fn state(name: &SystemImageName, observed: Option<&Observed>) -> SystemImageStatusSpec {
    let found = observed.and_then(|observed| SystemImageState::parse(&observed.current));
    let kept = found.is_some();
    let SystemImageState { digest, bytes } = found.unwrap_or_default();
    let source = observed.and_then(|observed| observed.source);
    let set_by = source.map_or("", |source| source.name()).to_owned();
    let image = name.to_string();
    SystemImageStatusSpec { image, kept, digest, bytes, set_by, ..SystemImageStatusSpec::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_ranks::Source;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn observed(line: &str, source: Source, current: &str, error: &str) -> Observed {
        let wanted = Setting::parse(line).unwrap();
        let (current, error) = (current.to_owned(), error.to_owned());
        Observed { name: wanted.name(), wanted: Some(wanted), source: Some(source), current, error }
    }

    #[test]
    fn a_status_shows_the_image_that_is_kept_or_why_not() {
        let line = "system-image a.example/b:1 kept";
        let settings = vec![Setting::parse(line).unwrap()];
        let (id, version) = ("mine".to_owned(), "3".to_owned());
        let wanted = [Wanted { id, version, settings, unreadable: None }];
        let other = format!("system-image a.example/c@{DIGEST} kept");
        let error = "pull it: NotFound: no such image";
        let all = [
            observed(line, Source::Api, &format!("digest={DIGEST} bytes=7"), ""),
            observed(&other, Source::Document, "", error),
        ];
        let errors = BTreeMap::new();
        let report = Report {
            wanted: &wanted,
            observed: &all,
            errors: &errors,
            pods: &[],
            wireguard: &[],
            cluster: None,
        };
        let statuses = TYPE.statuses(&report);
        let other = format!("a.example-c-{}", DIGEST.replace(':', "-"));
        assert_eq!(statuses.keys().collect::<Vec<_>>(), [&other, "mine"]);
        let yaml = |id: &str| statuses[id].yaml.clone();
        assert_eq!(
            yaml("mine"),
            format!(
                "image: a.example/b:1\nkept: true\ndigest: {DIGEST}\nbytes: 7\nsetBy: api\n\
                 version: \"3\"\n"
            )
        );
        let status = yaml(&other);
        let parts = [
            format!("a.example/c@{DIGEST}\nkept: false\nsetBy: document\n"),
            format!("error: \"{error}\"\n"),
        ];
        assert!(parts.iter().all(|part| status.contains(part)), "{status}");
    }
}
