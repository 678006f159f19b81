//! The State API of `osd` beside that of the Go runtime
//! (`https://github.com/cosi-project/runtime`): the same client, 10,000 resources and 100 watchers.

use super::processor_time::processor_time;
use super::{Measure, Row};
use crate::child::tied;
use crate::go_module::GoModule;
use crate::site::Site;
use crate::state_api::{Program, osd_of_node};
use osbuild::error::{Context, Error, Result};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The client, which is the server of the runtime too.
const CLIENT: GoModule = GoModule {
    name: "state-load",
    words: &["build"],
    files: [
        ("main.go", include_str!("go/main.go")),
        ("go.mod", include_str!("go/go.mod")),
        ("go.sum", include_str!("go/go.sum")),
    ],
};

/// The numbers of the client: the name of each, its row, and the calls or events in its time.
const RATES: [(&str, &str, f64); 4] = [
    ("create", "10,000 resources made", 10_000.0),
    ("get", "10,000 resources read", 10_000.0),
    ("fan_out", "20,000 events received by 100 watchers", 20_000.0),
    ("destroy", "10,000 resources destroyed", 10_000.0),
];

/// The aims: half of the time, and a third of the memory.
const TIME: f64 = 0.5;
const MEMORY: f64 = 0.34;

/// The numbers of one server.
struct Load {
    /// Of the client.
    printed: Value,
    /// The memory of the server after that, in bytes.
    resident: u64,
    /// The processor time of the server.
    used: Duration,
}

pub fn rows(site: &Site) -> Result<Vec<Row>> {
    let (client, osd) = (CLIENT.compile(site)?, osd_of_node(site)?);
    let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let [socket, other] = ["osd", "runtime"].map(|name| folder.path().join(name));
    let own = load(site, &client, Program::start(&osd, &socket)?, &socket)?;
    let mut runtime = tied(&client);
    runtime.arg("serve").arg(&other);
    let runtime = load(site, &client, Program::spawn(&mut runtime, &other)?, &other)?;

    let mut rows = Vec::new();
    for (name, text, count) in RATES {
        let time = |load: &Load| load.number(name).map(|rate| seconds(count / rate));
        rows.push(Row::beside(format!("state: {text}"), time(&own)?, time(&runtime)?, TIME));
    }
    let list = |load: &Load| load.number("list").map(seconds);
    rows.push(Row::beside("state: 10,000 resources listed", list(&own)?, list(&runtime)?, TIME));
    let used = |load: &Load| Measure::Time(load.used);
    rows.push(Row::beside("state: processor time of the server", used(&own), used(&runtime), TIME));
    let [own, runtime] = [own, runtime].map(|load| Measure::Size(load.resident));
    rows.push(Row::beside("state: memory of the server", own, runtime, MEMORY));
    Ok(rows)
}

/// Runs the client against a server that listens on the socket.
fn load(site: &Site, client: &Path, server: Program, socket: &Path) -> Result<Load> {
    let ran = site.finish("bench-state", Command::new(client).arg("load").arg(socket))?;
    let printed = serde_json::from_str(&ran.output)
        .or_build(|| format!("cannot read the output of the client: {}", ran.output))?;
    let used = processor_time(server.id())?;
    Ok(Load { printed, resident: server.resident()?, used })
}

impl Load {
    fn number(&self, name: &str) -> Result<f64> {
        let number = self.printed[name].as_f64();
        number.ok_or_else(|| Error::build(format!("the client prints no number `{name}`")))
    }
}

fn seconds(number: f64) -> Measure {
    Measure::Time(Duration::from_secs_f64(number))
}
