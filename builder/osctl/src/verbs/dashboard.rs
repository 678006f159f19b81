//! `osctl dashboard`: shows nodes on a terminal screen until the user leaves.

use crate::dashboard::{
    Dashboard, Input, Node, Reading, Screen, Source, Theme, action, refuse_pipes,
};
use crate::error::{Error, Result};
use crate::known_nodes::KnownNodes;
use crate::selection::{Names, Selection};
use jiff::Timestamp;
use ratatui::crossterm::event::Event;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// The readings that may wait to be taken. A node that sends more waits.
const MAX_READINGS: usize = 256;

/// How often times are shown again that count down or up.
const TICK: Duration = Duration::from_secs(1);

/// The shortest time between two frames.
const FRAME: Duration = Duration::from_millis(40);

/// The exit code of a program that ends because of a signal, without its number.
const SIGNALLED: u8 = 128;

/// Shows the nodes until the user leaves or a signal ends it.
pub async fn run(selection: &Selection) -> Result<ExitCode> {
    refuse_pipes()?;
    let (sender, readings) = mpsc::channel(MAX_READINGS);
    // Dropping them ends them.
    let mut sources = JoinSet::new();
    let mut nodes = Vec::new();
    let known = selection.known()?;
    for (index, name) in names(selection, &known)?.into_iter().enumerate() {
        let node = known.get(Some(&name))?;
        nodes.push(Node::new(&name, &node.address.to_string()));
        sources.spawn(Source { index, node, readings: sender.clone() }.run());
    }
    // They must be caught before the terminal is set.
    let signals = Signals::catch()?;
    let screen = Screen::open()?;
    tokio::select! {
        shown = show(Dashboard::new(nodes), readings, screen, signals) => shown,
        // They read until they are dropped, so this one has panicked.
        _ = sources.join_next() => Err(Error::failed("cannot read a node any more")),
    }
}

/// The names of the nodes: those of the user, or that of the node that other verbs would ask.
fn names(selection: &Selection, known: &KnownNodes) -> Result<Vec<String>> {
    match selection.names()? {
        Names::Several(names) => Ok(names),
        Names::One(name) => Ok(vec![known.chosen(name.as_deref())?]),
    }
}

async fn show(
    mut dashboard: Dashboard,
    mut readings: mpsc::Receiver<(usize, Reading)>,
    mut screen: Screen,
    mut signals: Signals,
) -> Result<ExitCode> {
    let (theme, mut input) = (Theme::of_user(), Input::read());
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        screen.draw(&dashboard, theme, Timestamp::now())?;
        tokio::select! {
            biased;
            number = signals.next() => return Ok(ExitCode::from(SIGNALLED + number)),
            event = input.next() => {
                if let Event::Key(key) = event?
                    && let Some(action) = action(key, dashboard.is_writing)
                    && dashboard.act(action).is_break()
                {
                    return Ok(ExitCode::SUCCESS);
                }
                continue;
            }
            Some((index, reading)) = readings.recv() => {
                dashboard.take(index, reading, Timestamp::now());
            }
            _ = tick.tick() => {}
        }
        // A node that writes thousands of lines a second costs a few frames a second.
        sleep(FRAME).await;
        for _ in 0..MAX_READINGS {
            let Ok((index, reading)) = readings.try_recv() else { break };
            dashboard.take(index, reading, Timestamp::now());
        }
    }
}

/// The signals that end the program.
struct Signals([(u8, Signal); 3]);

impl Signals {
    fn catch() -> Result<Signals> {
        let catch = |kind: SignalKind| {
            let number = u8::try_from(kind.as_raw_value()).unwrap_or_default();
            signal(kind).map(|signal| (number, signal))
        };
        let cannot =
            |error: std::io::Error| Error::failed("cannot catch signals").caused_by(&error);
        let [hangup, interrupt, terminate] =
            [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()].map(catch);
        Ok(Signals([
            hangup.map_err(cannot)?,
            interrupt.map_err(cannot)?,
            terminate.map_err(cannot)?,
        ]))
    }

    /// The number of the next signal.
    async fn next(&mut self) -> u8 {
        let [(first, hangup), (second, interrupt), (third, terminate)] = &mut self.0;
        tokio::select! {
            _ = hangup.recv() => *first,
            _ = interrupt.recv() => *second,
            _ = terminate.recv() => *third,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::Credentials;
    use crate::known_nodes::KnownNode;
    use osbuild_protocol::Fingerprint;

    #[test]
    fn without_a_name_the_default_node_is_shown_alone() {
        let folder = tempfile::tempdir().unwrap();
        let known = KnownNodes::of_folder(folder.path());
        let node = KnownNode {
            address: "10.0.2.15:50000".parse().unwrap(),
            fingerprint: Fingerprint::of(&[0x0a; 32]),
            credentials: Credentials::Certificate("/keys/admin.pem".into()),
        };
        let shown = || names(&Selection::default(), &known);
        known.add("edge-1", &node).unwrap();
        assert_eq!(shown().unwrap(), ["edge-1"]);
        known.add("edge-2", &node).unwrap();
        assert!(shown().unwrap_err().to_string().contains("edge-1, edge-2"));
        known.set_default("edge-2").unwrap();
        assert_eq!(shown().unwrap(), ["edge-2"]);
    }
}
