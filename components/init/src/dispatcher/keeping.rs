//! Writes the settings to DATA.

use std::time::Duration;

use osbuild_failure::Outcome;
use osbuild_protocol::Refusal;

use super::Dispatcher;
use crate::disk_worker::Job;
use crate::disk_worker::waiting::Wants;
use crate::host::settings::fallback::Proof;
use crate::sockets::ClientId;
use crate::uptime::uptime;

impl Dispatcher {
    /// Writes the settings, for which a client waits.
    pub(super) fn keep_settings(&mut self, client: ClientId) -> Result<(), Refusal> {
        let asked = self.ask_for(client, Wants::Disk, Job::KeepSettings(self.settings.text()));
        match &asked {
            Ok(()) => {
                self.unkept.on_younger_settings();
                self.keeping.on_begun();
            }
            Err(refusal) => {
                self.on_kept(Err(&refusal.reason), uptime());
                self.keeping.on_refused(uptime());
            }
        }
        asked
    }

    /// The settings were written, or not.
    pub(super) fn on_settings_kept(&mut self, client: Option<ClientId>, outcome: Outcome) {
        let reason = outcome.as_ref().err().map(ToString::to_string);
        self.on_kept(reason.as_deref().map_or(Ok(()), Err), uptime());
        self.reply(client, outcome);
    }

    /// Writes which labels requests set on the node's object, unless DATA has that: before the
    /// cluster gets them, and when it has removed some.
    pub(super) fn keep_labels(&mut self) {
        if let Some(text) = self.settings.registration().to_keep()
            && self.ask(Job::KeepLabels(text.clone())).is_some()
        {
            self.settings.registration_mut().on_keeping(text);
        }
    }

    /// They were written, or not.
    pub(super) fn on_labels_kept(&mut self, outcome: Outcome) {
        if let Err(failure) = outcome {
            self.settings.registration_mut().on_not_kept();
            self.say_about_settings([failure.to_string()]);
        }
    }

    /// Writes the settings again which could not be written.
    pub(super) fn on_keeping_due(&mut self, now: Duration) {
        // The same disk may not have taken these either.
        self.keep_labels();
        self.keep_settings_unasked(now);
    }

    /// Writes the settings, for which no client waits. Those of a try are not kept. Earlier ones
    /// that are in effect because of a failure replace none.
    pub(super) fn keep_settings_unasked(&mut self, now: Duration) {
        let may_keep = !self.settings.is_trying() && self.settings.admit().is_ok();
        match may_keep.then(|| self.ask(Job::KeepSettings(self.settings.text()))).flatten() {
            Some(_) => {
                self.unkept.on_younger_settings();
                self.keeping.begin();
            }
            // The next attempt. The reason of the first failure is on the console.
            None => self.keeping.on_refused(now),
        }
    }

    /// Keeps what the node has shown about its settings, after what it has shown before.
    pub(super) fn keep_proof(&mut self, proof: Proof) {
        let earlier = self.unkept.take();
        earlier.into_iter().chain([proof]).for_each(|proof| self.ask_to_keep(proof));
    }

    /// Keeps again what could not be kept.
    pub(super) fn keep_proofs_again(&mut self) {
        self.unkept.take().into_iter().for_each(|proof| self.ask_to_keep(proof));
    }

    fn ask_to_keep(&mut self, proof: Proof) {
        if let Err(failure) = self.disk.ask(Job::KeepProof(proof.clone()), uptime()) {
            self.on_proof_kept(proof, Err(failure));
        }
    }

