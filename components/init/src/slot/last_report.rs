//! The last report of the updater.

use std::path::Path;

use osbuild_abi::paths::UPDATE_SETTINGS;
use osbuild_protocol::{UpdateReport, UpdaterState};

use crate::sockets::ClientId;

/// The report, when it arrived in seconds since 1970, and the client that made it. It is in memory
/// alone.
#[derive(Debug, Default)]
pub struct LastReport(Option<(UpdateReport, u64, ClientId)>);

impl LastReport {
    /// Keeps a report in the place of the last one.
    pub fn on_report(&mut self, report: UpdateReport, now: u64, client: ClientId) {
        self.0 = Some((report, now, client));
    }

    /// The state of the updater, which runs as long as the client `is_connected` that made the
    /// report.
    pub fn state(&self, is_connected: impl Fn(ClientId) -> bool) -> UpdaterState {
        match &self.0 {
            Some((report, at, client)) => UpdaterState::Reported {
                report: report.clone(),
                at: *at,
                is_running: is_connected(*client),
            },
            None if Path::new(UPDATE_SETTINGS).exists() => UpdaterState::Unreported,
            None => UpdaterState::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_outlasts_its_updater_and_says_so() {
        let (client, mut last) = (ClientId::default(), LastReport::default());
        assert_eq!(last.state(|_| true), UpdaterState::None, "this machine has no such settings");
        for words in ["a [phase=checking]", "1 runs already [phase=idle offered=1]"] {
            last.on_report(UpdateReport::parse(words).unwrap(), 7, client);
        }
        for is_running in [true, false] {
            let report = UpdateReport::parse("1 runs already [phase=idle offered=1]").unwrap();
            let state = UpdaterState::Reported { report, at: 7, is_running };
            assert_eq!(last.state(|_| is_running), state);
        }
    }
}
