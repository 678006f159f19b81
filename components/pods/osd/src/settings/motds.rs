//! `Motds.osbuild`: the message on the consoles.

use super::spec::{self, HostSpec};
use super::{ERROR, NODE, Report, SOURCE, SettingType, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{MotdSpec, MotdStatusSpec};
use osbuild_protocol::{Motd, Refusal, Setting, Single};
use osbuild_resources::{PrintColumn, Spec};
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("Motds", "Motd"),
    columns: &[TEXT],
    status_names: names("MotdStatuses", "MotdStatus"),
    status_columns: &[TEXT, SOURCE, ERROR],
    writer: Role::Operator,
    may_disconnect: false,
    read: spec::read::<MotdSpec>,
    write: spec::write::<MotdSpec>,
    subject: |_| "the message of the day".to_owned(),
    conflict: |_| None,
    covers: |name| *name == Single::Motd.into(),
    statuses,
};

const TEXT: PrintColumn = column("Text", "{.text}");

impl HostSpec for MotdSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        Ok(vec![Setting::Motd(Motd::parse(&self.text)?)])
    }

    fn of(settings: &[Setting]) -> Self {
        let text = settings.iter().find_map(|setting| match setting {
            Setting::Motd(motd) => Some(motd.as_str().to_owned()),
            _ => None,
        });
        MotdSpec { text: text.unwrap_or_default() }
    }
}

fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let (words, source) = report.current(Single::Motd);
    let current = Setting::parse(&format!("{} {}", Single::Motd.word(), words.join(" ")));
    let MotdSpec { text } = MotdSpec::of(&current.into_iter().collect::<Vec<_>>());
    let [error, resource, version] = report.only();
    let status = MotdStatusSpec { text, source, error, resource, version };
    BTreeMap::from([(NODE.to_owned(), spec::both(&status))])
}
