//! What the phases of the shutdown do.

use osbuild_failure::Outcome;
use rustix::process::Signal;

use super::Dispatcher;
use crate::disk_worker::Job;
use crate::host::sysctl;
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

    fn ended(&mut self, _: &'static Phase<Step>) {}
}

impl Dispatcher {
    fn requested_end(&self) -> End {
        self.end.unwrap_or(End::Reboot)
    }

    fn work_on(&mut self, work: fn() -> Outcome) -> Outcome {
        self.work = Some(Work::start(work));
        Ok(())
    }

    fn stop_pods(&mut self) -> Outcome {
        // Before the kubelet's first start there are none, and without containerd they cannot be
        // asked.
        let has_pods = self.processes.get(Program::Kubelet).is_some();
        if has_pods && self.processes.is_running(Program::Containerd) {
            return self.run(Program::StopPods);
        }
        Ok(())
    }
}
