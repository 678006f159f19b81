//! The probes of `[[static-pods]]`.

use osbuild_protocol::{PodText, ProbeAction, ProbeTiming};
use serde::{Deserialize, Deserializer};

use super::container::Text;

/// A probe as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Entry {
    exec: Option<Exec>,
    http_get: Option<HttpGet>,
    tcp_socket: Option<TcpSocket>,
    #[serde(default)]
    initial_delay_seconds: u32,
    #[serde(default)]
    period_seconds: u32,
    #[serde(default)]
    timeout_seconds: u32,
    #[serde(default)]
    failure_threshold: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exec {
    command: Vec<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpGet {
    path: Option<Text>,
    port: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TcpSocket {
    port: u16,
}

/// A probe with one action.
#[derive(Deserialize)]
#[serde(try_from = "Entry")]
pub(super) struct Probe(pub osbuild_protocol::Probe);

impl TryFrom<Entry> for Probe {
    type Error = String;

    fn try_from(entry: Entry) -> Result<Self, String> {
        let read = || {
            let action = match (entry.exec, entry.http_get, entry.tcp_socket) {
                (Some(Exec { command }), None, None) => {
                    ProbeAction::Exec(command.into_iter().map(|Text(text)| text).collect())
                }
                (None, Some(HttpGet { path, port }), None) => {
                    let path = path.map(|Text(path)| path);
                    let path = path.map_or_else(|| PodText::new("/"), Ok)?;
                    ProbeAction::HttpGet { port, path }
                }
                (None, None, Some(TcpSocket { port })) => ProbeAction::TcpSocket { port },
                _ => return Ok(None),
            };
            let timing = ProbeTiming {
                initial_delay: entry.initial_delay_seconds,
                period: entry.period_seconds,
                timeout: entry.timeout_seconds,
                failures: entry.failure_threshold,
            };
            osbuild_protocol::Probe::new(action, timing).map(Some)
        };
        let read: Result<_, osbuild_protocol::Refusal> = read();
        let probe = read.map_err(|refusal| refusal.reason)?;
        let one = "a probe has one of `exec`, `http-get` and `tcp-socket`";
        probe.map(Self).ok_or_else(|| one.to_owned())
    }
}

/// Reads a probe that is there.
pub(super) fn optional<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Probe>, D::Error> {
    Probe::deserialize(d).map(Some)
}
