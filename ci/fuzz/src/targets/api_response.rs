//! Responses of a cluster's API server.

use init::api_response::{Watch, object, split};
use serde_json::Value;

use crate::target::{Memory, Outcome, Target};

/// See the module.
pub const TARGET: Target =
    Target { name: "api_response", seeds, run, memory: Memory::per_byte(96) };

fn run(input: &[u8]) -> Outcome {
    let (_, body) = split(input);
    assert!(input.ends_with(body));
    let one = object::<Value>(input);
    let Ok(mut watch) = Watch::begin(input) else {
        return one.map_or(Outcome::Refused, |_| Outcome::Accepted);
    };
    let mut lines = 0;
    while let Ok(Some(_)) = watch.object() {
        lines += 1;
    }
    assert!(lines <= body.split(|byte| *byte == b'\n').count(), "an event is a line");
    Outcome::Accepted
}

fn seeds() -> Vec<Vec<u8>> {
    let response = |head: &str, body: &str| format!("HTTP/1.0 {head}\r\n\r\n{body}").into_bytes();
    let node = r#"{"kind":"Node","metadata":{"name":"a","labels":{"example.org/rack":"7"}}}"#;
    let event = |kind: &str| format!("{{\"type\":\"{kind}\",\"object\":{node}}}\n");
    vec![
        response("200 OK", &(event("ADDED") + &event("DELETED") + &event("MODIFIED"))),
        response("200 OK", node),
        response("200 OK", r#"{"type":"ERROR","object":{"message":"too old resource version"}}"#),
        response("403 Forbidden", r#"{"kind":"Status","message":"no"}"#),
        response("502 Bad Gateway", "<html>"),
    ]
}
