//! Writes the settings to DATA.

use std::time::Duration;

use osbuild_failure::Outcome;
use osbuild_protocol::Refusal;

use super::Dispatcher;
use crate::disk_worker::Job;
use crate::disk_worker::waiting::Wants;
use crate::sockets::ClientId;
use crate::uptime::uptime;

impl Dispatcher {
    /// Writes the settings, for which a client waits.
    pub(super) fn keep_settings(&mut self, client: ClientId) -> Result<(), Refusal> {
        let asked = self.ask_for(client, Wants::Disk, Job::KeepSettings(self.settings.text()));
        if let Err(refusal) = &asked {
            self.on_kept(Err(&refusal.reason), uptime());
        }
        asked
    }

    /// The settings were written, or not.
    pub(super) fn on_settings_kept(&mut self, client: Option<ClientId>, outcome: Outcome) {
        let reason = outcome.as_ref().err().map(ToString::to_string);
        self.on_kept(reason.as_deref().map_or(Ok(()), Err), uptime());
        self.reply(client, outcome);
    }

    /// Writes the settings again which could not be written. Those of a try are not kept, and
    /// earlier ones that are in effect because of a failure replace none.
    pub(super) fn on_keeping_due(&mut self, now: Duration) {
        let may_keep = !self.settings.is_trying() && self.settings.admit().is_ok();
        match may_keep.then(|| self.ask(Job::KeepSettings(self.settings.text()))).flatten() {
            Some(_) => self.keeping.begin(),
            // The next attempt. The reason of the first failure is on the console.
            None => {
                self.keeping.on_written(false, now);
            }
        }
    }

    fn on_kept(&mut self, kept: Result<(), &str>, now: Duration) {
        if !self.keeping.on_written(kept.is_ok(), now) {
            return;
        }
        self.say_about_settings([match kept {
            Ok(()) => "what is in effect is kept now".to_owned(),
            Err(reason) => format!("what is in effect is not kept, and tried again: {reason}"),
        }]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::mpsc::channel;

    use osbuild_failure::Failure;

    use crate::disk_worker::Done;
    use crate::dispatcher::settings::tests::{node_on, reply};
    use crate::host::settings::keeping::{Keeping, RETRY};

    #[test]
    fn settings_that_a_disk_did_not_take_are_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let (writes, written) = channel();
        let run = move |job| {
            let Job::KeepSettings(text) = job else { return Done::Plain(Ok(())) };
            let is_first = !text.is_empty() && writes.send(text).is_ok();
            let full = || Failure::new("no space left");
            Done::SettingsKept(if is_first { Err(full()) } else { Ok(()) })
        };
        let (mut node, [_, mut host]) = node_on(folder.path(), run);
        host.write_all(b"apply link br0 made bridge\n").unwrap();
        assert!(reply(&mut node, &mut host).contains("no space left"));
        let line = written.recv().unwrap();
        assert!(node.keeping.deadline().is_some());
        drop(written);
        node.on_keeping_due(uptime() + RETRY);
        assert_eq!(node.keeping, Keeping::Again);
        while node.keeping == Keeping::Again {
            node.turn();
        }
        assert_eq!((node.keeping, node.settings.text()), (Keeping::Kept, line));
    }
}
