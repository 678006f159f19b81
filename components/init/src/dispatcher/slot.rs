//! Carries out what the trial of the slot, its reach and an update lead to.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use osbuild_abi::console::{SLOT, SLOT_GOOD, SLOT_LATE};
use osbuild_failure::Outcome;
use osbuild_protocol::{Refusal, RefusalCode, Reply};
use osbuild_slots::other;

use super::{Dispatcher, End, Program};
use crate::host::sysctl;
use crate::slot::boot_source::OpenedSlot;
use crate::slot::content;
use crate::slot::reached::{self, Action, Reach};
use crate::slot::trial::{RETRY, Trial};
use crate::slot::update_job::{self, UpdateJob, Work};
use crate::sockets::ClientId;
use crate::uptime::uptime;

/// The name of the phase that finds the slot, and of the lines about slots.
const NAME: &str = "slot";

impl Dispatcher {
    /// Finds the slot that runs, and says which it is and what the other one is.
    pub(super) fn find_slot(&mut self) -> Outcome {
        self.facts.boot_source.find()?;
        let reason = self.facts.boot_source.reason().unwrap_or_default();
        for occupied in self.facts.boot_source.slots()? {
            let (name, contents) = (occupied.slot.name, occupied.contents.words());
            if occupied.runs {
                self.console.line(&format!("{SLOT}{name}, {contents}: {reason}"));
            } else {
                let state = content::state(&occupied.slot).words();
                let text = format_args!("the other one is {name}, {contents}: {state}");
                self.console.say(NAME, text);
            }
        }
        Ok(())
    }

    /// Sets the deadline of a slot on trial.
    pub(super) fn begin_trial(&mut self) -> Outcome {
        let source = &self.facts.boot_source;
        let deadline = self.facts.command_line().gate_deadline;
        let on_trial = source.is_on_trial()?;
        let has_other = on_trial && source.has_other().unwrap_or(false);
        let slot = source.slot();
        let others = slot.and_then(|name| source.held(other(name)));
        let (reach, actions) =
            Reach::new(slot, on_trial, &reached::read(), others.as_ref(), deadline);
        self.reach = reach;
        self.trial = Trial::new(on_trial, has_other, deadline);
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
        if is_missing {
            return;
        }
        let _cover = self.watchdog.cover();
        self.trial.on_held();
        match self.facts.boot_source.mark_good() {
            Ok(name) => self.console.line(&format!("{SLOT_GOOD}{name}")),
            Err(failure) => self.console.say(Program::Trial.name(), failure),
        }
        if let Err(failure) = sysctl::disable_hung_task_panic() {
            self.console.say(Program::Trial.name(), failure);
        }
        let source = &self.facts.boot_source;
        let still_on_trial = source.slot().is_some() && source.is_on_trial().unwrap_or(true);
        self.trial.on_marked(still_on_trial);
        if !still_on_trial {
            let actions = self.reach.on_good();
            self.carry_out_reach(actions);
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
        let source = &self.facts.boot_source;
        let actions = self.reach.on_going_back(|name| source.held(name));
        let name = source.slot().unwrap_or("the slot that runs");
        self.carry_out_reach(actions);
        self.console
            .line(&format!("{SLOT_LATE}{name} in time: the node reboots for the other one"));
        self.request_end(End::Reboot);
    }

    pub(super) fn carry_out_reach(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Keep(text) => {
                    if let Err(failure) = self.writer.begin(move || reached::keep(&text)) {
                        self.console.say(NAME, failure);
                    }
                }
                Action::Say(text) => self.console.say(NAME, text),
                Action::HoldAgain => {
                    if let Some(trial) = self.processes.get_mut(Program::Trial) {
                        trial.run_again(uptime());
                    }
                }
            }
        }
    }

    /// Opens the other slot for an update.
    pub(super) fn open_slot(&mut self) -> Result<OpenedSlot, Refusal> {
        update_job::check_free(self.update.as_ref())?;
        let opened = self.facts.boot_source.open_other()?;
        let actions = self.reach.on_update();
        self.carry_out_reach(actions);
        self.console.say(NAME, format_args!("{} is opened for an update", opened.name));
        Ok(opened)
    }

    /// Starts a part of an update, for which `client` waits.
    pub(super) fn start_update_job(
        &mut self,
        work: Work,
        client: ClientId,
        input: Option<OwnedFd>,
    ) -> Result<(), Refusal> {
        update_job::check_free(self.update.as_ref())?;
        let source = &self.facts.boot_source;
        let device: PathBuf = match work {
            Work::Try => source.other_device()?,
            Work::BootProgram => source.system_device()?,
        };
        if work == Work::BootProgram && input.is_none() {
            let reason = "no descriptor came with the line";
            return Err(Refusal::new(RefusalCode::NoDescriptor, reason));
        }
        self.run_as(work.program(), work.launch(&device, input))?;
        self.update = Some(UpdateJob { work, client });
        Ok(())
    }

    /// A part of an update has ended.
    pub(super) fn on_update_job(&mut self, succeeded: bool, report: &str) {
        let Some(UpdateJob { work, client }) = self.update.take() else { return };
        let _cover = self.watchdog.cover();
        let outcome = update_job::outcome(succeeded, report).and_then(|()| match work {
            Work::Try => self.mark_for_try(),
            Work::BootProgram => Ok(()),
        });
        if let Err(failure) = &outcome {
            self.console.say(work.program().name(), failure);
        }
        let outcome = outcome.map(|()| Reply::Done.into()).map_err(Refusal::from);
        self.sockets.reply(client, outcome);
    }

    fn mark_for_try(&mut self) -> Outcome {
        let name = self.facts.boot_source.mark_for_try()?;
        let actions = self.reach.on_update();
        self.carry_out_reach(actions);
        self.console.say(NAME, format_args!("{name} is booted next"));
        Ok(())
    }
}
