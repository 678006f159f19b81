//! The problems of a node in the status that `init` reports.

use osbuild_protocol::{NodeStatus, Reply, Request, Slots};
use std::time::Duration;

#[test]
fn a_problem_is_a_line_and_no_process() {
    let status = NodeStatus {
        uptime: Duration::from_secs(61),
        host_name: "edge".to_owned(),
        node_name: "edge".to_owned(),
        ready: None,
        secure_boot: "on".to_owned(),
        watchdog: "none".to_owned(),
        slots: Slots::Unknown,
        addresses: Vec::new(),
        processes: Vec::new(),
        problems: vec!["ended".to_owned(), "no address: eth0 is off".to_owned()],
    };
    let reply = Reply::Node(Box::new(status));
    let text = reply.encode();
    assert!(text.ends_with("problem ended\nproblem no address: eth0 is off\nok\n"), "{text}");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.pop();
    assert_eq!(Reply::decode(&Request::Status, &lines), Ok(reply));
}
