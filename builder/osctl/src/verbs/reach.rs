//! `osctl reach`: what the node reaches.

use super::print;
use crate::cli::{ListForm, Reach, Target};
use crate::connection::Connection;
use crate::error::{Error, Result, printable};
use crate::resource::escaped_json;
use osbuild_cosi::v1::reach_request::Probe;
use osbuild_cosi::v1::reach_response::Part;
use osbuild_cosi::v1::{
    ReachDns, ReachHttp, ReachMtu, ReachPing, ReachRequest, ReachResult, ReachStep, ReachTcp,
    ReachTrace,
};
use serde_json::json;

/// Has the node try the target, and prints each step as it ends.
///
/// # Errors
/// The target is not reached.
pub async fn show(connection: &Connection, Reach { target, output }: Reach) -> Result<()> {
    let request = ReachRequest { probe: Some(probe(target)) };
    let mut parts = connection.inspect().reach(request).await?.into_inner();
    while let Some(message) = parts.message().await? {
        let result = match message.part {
            Some(Part::Step(step)) => {
                print(&match output {
                    ListForm::Table => line(&step),
                    ListForm::Json => json_line(&json!(step)),
                })?;
                continue;
            }
            Some(Part::Result(result)) => result,
            None => continue,
        };
        print(&end(&result, output))?;
        return match result.reached {
            true => Ok(()),
            false => Err(Error::failed(result.summary)),
        };
    }
    Err(Error::failed("the node has sent no result"))
}

/// The end of the output. People read in the error that the target is not reached.
fn end(result: &ReachResult, form: ListForm) -> String {
    match form {
        ListForm::Table if result.reached => format!("{}\n", printable(&result.summary)),
        ListForm::Table => String::new(),
        ListForm::Json => json_line(&json!(result)),
    }
}

fn probe(target: Target) -> Probe {
    match target {
        Target::Dns { name, server } => {
            Probe::Dns(ReachDns { name, server: server.unwrap_or_default() })
        }
        Target::Tcp { address } => {
            Probe::Tcp(ReachTcp { host: address.host, port: address.port.into() })
        }
        Target::Http { url, get, insecure } => Probe::Http(ReachHttp { url, get, insecure }),
        Target::Ping { host, count } => Probe::Ping(ReachPing { host, count }),
        Target::Mtu { host } => Probe::Mtu(ReachMtu { host }),
        Target::Trace { host } => Probe::Trace(ReachTrace { host }),
    }
}

/// A step for people: what was done, the other side, how long it took, and what came of it.
fn line(step: &ReachStep) -> String {
    let ReachStep { name, peer, microseconds, outcome, error, meaning } = step;
    let time = format!("{}.{:02} ms", microseconds / 1000, microseconds % 1000 / 10);
    let peer = if peer.is_empty() { "-" } else { peer };
    let outcome = match (error.is_empty(), meaning.is_empty()) {
        (true, _) => outcome.clone(),
        (false, true) => format!("FAILED: {error}"),
        (false, false) => format!("FAILED: {error}: {meaning}"),
    };
    let line = format!("{name}  {peer}  {time}  {outcome}");
    format!("{}\n", printable(&line))
}

fn json_line(value: &serde_json::Value) -> String {
    escaped_json(&value.to_string()) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_a_line_with_its_meaning() {
        let mut step = ReachStep {
            name: "connect".into(),
            peer: "10.0.2.2:6443".into(),
            microseconds: 1_234,
            outcome: "connected".into(),
            ..ReachStep::default()
        };
        assert_eq!(line(&step), "connect  10.0.2.2:6443  1.23 ms  connected\n");
        step.outcome.clear();
        step.error = "connection refused\u{1b}".into();
        step.meaning = "nothing listens at port 6443".into();
        assert_eq!(
            line(&step),
            "connect  10.0.2.2:6443  1.23 ms  FAILED: connection refused\\u{1b}: nothing \
             listens at port 6443\n"
        );
    }

    #[test]
    fn programs_get_the_result_also_if_the_target_is_not_reached() {
        let mut result = ReachResult { reached: false, summary: "no".into() };
        let json: serde_json::Value = serde_json::from_str(&end(&result, ListForm::Json)).unwrap();
        assert_eq!(json["reached"], false);
        assert_eq!(end(&result, ListForm::Table), "");
        result.reached = true;
        assert_eq!(end(&result, ListForm::Table), "no\n");
    }
}
