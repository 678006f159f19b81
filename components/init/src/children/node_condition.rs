//! `init node-condition NODE-NAME PROBLEM…` shows the cluster what is wrong with the node: in the
//! condition [`CONDITION`] of its object, and in an event whenever that changes. A node may write
//! both (NodeRestriction). Its report is until when the node's certificate is valid, whether the
//! API server has the node as Ready, and which labels and taints the node has there.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use osbuild_abi::paths::JOIN_CA;
use osbuild_failure::{Explain, Outcome};
use osbuild_folder::small_file;
use osbuild_kubeconfig::Kubeconfig;
use osbuild_protocol::Problem;
use serde_json::{Value, json};
use x509_cert::der::DateTime;

use super::api_server::{Method, Server};
use super::client_certificate;
use super::cluster_node::{ClusterNode, Condition};
use crate::api_response::object;
use crate::daemons::credentials;

/// The type of the condition.
const CONDITION: &str = "HostProblem";
/// The name of the program in events.
const COMPONENT: &str = "osbuild-init";
/// The reason of a condition without a problem.
const HEALTHY: &str = "NoProblem";
/// The most characters of a message: an event's may have 1024.
const MAX_MESSAGE: usize = 1000;
/// A condition that stays is written again so often, as a sign that it is still observed.
const HEARTBEAT: Duration = Duration::from_secs(300);

/// Writes what differs. `problems` are lines as [`Problem::line`] makes them, the most urgent one
/// first.
pub fn report(node_name: &str, problems: &[&str]) -> Outcome {
    let problems: Vec<Problem> = problems.iter().filter_map(|line| Problem::parse(line)).collect();
    if let Some(seconds) = certificate_until() {
        println!("certificate {seconds}");
    }
    let node = match ClusterNode::get(node_name) {
        Ok(node) => node,
        Err(reason) => {
            println!("not Ready: {reason}");
            return Ok(());
        }
    };
    match node.is_ready() {
        Ok(()) => println!("Ready"),
        Err(reason) => println!("not Ready: {reason}"),
    }
    if let Ok(found) = node.labels_and_taints() {
        print!("{}", found.report());
    }
    // Without an object there is nothing to write to, and the line above says why.
    let Ok(conditions) = node.conditions() else { return Ok(()) };
    write(&node, node_name, conditions, &problems)
        .explain("show the cluster the problems of the node")
}

/// Until when the node's certificate from its cluster is valid, in seconds since 1970. The next
/// lines of the report say why none can be read.
fn certificate_until() -> Option<u64> {
    let config = Kubeconfig::read(Path::new(credentials::kubeconfig())).ok()??;
    let chain = config.client_certificate().ok()??;
    let authority = small_file::read(Path::new(JOIN_CA)).ok().flatten();
    let is_of_cluster = authority.is_none_or(|authority| {
        client_certificate::is_signed_by(&chain, &authority).unwrap_or_default()
    });
    let end = client_certificate::end(&chain).ok().filter(|_| is_of_cluster)?;
    Some(end.to_unix_duration().as_secs())
}

fn write(
    node: &ClusterNode,
    node_name: &str,
    conditions: Vec<Condition>,
    problems: &[Problem],
) -> Outcome {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition.kind == CONDITION);
    let Some(wanted) = condition(problems, found.as_ref(), now) else { return Ok(()) };
    let server = Server::parse(node.config().server().unwrap_or_default())?;
    let path = format!("{}/status", server.node(node_name));
    let patch = json!({ "status": { "conditions": [&wanted] } }).to_string();
    let response = server.ask(node.config(), &Method::StrategicPatch(patch), &path)?;
    object::<Value>(&response)?;
    if !is_change(found.as_ref(), &wanted) {
        return Ok(());
    }
    let event = Method::Post(event(node_name, &wanted, now).to_string());
    let response = server.ask(node.config(), &event, &server.node_events())?;
    object::<Value>(&response).map(drop)
}

/// The condition to write, unless `found` says the same and not long ago.
fn condition(problems: &[Problem], found: Option<&Condition>, now: Duration) -> Option<Condition> {
    let texts: Vec<&str> = problems.iter().map(|problem| problem.text.as_str()).collect();
    let message: String = match problems {
        [] => "the node knows of no problem".to_owned(),
        _ => texts.join("; ").chars().take(MAX_MESSAGE).collect(),
    };
    let status = if problems.is_empty() { "False" } else { "True" }.to_owned();
    let transition = found.filter(|found| found.status == status);
    let transition = transition.map_or_else(|| time(now), |one| one.last_transition_time.clone());
    let wanted = Condition {
        kind: CONDITION.to_owned(),
        status,
        reason: problems.first().map_or(HEALTHY.to_owned(), |problem| camel_case(&problem.id)),
        message,
        last_heartbeat_time: time(now),
        last_transition_time: transition,
    };
    let is_fresh = found.is_some_and(|found| {
        let heartbeat = found.last_heartbeat_time.parse::<DateTime>();
        let age = heartbeat.ok().map(|at| now.abs_diff(at.unix_duration()));
        found.message == wanted.message
            && found.reason == wanted.reason
            && found.status == wanted.status
            && age.is_some_and(|age| age < HEARTBEAT)
    });
    (!is_fresh).then_some(wanted)
}

