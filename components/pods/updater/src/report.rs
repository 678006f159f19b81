//! Reports to `init` what the updater does.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use osbuild_protocol::{Client, ClientError, ReportText, Request, UpdatePhase, UpdateReport};

use crate::check::now;

/// How long to wait for `init`.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The shortest time between two reports of a download.
const INTERVAL: Duration = Duration::from_secs(2);

/// The reports. A report that fails is only printed: no update depends on it.
pub struct Reporter {
    socket: PathBuf,
    state: RefCell<State>,
}

/// The next report, and the connection, by which `init` knows that the updater still runs.
struct State {
    report: UpdateReport,
    client: Option<Client>,
    /// When a download was reported last.
    reported: Option<Instant>,
    /// The last error that was printed.
    error: String,
}

impl Reporter {
    /// Reports to the `init` at this socket, from the first check on.
    pub fn new(socket: PathBuf) -> Reporter {
        let report = UpdateReport {
            text: ReportText::new("the first check has not ended yet"),
            phase: UpdatePhase::Checking,
            offered: None,
            checked: None,
            next_check: None,
        };
        let (reported, error) = (None, String::new());
        Reporter { socket, state: RefCell::new(State { report, client: None, reported, error }) }
    }

    /// The first check begins.
    pub fn on_start(&self) {
        self.send(|_| {});
    }

    /// The channel offers this version, which the next report has.
    pub fn on_offered(&self, version: &str) {
        self.state.borrow_mut().report.offered = Some(version.to_owned());
    }

    /// So many bytes of `total` have been written to the slot. Only some calls make a report.
    pub fn on_received(&self, received: u64, total: u64) {
        let before = self.state.borrow().reported;
        if before.is_some_and(|at| at.elapsed() < INTERVAL) {
            return;
        }
        self.state.borrow_mut().reported = Some(Instant::now());
        let phase = UpdatePhase::Downloading { received: received.min(total), total };
        self.enter(phase, "is written to the other slot");
    }

    /// The release is in the other slot.
    pub fn on_installed(&self) {
        self.enter(UpdatePhase::Installed, "is installed, and waits for the reboot");
    }

    /// A check has ended, and the next one begins after `pause`.
    pub fn on_checked(&self, phase: UpdatePhase, text: &str, pause: Duration) {
        self.send(|report| {
            (report.phase, report.text) = (phase, ReportText::new(text));
            report.checked = Some(now());
            report.next_check = Some(now().saturating_add(pause.as_secs()));
        });
    }

    /// Reports a phase of a check. `what` is what becomes of the release.
    fn enter(&self, phase: UpdatePhase, what: &str) {
        self.send(|report| {
            let version = report.offered.as_deref().unwrap_or("the release");
            (report.phase, report.text) = (phase, ReportText::new(&format!("{version} {what}")));
            report.next_check = None;
        });
    }

    /// Sends the report after a change.
    fn send(&self, change: impl FnOnce(&mut UpdateReport)) {
        let mut state = self.state.borrow_mut();
        change(&mut state.report);
        let request = Request::Progress(state.report.clone());
        // `init` may have closed a connection of before.
        let kept = state.client.take().and_then(|client| sent(client, &request).ok());
        let sent = kept.map_or_else(
            || Client::connect(&self.socket, TIMEOUT).and_then(|client| sent(client, &request)),
            Ok,
        );
        match sent {
            Ok(client) => state.client = Some(client),
            Err(error) if error.to_string() == state.error => {}
            Err(error) => {
                eprintln!("report to init: {error}");
                state.error = error.to_string();
            }
        }
    }
}

fn sent(mut client: Client, request: &Request) -> Result<Client, ClientError> {
    client.send(request).map(|()| client)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::Path;
    use std::thread::{self, JoinHandle};

    /// An `init` that takes so many reports on each of its connections, one after another, and
    /// returns them.
    fn init(socket: &Path, connections: &'static [usize]) -> JoinHandle<Vec<String>> {
        let listener = UnixListener::bind(socket).unwrap();
        thread::spawn(move || {
            let reports = connections.iter().flat_map(|count| {
                let (stream, _) = listener.accept().unwrap();
                take(&stream, *count)
            });
            reports.collect()
        })
    }

    fn take(mut stream: &UnixStream, count: usize) -> Vec<String> {
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let mut reports = Vec::new();
        for _ in 0..count {
            reports.push(lines.next().unwrap().unwrap());
            stream.write_all(b"ok\n").unwrap();
        }
        reports
    }

    #[test]
    fn reports_share_a_connection_and_follow_a_closed_one_by_another() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let (reporter, init) = (Reporter::new(socket.clone()), init(&socket, &[2, 1]));
        reporter.on_start();
        reporter.on_offered("2");
        reporter.on_installed();
        reporter.on_checked(UpdatePhase::Failed, "no server\n", Duration::from_secs(60));
        let reports = init.join().unwrap();
        assert_eq!(
            reports[..2],
            [
                "progress the first check has not ended yet [phase=checking]",
                "progress 2 is installed, and waits for the reboot [phase=installed offered=2]"
            ]
        );
        let start = "progress no server [phase=failed offered=2 checked=";
        assert!(reports[2].starts_with(start) && reports[2].contains(" next="), "{reports:?}");
    }

    #[test]
    fn a_download_is_reported_now_and_then() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let (reporter, init) = (Reporter::new(socket.clone()), init(&socket, &[1]));
        (0..1000).for_each(|received| reporter.on_received(received, 1000));
        let text = "progress the release is written to the other slot";
        let fields = "[phase=downloading received=0 of=1000]";
        assert_eq!(init.join().unwrap(), [format!("{text} {fields}")]);
    }

    #[test]
    fn an_init_that_is_missing_or_closes_the_connection_holds_up_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let reporter = Reporter::new(socket.clone());
        reporter.on_start();
        let init = init(&socket, &[0, 0]);
        reporter.on_start();
        reporter.on_installed();
        init.join().unwrap();
    }
}
