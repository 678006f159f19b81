//! The problems of a node in the status that `init` reports.

use osbuild_protocol::{NodeStatus, Problem, Reply, Request, Slots};
use std::time::Duration;

#[test]
fn a_problem_is_a_line_and_no_process() {
    let problem = |id: &str, text: &str| Problem { id: id.to_owned(), text: text.to_owned() };
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
        problems: vec![problem("time", "ended"), problem("address", "no address: eth0 is off")],
    };
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