/// Whether people should see an event: another kind of problem, or the first or last one. A node
/// that was always healthy has none.
fn is_change(found: Option<&Condition>, wanted: &Condition) -> bool {
    let before = found.map_or(HEALTHY, |found| found.reason.as_str());
    before != wanted.reason
}

/// The event about a change. The kubelet, too, has the node's name as the identifier of its object.
fn event(node_name: &str, condition: &Condition, now: Duration) -> Value {
    let kind = if condition.status == "True" { "Warning" } else { "Normal" };
    let at = time(now);
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "name": format!("{node_name}.{:x}", now.as_nanos()), "namespace": "default" },
        "involvedObject": {
            "apiVersion": "v1", "kind": "Node", "name": node_name, "uid": node_name,
        },
        "type": kind,
        "reason": condition.reason,
        "message": condition.message,
        "source": { "component": COMPONENT, "host": node_name },
        "reportingComponent": COMPONENT,
        "reportingInstance": node_name,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    })
}

/// A time since 1970, as RFC 3339 has it.
fn time(now: Duration) -> String {
    // It fails beyond the year 9999 alone.
    DateTime::from_unix_duration(now).map(|time| time.to_string()).unwrap_or_default()
}

/// The word of a problem in the form of Kubernetes' reasons: `data-space` becomes `DataSpace`.
fn camel_case(id: &str) -> String {
    let capitalize = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    id.split('-').map(capitalize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-27T17:30:00Z.
    const NOW: Duration = Duration::from_secs(1_795_800_600);

    fn problem(id: &str, text: &str) -> Problem {
        Problem { id: id.to_owned(), text: text.to_owned() }
    }

    fn later(seconds: u64) -> Duration {
        NOW + Duration::from_secs(seconds)
    }

    #[test]
    fn a_problem_is_a_condition_with_the_most_urgent_reason() {
        let problems = [problem("data-space", "DATA: 3 %"), problem("time", "no time")];
        let wanted = condition(&problems, None, NOW).unwrap();
        assert_eq!(
            serde_json::to_value(&wanted).unwrap(),
            json!({
                "type": "HostProblem",
                "status": "True",
                "reason": "DataSpace",
                "message": "DATA: 3 %; no time",
                "lastHeartbeatTime": "2026-11-27T17:30:00Z",
                "lastTransitionTime": "2026-11-27T17:30:00Z",
            })
        );
        assert!(is_change(None, &wanted));
    }

    #[test]
    fn a_condition_that_stays_is_written_as_a_sign_of_life_alone() {
        let problems = [problem("time", "no time")];
        let found = condition(&problems, None, NOW).unwrap();
        assert_eq!(condition(&problems, Some(&found), later(299)), None);
        let again = condition(&problems, Some(&found), later(300)).unwrap();
        assert_eq!(again.last_transition_time, found.last_transition_time);
        assert_eq!(again.last_heartbeat_time, "2026-11-27T17:35:00Z");
        assert!(!is_change(Some(&found), &again));
    }

    #[test]
    fn another_number_is_written_and_is_no_event() {
        let found = condition(&[problem("memory", "10 MiB")], None, NOW).unwrap();
        let wanted = condition(&[problem("memory", "9 MiB")], Some(&found), later(60)).unwrap();
        assert_eq!(wanted.message, "9 MiB");
        assert!(!is_change(Some(&found), &wanted));
    }

    #[test]
    fn the_end_of_a_problem_is_an_event_and_health_from_the_start_is_none() {
        let found = condition(&[problem("time", "no time")], None, NOW).unwrap();
        let wanted = condition(&[], Some(&found), later(60)).unwrap();
        assert_eq!((wanted.status.as_str(), wanted.reason.as_str()), ("False", "NoProblem"));
        assert_eq!(wanted.last_transition_time, "2026-11-27T17:31:00Z");
        assert!(is_change(Some(&found), &wanted));
        let event = event("edge", &wanted, NOW);
        assert_eq!(
            (&event["type"], &event["involvedObject"]["uid"]),
            (&json!("Normal"), &json!("edge"))
        );
        assert!(!is_change(None, &condition(&[], None, NOW).unwrap()));
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let wanted = condition(&[problem("time", &"ä".repeat(5000))], None, NOW).unwrap();
        assert_eq!(wanted.message.chars().count(), MAX_MESSAGE);
    }
}
