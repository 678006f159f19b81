//! Carries out what the trial of the slot, its reach and an update lead to.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use osbuild_abi::console::{SLOT, SLOT_GOOD, SLOT_LATE};
use osbuild_failure::Outcome;
use osbuild_protocol::{Refusal, Reply};

use super::{Dispatcher, End, Program};
use crate::disk_worker::Job;
use crate::disk_worker::waiting::Wants;
use crate::host::sysctl;
use crate::slot::boot_source::{Occupied, OpenedSlot, TrialFacts};
use crate::slot::content;
use crate::slot::reached::{Action, Reach};
use crate::slot::trial::{RETRY, Trial};
use crate::slot::update_job::{self, UpdateJob, Work};
use crate::sockets::{Answer, ClientId};
use crate::uptime::uptime;

/// The name of the phase that finds the slot, and of the lines about slots.
const NAME: &str = "slot";

impl Dispatcher {
    /// Prints which slot runs, and what the other one holds.
    pub(super) fn print_slots(&mut self, slots: Vec<Occupied>) {
        let reason = self.facts.boot_source.reason().unwrap_or_default();
        for occupied in slots {
            let (name, contents) = (occupied.slot.name, occupied.contents.words());
            if occupied.runs {
                self.console.line(&format!("{SLOT}{name}, {contents}: {reason}"));
            } else {
                let state = content::state(&occupied.slot).words();
                let text = format_args!("the other one is {name}, {contents}: {state}");
                self.console.say(NAME, text);
            }
        }
    }

    /// Sets the deadline of a slot on trial. `reached` is what the slots have reached.
    pub(super) fn begin_trial(&mut self, facts: TrialFacts, reached: &str) -> Outcome {
        let deadline = self.facts.command_line().gate_deadline;
        let on_trial = facts.on_trial;
        self.trial = Trial::new(on_trial, facts.has_other, deadline);
        let slot = self.facts.boot_source.slot();
        let (reach, actions) = Reach::new(slot, facts, reached, deadline);
        self.reach = reach;
        self.carry_out_reach(actions);
        if on_trial { Ok(()) } else { sysctl::disable_hung_task_panic() }
    }

    /// The node is ready: has its gate hold for as long as the board says.
    pub(super) fn hold_gate(&mut self) {
        if self.trial.is_on()
            && let Err(failure) = self.run(Program::Trial)
        {
            self.console.say(Program::Trial.name(), failure);
        }
    }

    /// The gate has held: the slot is a good one, unless it lacks what the slot before had reached.
    /// If the mark cannot be written, it is tried again later.
    pub(super) fn on_trial_held(&mut self) {
        let (is_missing, actions) = self.reach.on_held();
        self.carry_out_reach(actions);
        if !is_missing {
            self.trial.on_held();
            self.ask(Job::MarkGood);
        }
    }

    /// The slot that runs was marked as a good one, or that has failed.
    pub(super) fn on_marked_good(
        &mut self,
        outcome: Outcome<&'static str>,
        is_still_on_trial: bool,
    ) {
        match outcome {
            Ok(name) => self.console.line(&format!("{SLOT_GOOD}{name}")),
            Err(failure) => self.console.say(Program::Trial.name(), failure),
        }
        if let Err(failure) = sysctl::disable_hung_task_panic() {
            self.console.say(Program::Trial.name(), failure);
        }
        self.trial.on_marked(is_still_on_trial);
        if !is_still_on_trial {
            let actions = self.reach.on_good();
            self.carry_out_reach(actions);
            self.on_ready_with_settings();
        } else if let Some(trial) = self.processes.get_mut(Program::Trial) {
            trial.run_again(uptime() + RETRY);
        }
    }

    /// The deadline of the slot on trial may have passed: then the node goes back to the other
    /// one.
    pub(super) fn on_trial_deadline(&mut self, now: Duration) {
        if self.end.is_some() || !self.trial.is_over(now) {
            return;
        }
        let actions = self.reach.on_going_back();
        self.carry_out_reach(actions);
        let name = self.facts.boot_source.slot().unwrap_or("the slot that runs");
        self.console
            .line(&format!("{SLOT_LATE}{name} in time: the node reboots for the other one"));
        self.request_end(End::Reboot);
    }

