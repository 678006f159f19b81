//! `Swaps.osbuild`: swap in compressed memory.

use super::spec::{self, HostSpec};
use super::{ERROR, NODE, Report, SET_BY, SettingType, column, names};
use crate::access::Role;
use osbuild_cosi::v1::{SwapSpec, SwapStatusSpec};
use osbuild_protocol::{Refusal, Setting, SettingName, Swap, SwapSize, SwapState};
use osbuild_resources::Spec;
use std::collections::BTreeMap;

pub const TYPE: SettingType = SettingType {
    names: names("Swaps", "Swap"),
    columns: &[
        column("Size", "{.size}"),
        column("Memory limit", "{.memoryLimit}"),
        column("Pods", "{.pods}"),
    ],
    status_names: names("SwapStatuses", "SwapStatus"),
    status_columns: &[
        column("Bytes", "{.bytes}"),
        column("Used bytes", "{.usedBytes}"),
        column("Memory bytes", "{.memoryBytes}"),
        SET_BY,
        ERROR,
    ],
    // It takes memory and processor time from all that runs on the node.
    writer: Role::Admin,
    may_disconnect: false,
    read: spec::read::<SwapSpec>,
    write: spec::write::<SwapSpec>,
    subject: |_| "the swap".to_owned(),
    conflict: |_| None,
    covers: |name| *name == SettingName::Swap,
    statuses,
};

impl HostSpec for SwapSpec {
    fn settings(&self) -> Result<Vec<Setting>, Refusal> {
        let SwapSpec { size, memory_limit, pods } = self;
        let limit = (!memory_limit.is_empty()).then(|| SwapSize::parse(memory_limit));
        Ok(vec![Setting::Swap(Swap::new(SwapSize::parse(size)?, limit.transpose()?, *pods)?)])
    }

    fn of(settings: &[Setting]) -> Self {
        let swap = settings.iter().find_map(|setting| match setting {
            Setting::Swap(swap) => Some(SwapSpec {
                size: swap.size().to_string(),
                memory_limit: swap.memory_limit().map(|one| one.to_string()).unwrap_or_default(),
                pods: swap.pods(),
            }),
            _ => None,
        });
        swap.unwrap_or_default()
    }
}

fn statuses(report: &Report) -> BTreeMap<String, Spec> {
    let [error, resource, version] = report.only();
    let observed = report.observed(&SettingName::Swap);
    // Swap that cannot go, and that of the document, have no resource.
    let error = match (error.is_empty(), observed) {
        (true, Some(observed)) => observed.error.clone(),
        _ => error,
    };
    let state = observed.and_then(|observed| SwapState::parse(&observed.current));
    let SwapState { bytes, used_bytes, memory_bytes } = state.unwrap_or_default();
    let source = observed.and_then(|observed| observed.source);
    let set_by = source.map_or("", |source| source.name()).to_owned();
    let status =
        SwapStatusSpec { bytes, used_bytes, memory_bytes, set_by, error, resource, version };
    BTreeMap::from([(NODE.to_owned(), spec::both(&status))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Wanted;
    use osbuild_protocol::Observed;
    use osbuild_ranks::Source;

    fn observed(source: Option<Source>, current: &str, error: &str) -> Observed {
        let (current, error) = (current.to_owned(), error.to_owned());
        Observed { name: SettingName::Swap, wanted: None, source, current, error }
    }

    #[test]
    fn a_status_shows_what_the_swap_holds_and_why_it_is_not_as_it_shall_be() {
        let settings = vec![Setting::parse("swap size=512Mi pods").unwrap()];
        let (id, version) = ("mine".to_owned(), "3".to_owned());
        let wanted = [Wanted { id, version, settings, unreadable: None }];
        let state = "bytes=536870912 used=3145728 memory=1048576";
        let yaml = |wanted: &[Wanted], all: &[Observed]| {
            let errors = BTreeMap::new();
            let report = Report {
                wanted,
                observed: all,
                errors: &errors,
                pods: &[],
                wireguard: &[],
                cluster: None,
            };
            TYPE.statuses(&report)[NODE].yaml.clone()
        };
        assert_eq!(
            yaml(&wanted, &[observed(Some(Source::Api), state, "")]),
            "bytes: 536870912\nusedBytes: 3145728\nmemoryBytes: 1048576\nsetBy: api\nresource: \
             mine\nversion: \"3\"\n"
        );
        let error = "turn swap off: out of memory";
        assert_eq!(
            yaml(&[], &[observed(None, state, error)]),
            format!(
                "bytes: 536870912\nusedBytes: 3145728\nmemoryBytes: 1048576\nerror: \"{error}\"\n"
            )
        );
        assert_eq!(yaml(&[], &[]), "bytes: 0\nusedBytes: 0\nmemoryBytes: 0\n");
    }
}
