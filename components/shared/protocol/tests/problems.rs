//! The problems of a node in the status that `init` reports.

use osbuild_protocol::{
    NodeStatus, Problem, Reply, Request, Security, Slots, UpdateReport, UpdaterState,
};
use std::time::Duration;

#[test]
fn a_problem_is_a_line_and_no_process() {
    let problem = |id: &str, text: &str| Problem { id: id.to_owned(), text: text.to_owned() };
    let problems = vec![problem("time", "ended"), problem("address", "no address: eth0 is off")];
    let status = NodeStatus { problems, ..status() };
    let reply = Reply::Node(Box::new(status));
    let text = reply.encode();
    assert!(
        text.ends_with("problem time ended\nproblem address no address: eth0 is off\nok\n"),
        "{text}"
    );
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.pop();
    assert_eq!(Reply::decode(&Request::Status, &lines), Ok(reply));
}

fn status() -> NodeStatus {
    NodeStatus {
        uptime: Duration::from_secs(61),
        host_name: "edge".to_owned(),
        node_name: "edge".to_owned(),
        ready: None,
        security: Security { secure_boot: "on".to_owned(), ..Security::default() },
        watchdog: "none".to_owned(),
        slots: Slots::Unknown,
        updater: UpdaterState::Unreported,
        addresses: Vec::new(),
        processes: Vec::new(),
        problems: Vec::new(),
        cni: None,
        storage_drivers: None,
        bpf_programs: None,
        runtime_clients: None,
    }
}

#[test]
fn the_state_of_the_updater_is_a_line_of_the_status_and_no_process() {
    for words in ["a [phase=idle]", "updater failed 3 times in a row [phase=failed]"] {
        let report = UpdateReport::parse(words).unwrap();
        let updater = UpdaterState::Reported { report, at: 1_790_000_000, is_running: true };
        for updater in [UpdaterState::None, UpdaterState::Unreported, updater] {
            let reply = Reply::Node(Box::new(NodeStatus { updater, ..status() }));
            let mut lines: Vec<String> = reply.encode().lines().map(str::to_owned).collect();
            assert_eq!(lines.pop().as_deref(), Some("ok"));
            assert_eq!(Reply::decode(&Request::Status, &lines), Ok(reply));
        }
    }
}
