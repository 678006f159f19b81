//! Carries out the phases of the shutdown.

use std::time::Duration;

use osbuild_failure::Outcome;
use rustix::process::Signal;

use super::Dispatcher;
use crate::disk_worker::Job;
use crate::host::sysctl;
use crate::logind::{self, Change};
use crate::processes::program::Program;
use crate::sequence::{Machine, Phase};
use crate::shutdown::power::End;
use crate::shutdown::{NAME, Step, disks};
use crate::sys;
use crate::uptime::uptime;
use crate::work::Work;

impl Machine<Step> for Dispatcher {
    fn start(&mut self, step: Step) -> Outcome {
        match step {
            Step::Begin => {
                self.console.say(NAME, "begins");
                // A disk that is slow from now on must not restart the node. The kernel may not
                // look for hung tasks at all.
                let _ = sysctl::disable_hung_task_panic();
                Ok(())
            }
            Step::Announce => {
                self.logind.announce(uptime());
                let seconds = self.logind.delay().as_secs();
                let holders: Vec<String> = self.logind.holders().map(quoted).collect();
                if !holders.is_empty() {
                    let text = format!("waits for {}, {seconds} s at most", holders.join(", "));
                    self.console.say(NAME, text);
                }
                Ok(())
            }
            Step::Stop(program, grace) => {
                if let Some(process) = self.processes.get_mut(program) {
                    process.stop(uptime(), grace);
                }
                Ok(())
            }
            Step::StopPods => self.stop_pods(),
            Step::Terminate => {
                sys::signal_everybody(Signal::TERM);
                Ok(())
            }
            Step::Kill => {
                sys::signal_everybody(Signal::KILL);
                Ok(())
            }
            Step::EndJobs => {
                if self.clock.keeps() {
                    self.ask(Job::KeepClock);
                }
                self.disk.close();
                // Nothing waits for this one: it writes nothing, and may never end.
                self.volumes.close();
                Ok(())
            }
            Step::CloseLogs => {
                self.console.say(NAME, "unmounts");
                // The logs are on DATA.
                self.console.end_log();
                self.processes.clear();
                self.writer.close();
                Ok(())
            }
            Step::Flush => self.work_on(disks::flush_data),
            Step::Unmount => self.work_on(disks::unmount_all),
            Step::ReadOnly => self.work_on(disks::make_data_read_only),
            Step::Sync => {
                self.console.say(NAME, self.requested_end().name());
                self.work_on(disks::sync_all)
            }
            Step::End => self.requested_end().now(),
        }
    }

    fn ended(&mut self, phase: &'static Phase<Step>) {
        if phase.step == Step::Announce {
            let seconds = self.logind.since_announced(uptime()).unwrap_or_default().as_secs_f64();
            for holder in self.logind.holders() {
                let text =
                    format_args!("waits no longer for {} after {seconds:.1} s", quoted(holder));
                self.console.say(NAME, text);
            }
        }
    }
}

impl Dispatcher {
    /// A person or a hypervisor requests the end of the node. A second request ends the wait for
    /// pods.
    pub(super) fn on_person(&mut self, end: End) {
        let now = uptime();
        if self.hurry.on_person(now) {
            self.console.say(NAME, "hurries, and does not wait for pods any longer");
            if let Some(stop) = self.processes.get_mut(Program::StopPods) {
                stop.stop(now, Duration::ZERO);
            }
        }
        self.request_end(end);
    }

    /// A lock that delays a shutdown was taken or given up.
    pub(super) fn on_inhibitor(&mut self, change: Change) {
        let now = uptime();
        match (change, self.logind.since_announced(now)) {
            (Change::Taken(who), _) => {
                let (who, seconds) = (quoted(&who), self.logind.delay().as_secs());
                let text = format_args!("{who} may delay a shutdown by {seconds} s");
                self.console.say(logind::NAME, text);
            }
            (Change::GivenUp(who), Some(waited)) => {
                let text = format!("{} is done after {:.1} s", quoted(&who), waited.as_secs_f64());
                self.console.say(NAME, text);
            }
            (Change::GivenUp(_), None) => {}
        }
    }

    fn requested_end(&self) -> End {
        self.end.unwrap_or(End::Reboot)
    }

    fn work_on(&mut self, work: fn() -> Outcome) -> Outcome {
        self.work = Some(Work::start(work));
        Ok(())
    }

    fn stop_pods(&mut self) -> Outcome {
        if self.hurry.is_on() {
            return Ok(());
        }
        // Before the kubelet's first start there are none, and without containerd they cannot be
        // asked.
        let has_pods = self.processes.get(Program::Kubelet).is_some();
        if has_pods && self.processes.is_running(Program::Containerd) {
            return self.run(Program::StopPods);
        }
        Ok(())
    }
}

fn quoted(name: &str) -> String {
    format!("`{name}`")
}
