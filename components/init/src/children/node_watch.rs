//! `init node-watch NODE-NAME SETTING…` waits until the labels or taints of the node's object in
//! its cluster differ from these, and reports them, so that a label that somebody changes there is
//! changed back at once.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use osbuild_failure::{Failure, Outcome};
use osbuild_kubeconfig::Kubeconfig;

use super::api_server::{Method, Server, TIMEOUT};
use super::node_labels;
use crate::api_response::Watch;
use crate::daemons::credentials;
use crate::host::registration::node_object::Found;

/// How long the API server keeps a watch open.
const LIFETIME: Duration = Duration::from_secs(300);

/// Waits, and reports nothing if the API server ends the watch before that. `settings` are lines of
/// [`Found::text`].
pub fn report(node_name: &str, settings: &[&str]) -> Outcome {
    let known = Found::parse(&settings.join("\n"));
    let config = Kubeconfig::read(Path::new(credentials::kubeconfig()))?
        .ok_or_else(|| Failure::new("the kubelet has no kubeconfig yet"))?;
    let server = Server::parse(config.server().unwrap_or_default())?;
    let path = server.node_watch(node_name, LIFETIME);
    let stream = server.open(&config, &Method::Get, &path, LIFETIME + TIMEOUT)?;
    if let Some(found) = first_other(BufReader::new(stream), &known)? {
        print!("{}", found.report());
    }
    Ok(())
}

/// Reads the response to a watch until the node has other labels or taints than the known ones;
/// none if the response ends before.
fn first_other(response: impl BufRead, known: &Found) -> Outcome<Option<Found>> {
    let mut watch = Watch::begin(response)?;
    while let Some(object) = watch.object()? {
        let found = node_labels::found_in(object)?;
        if found.settings != known.settings {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "HTTP/1.0 200 OK\r\n\r\n";

    fn event(kind: &str, rack: &str) -> String {
        format!(
            "{{\"type\":\"{kind}\",\"object\":{{\"kind\":\"Node\",\"metadata\":{{\"name\":\"a\",\
             \"labels\":{{\"example.org/rack\":\"{rack}\"}}}}}}}}\n"
        )
    }

    /// The lines of what the node has, in a watch that knows rack 7.
    fn other(response: &str) -> Result<Option<String>, String> {
        let known = Found::parse("node-label example.org/rack 7");
        let found = first_other(response.as_bytes(), &known);
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
}