    pub(super) fn carry_out_reach(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Keep(text) => drop(self.ask(Job::KeepReached(text))),
                Action::Say(text) => self.console.say(NAME, text),
                Action::HoldAgain => {
                    if let Some(trial) = self.processes.get_mut(Program::Trial) {
                        trial.run_again(uptime());
                    }
                }
            }
        }
    }

    /// Has the other slot opened for an update, for which `client` waits.
    pub(super) fn open_slot(&mut self, client: ClientId) -> Result<(), Refusal> {
        update_job::check_free(self.update.as_ref())?;
        self.ask_for(client, Wants::Disk, Job::OpenSlot)
    }

    /// The other slot was opened, or that has failed. If the client has gone, the slot stays out of
    /// use until an update is written.
    pub(super) fn on_slot_opened(
        &mut self,
        client: Option<ClientId>,
        opened: Result<OpenedSlot, Refusal>,
    ) {
        let outcome = opened.map(|OpenedSlot { name, partition, length }| {
            let actions = self.reach.on_update();
            self.carry_out_reach(actions);
            self.console.say(NAME, format_args!("{name} is opened for an update"));
            Answer { reply: Reply::Slot { length }, descriptor: Some(partition) }
        });
        self.answer(client, outcome);
    }

    /// Begins a part of an update: finds its partition. The client waits.
    pub(super) fn begin_update_job(
        &mut self,
        work: Work,
        client: ClientId,
        input: Option<OwnedFd>,
    ) -> Result<Option<Answer>, Refusal> {
        update_job::check_free(self.update.as_ref())?;
        self.ask_for(client, Wants::Disk, Job::FindPartition(work))?;
        self.update = Some(UpdateJob { work, client, input });
        Ok(None)
    }

    /// The partition was found, or that has failed: a child goes on. If the client has gone, there
    /// is no update any more.
    pub(super) fn on_partition_found(
        &mut self,
        client: Option<ClientId>,
        device: Result<PathBuf, Refusal>,
    ) {
        let (Some(client), Some(UpdateJob { work, input, .. })) = (client, &mut self.update) else {
            return;
        };
        let (work, input) = (*work, input.take());
        let started = device.and_then(|device| {
            let launch = work.launch(&device, input)?;
            self.run_as(work.program(), launch).map_err(Refusal::from)
        });
        if let Err(refusal) = started {
            self.update = None;
            self.sockets.reply(client, Err(refusal));
        }
    }

    /// The child of a part of an update has ended.
    pub(super) fn on_update_job(&mut self, succeeded: bool, report: &str) {
        let Some(&UpdateJob { work, client, .. }) = self.update.as_ref() else { return };
        match (update_job::outcome(succeeded, report), work) {
            (Ok(()), Work::Try | Work::RollBack) => {
                if let Err(refusal) = self.ask_for(client, Wants::Disk, Job::MarkForTry) {
                    self.end_update_job(Err(refusal.into()));
                }
            }
            (outcome, _) => self.end_update_job(outcome),
        }
    }

    /// The other slot was marked as the one to boot next, or that has failed.
    pub(super) fn on_marked_for_try(
        &mut self,
        client: Option<ClientId>,
        marked: Outcome<&'static str>,
    ) {
        let outcome = marked.map(|name| {
            let actions = self.reach.on_try();
            self.carry_out_reach(actions);
            self.console.say(NAME, format_args!("{name} is booted next"));
        });
        // A client that waits no longer has no update, and another one may have begun its own.
        if client.is_some() {
            let goes_back = self.update.as_ref().is_some_and(|job| job.work == Work::RollBack);
            let reboots = goes_back && outcome.is_ok();
            self.end_update_job(outcome);
            if reboots {
                self.request_end(End::Reboot);
            }
        }
    }

    fn end_update_job(&mut self, outcome: Outcome) {
        let Some(UpdateJob { work, client, .. }) = self.update.take() else { return };
        if let Err(failure) = &outcome {
            self.console.say(work.program().name(), failure);
        }
        self.reply(Some(client), outcome);
    }
}
