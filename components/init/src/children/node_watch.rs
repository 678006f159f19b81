//! `init node-watch NODE-NAME SETTING…` waits until the labels or taints of the node's object in
//! its cluster differ from these, and reports them, so that a label that somebody changes there is
//! changed back at once.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_kubeconfig::Kubeconfig;
use serde::Deserialize;
use serde_json::Value;

use super::api_server::{MAX_RESPONSE, Method, Server, TIMEOUT, object};
use super::node_labels;
use crate::daemons::credentials;
use crate::host::registration::node_object::Found;

/// How long the API server keeps a watch open.
const LIFETIME: Duration = Duration::from_secs(300);
/// The types of the events that have the node's object.
const PRESENT: [&str; 2] = ["ADDED", "MODIFIED"];
/// The type of the event that ends a watch with a reason.
const ERROR: &str = "ERROR";

/// An event of a watch (`metav1.WatchEvent` of Kubernetes).
#[derive(Deserialize)]
struct Event {
    r#type: String,
    object: Value,
}

/// Waits, and reports nothing if the API server ends the watch before that. `settings` are lines of
/// [`Found::text`].
pub fn report(node_name: &str, settings: &[&str]) -> Outcome {
    let known = Found::parse(&settings.join("\n"));
    let config = Kubeconfig::read(Path::new(credentials::kubeconfig()))?
        .ok_or_else(|| Failure::new("the kubelet has no kubeconfig yet"))?;
    let server = Server::parse(config.server().unwrap_or_default())?;
    let path = server.node_watch(node_name, LIFETIME);
    let stream = server.open(&config, &Method::Get, &path, LIFETIME + TIMEOUT)?;
    if let Some(found) = first_other(&mut BufReader::new(stream), &known)? {
        print!("{}", found.report());
    }
    Ok(())
}

/// Reads the response to a watch until the node has other labels or taints than the known ones;
/// none if the response ends before.
fn first_other(stream: &mut impl BufRead, known: &Found) -> Outcome<Option<Found>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if line(stream, &mut head)? == 0 {
            return Err(Failure::new("the response ends in its head"));
        }
    }
    if !head.split(|byte| *byte == b' ').nth(1).is_some_and(|code| code.starts_with(b"2")) {
        line(stream, &mut head)?;
        return object::<Value>(&head).map(|_| None);
    }
    loop {
        let mut text = Vec::new();
        if line(stream, &mut text)? == 0 {
            return Ok(None);
        }
        let Event { r#type, object } =
            serde_json::from_slice(&text).explain("read an event of the node's object")?;
        if r#type == ERROR {
            let reason = object["message"].as_str().unwrap_or("without a reason");
            return Err(Failure::new(format!("the API server ends the watch: {reason}")));
        }
        if PRESENT.contains(&r#type.as_str()) {
            let found = node_labels::found_in(object)?;
            if found.settings != known.settings {
                return Ok(Some(found));
            }
        }
    }
}

/// Reads a line with its end, and returns its length.
fn line(stream: &mut impl BufRead, text: &mut Vec<u8>) -> Outcome<usize> {
    stream.take(MAX_RESPONSE).read_until(b'\n', text).explain("read the response")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n";

    fn event(kind: &str, rack: &str) -> String {
        format!(
            "{{\"type\":\"{kind}\",\"object\":{{\"kind\":\"Node\",\"metadata\":{{\"name\":\"a\",\
             \"labels\":{{\"example.org/rack\":\"{rack}\"}}}}}}}}\n"
        )
    }

    /// The lines of what the node has, in a watch that knows rack 7.
    fn other(response: &str) -> Result<Option<String>, String> {
        let known = Found::parse("node-label example.org/rack 7");
        let found = first_other(&mut response.as_bytes(), &known);
        found.map(|found| found.map(|found| found.text())).map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_first_other_label_ends_the_watch() {
        let same = event("ADDED", "7") + &event("BOOKMARK", "0") + &event("MODIFIED", "7");
        assert_eq!(other(&format!("{HEAD}{same}")), Ok(None));
        let text = format!("{HEAD}{same}{}{}", event("MODIFIED", "9"), event("MODIFIED", "8"));
        assert_eq!(other(&text), Ok(Some("node-label example.org/rack 9\n".to_owned())));
        let without = "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{}}}\n";
        assert_eq!(other(&format!("{HEAD}{without}")), Ok(Some(String::new())));
    }

    #[test]
    fn a_node_that_is_gone_ends_nothing() {
        assert_eq!(other(&format!("{HEAD}{}", event("DELETED", "9"))), Ok(None));
    }

    #[test]
    fn a_refusal_and_the_end_of_a_watch_have_a_reason() {
        let refused = "HTTP/1.0 403 Forbidden\r\n\r\n{\"message\": \"no\"}";
        assert_eq!(other(refused), Err("the API server refuses: no".to_owned()));
        let ended = "{\"type\":\"ERROR\",\"object\":{\"message\":\"too old\"}}\n";
        let reason = "the API server ends the watch: too old";
        assert_eq!(other(&format!("{HEAD}{ended}")), Err(reason.to_owned()));
        for broken in ["", "HTTP/1.0 200 OK\r\n", &format!("{HEAD}{{\"type\"")] {
            assert!(other(broken).is_err(), "{broken}");
        }
    }
}
