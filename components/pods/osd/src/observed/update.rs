//! `UpdateStatuses.osbuild`: what the updater does, as it reports to `init`.

use super::rows::Rows;
use super::{ObservedType, slot};
use crate::settings::{NODE, column, names, time};
use osbuild_cosi::v1::UpdateStatusSpec;
use osbuild_protocol::{Contents, NodeStatus, SlotState, UpdatePhase, UpdateReport, UpdaterState};

pub const TYPE: ObservedType = ObservedType {
    names: names("UpdateStatuses", "UpdateStatus"),
    columns: &[
        column("Version", "{.version}"),
        column("Offered", "{.offeredVersion}"),
        column("Phase", "{.phase}"),
        column("Message", "{.message}"),
    ],
    max_count: 1,
};

/// The spec. Without a report it says so.
pub fn rows(status: &NodeStatus) -> Rows<UpdateStatusSpec> {
    let mut spec = match &status.updater {
        UpdaterState::None => without_report("none", "the image has no section [updates]"),
        UpdaterState::Unreported => {
            without_report("unreported", "no updater has reported since the node started")
        }
        UpdaterState::Reported { report, at, is_running } => reported(report, *at, *is_running),
    };
    if let Ok(slots) = slot::known(status) {
        if let Contents::Release(release) = &slots.running.contents {
            spec.version = release.version.clone();
        }
        spec.on_trial = matches!(slots.running.state, SlotState::OnTrial { .. });
    }
    let mut rows = Rows::at_most(TYPE.max_count);
    rows.insert(0, NODE.to_owned(), spec);
    rows
}

fn without_report(phase: &str, message: &str) -> UpdateStatusSpec {
    let (phase, message) = (phase.to_owned(), message.to_owned());
    UpdateStatusSpec { phase, message, ..Default::default() }
}

fn reported(report: &UpdateReport, at: u64, is_running: bool) -> UpdateStatusSpec {
    let mut spec = UpdateStatusSpec {
        offered_version: report.offered.clone().unwrap_or_default(),
        last_check_time: report.checked.map(time).unwrap_or_default(),
        report_time: time(at),
        ..Default::default()
    };
    let (phase, text) = (report.phase.word(), &report.text);
    if !is_running {
        // Nothing goes on with the download, or begins the next check.
        spec.phase = "ended".to_owned();
        spec.message =
            format!("the updater does not run any more; its last report: {phase}: {text}");
        return spec;
    }
    (spec.phase, spec.message) = (phase.to_owned(), text.to_string());
    spec.next_check_time = report.next_check.map(time).unwrap_or_default();
    if let UpdatePhase::Downloading { received, total } = report.phase {
        (spec.received_bytes, spec.total_bytes) = (received, total);
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_protocol::{Release, Security, SlotStatus, Slots, SlotsStatus, StartReason};
    use std::time::Duration;

    /// The spec of a node with this updater, whose slot with the release 1.0.0 has this state.
    fn spec(updater: UpdaterState, state: SlotState) -> UpdateStatusSpec {
        let release = Release { version: "1.0.0".to_owned(), sha256: "0123abcd".to_owned() };
        let contents = Contents::Release(release);
        let running = SlotStatus { name: "SLOT-A".to_owned(), contents, state };
        let (why, started) = (String::new(), StartReason::Good);
        let (passed, other, is_outage) = (None, None, false);
        let slots = SlotsStatus { why, started, passed, running, other, is_outage };
        let status = NodeStatus {
            uptime: Duration::from_secs(60),
            host_name: String::new(),
            node_name: String::new(),
            ready: None,
            security: Security::default(),
            watchdog: String::new(),
            slots: Slots::Known(slots),
            updater,
            addresses: Vec::new(),
            processes: Vec::new(),
            problems: Vec::new(),
            cni: None,
            storage_drivers: None,
            bpf_programs: None,
            runtime_clients: None,
        };
        rows(&status).into_specs().remove(NODE).unwrap()
    }

    fn reported(words: &str, is_running: bool) -> UpdaterState {
        let report = UpdateReport::parse(words).unwrap();
        UpdaterState::Reported { report, at: 1_790_000_002, is_running }
    }

    const DOWNLOAD: &str = "2 comes [phase=downloading received=1 of=3 offered=2 \
                            checked=1790000001 next=1790000003]";

    #[test]
    fn a_report_of_a_running_updater_is_shown_with_its_progress_and_times() {
        let shown = spec(reported(DOWNLOAD, true), SlotState::Good);
        let expected = UpdateStatusSpec {
            version: "1.0.0".to_owned(),
            on_trial: false,
            offered_version: "2".to_owned(),
            phase: "downloading".to_owned(),
            message: "2 comes".to_owned(),
            received_bytes: 1,
            total_bytes: 3,
            last_check_time: "2026-09-21T14:13:21Z".to_owned(),
            next_check_time: "2026-09-21T14:13:23Z".to_owned(),
            report_time: "2026-09-21T14:13:22Z".to_owned(),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_report_of_an_updater_that_has_ended_does_not_look_current() {
        let shown = spec(reported(DOWNLOAD, false), SlotState::Good);
        assert_eq!(
            (shown.phase.as_str(), shown.received_bytes, shown.total_bytes),
            ("ended", 0, 0)
        );
        assert!(shown.message.ends_with("its last report: downloading: 2 comes"), "{shown:?}");
        assert_eq!((shown.next_check_time.as_str(), shown.offered_version.as_str()), ("", "2"));
        assert_eq!(shown.report_time, "2026-09-21T14:13:22Z");
    }

    #[test]
    fn a_node_without_a_report_says_why() {
        let trial = SlotState::OnTrial { tries_left: 2 };
        for (updater, phase) in
            [(UpdaterState::None, "none"), (UpdaterState::Unreported, "unreported")]
        {
            let shown = spec(updater, trial);
            assert_eq!((shown.phase.as_str(), shown.version.as_str()), (phase, "1.0.0"));
            assert!(shown.on_trial && !shown.message.is_empty() && shown.report_time.is_empty());
        }
    }
}