    /// A proof was kept, or not.
    pub(super) fn on_proof_kept(&mut self, proof: Proof, outcome: Outcome) {
        let line = match outcome {
            Ok(()) => {
                let are_kept = self.unkept.on_kept();
                are_kept.then(|| "what the node has proved of them is kept now".to_owned())
            }
            Err(failure) => {
                let (reason, about) = (failure.to_string(), "what the node has proved of them");
                let line = format!("{about} is not kept, and tried again: {reason}");
                self.unkept.on_failed(proof, reason, uptime()).then_some(line)
            }
        };
        self.say_about_settings(line);
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
    use osbuild_protocol::NodeLabel;
    use osbuild_ranks::Source;

    use crate::disk_worker::Done;
    use crate::dispatcher::settings::tests::{node_on, reply};
    use crate::event_loop::Deadline;
    use crate::host::settings::fallback::{Fallback, Kept};
    use crate::host::settings::keeping::{Keeping, RETRY};
    use crate::processes::process::Exit;
    use crate::processes::program::Program;

    #[test]
    fn labels_that_the_cluster_has_are_kept_until_a_disk_takes_them() {
        let folder = tempfile::tempdir().unwrap();
        let (writes, written) = channel();
        let mut is_full = true;
        let run = move |job| {
            let Job::KeepLabels(text) = job else { return Done::Plain(Ok(())) };
            writes.send(text).unwrap();
            let full = std::mem::take(&mut is_full);
            Done::LabelsKept(if full { Err(Failure::new("no space left")) } else { Ok(()) })
        };
        let (mut node, _clients) = node_on(folder.path(), run);
        let label = NodeLabel::parse("rack", "8").unwrap();
        node.settings.registration_mut().apply_label(Source::Api, &label, uptime()).unwrap();
        node.on_exit(Program::Cluster, Exit::Done);
        assert_eq!(written.recv().unwrap(), "rack\n");
        while node.settings.registration().to_keep().is_none() {
            node.turn();
        }
        node.on_keeping_due(uptime());
        assert_eq!(written.recv().unwrap(), "rack\n");
        assert_eq!(node.settings.registration().to_keep(), None);
    }

    #[test]
    fn a_proof_that_a_disk_did_not_take_is_kept_again() {
        let folder = tempfile::tempdir().unwrap();
        let (writes, written) = channel();
        let mut is_full = true;
        let run = move |job| {
            let Job::KeepProof(proof) = job else { return Done::Plain(Ok(())) };
            writes.send(proof.clone()).unwrap();
            let full = std::mem::take(&mut is_full);
            let outcome = if full { Err(Failure::new("no space left")) } else { Ok(()) };
            Done::ProofKept(proof, outcome)
        };
        let (mut node, _clients) = node_on(folder.path(), run);
        let good = || Proof::Good("host-name a\n".to_owned());
        node.keep_proof(good());
        assert_eq!(written.recv().unwrap(), good());
        while node.unkept.deadline().is_none() {
            node.turn();
        }
        let due = node.unkept.deadline();
        assert!(
            node.deadlines().iter().any(|(one, at)| *one == Deadline::Proofs && Some(*at) == due)
        );
        node.keep_proof(Proof::NoFailure);
        assert_eq!([written.recv().unwrap(), written.recv().unwrap()], [good(), Proof::NoFailure]);
        while node.disk.left() > 0 {
            node.turn();
        }
        assert_eq!(node.unkept.deadline(), None);
    }

    #[test]
    fn settings_of_a_client_are_not_replaced_by_those_to_which_the_node_had_gone_back() {
        let folder = tempfile::tempdir().unwrap();
        let (writes, written) = channel();
        let run = move |job| match job {
            Job::KeepProof(proof) => Done::ProofKept(proof, Err(Failure::new("no space left"))),
            Job::KeepAcknowledged => Done::Acknowledged(Ok(())),
            Job::KeepSettings(text) => {
                writes.send(text).unwrap();
                Done::SettingsKept(Ok(()))
            }
            _ => Done::Plain(Ok(())),
        };
        let (mut node, [_, mut host]) = node_on(folder.path(), run);
        let kept = Kept { is_unacknowledged: true, ..Kept::default() };
        node.start_settings(Fallback::new(kept, false));
        node.keep_proof(Proof::TakenBack(String::new()));
        host.write_all(b"revert\n").unwrap();
        assert_eq!(reply(&mut node, &mut host), "ok\n");
        assert_eq!(written.recv().unwrap(), "", "the disk gets what is in effect");
        assert_eq!(node.unkept.deadline(), None);
    }

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
