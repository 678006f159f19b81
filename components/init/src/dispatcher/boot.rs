//! Carries out the phases of the boot. Each gets the console and the facts that it needs, and
//! returns its findings.

use osbuild_failure::Outcome;
use osbuild_protocol::Single;
use osbuild_ranks::Source;

use super::Dispatcher;
use crate::boot::command_line::CommandLine;
use crate::boot::{CONTAINERD_RESET, Step, apparmor, limits, memory};
use crate::data::{log_files, mount, reset};
use crate::disk_worker::{Done, Job};
use crate::hardware::watchdog;
use crate::host::watch::Watch;
use crate::host::{cgroups, link, mounts, settings, sysctl};
use crate::processes::program::Program;
use crate::sequence::{Condition, Ends, Machine, Phase};

impl Machine<Step> for Dispatcher {
    fn start(&mut self, step: Step) -> Outcome {
        match step {
            Step::Mounts => self.mount_kernel(),
            Step::Watchdog => self.start_watchdog(),
            Step::Memory => {
                let wanted = self.facts.command_line().min_ram_mib;
                memory::check(wanted).iter().for_each(|line| self.console.line(line));
                Ok(())
            }
            Step::SecureBoot => self.ask_in_phase(Job::ReadSecurity),
            Step::Clock => {
                let line = self.clock.apply_epoch(self.facts.command_line().epoch)?;
                self.say_if("clock", line);
                Ok(())
            }
            Step::Limits => limits::set(),
            Step::Sysctl => {
                sysctl::apply()?.iter().for_each(|failure| self.console.say("sysctl", failure));
                Ok(())
            }
            Step::AppArmor => apparmor::load(),
            Step::Loopback => link::set_loopback_up(),
            Step::Data => {
                let in_memory = self.facts.command_line().data_in_memory;
                self.ask_in_phase(Job::MountData { in_memory })
            }
            Step::Reset => self.ask_in_phase(Job::EmptyData),
            Step::Slot => self.ask_in_phase(Job::FindSlot),
            Step::Deadline => self.ask_in_phase(Job::ReadTrial),
            Step::LastClock => self.ask_in_phase(Job::ReadClock),
            Step::MachineId => self.ask_in_phase(Job::MakeIdentity),
            Step::ContainerdReset => self.ask_in_phase(Job::ResetContainerd),
            Step::Writable => self.ask_in_phase(Job::MountWritable),
            Step::Logs => {
                self.console.keep_log(log_files::start(&self.writer, "init")?);
                self.look_at_data();
                Ok(())
            }
            Step::Panics => self.ask_in_phase(Job::MovePanics),
            Step::HostName => self.ask_in_phase(Job::ReadHostNames),
            Step::Settings => {
                let is_on_trial = self.trial.is_on();
                self.ask_in_phase(Job::ReadSettings { is_on_trial })
            }
            Step::Sockets => {
                self.sockets.open()?;
                self.logind.open()
            }
            Step::OldImages => self.ask_in_phase(Job::RemoveOldImages),
            Step::Containerd => self.run(Program::Containerd),
            Step::Images => self.run(Program::Images),
            Step::FreeImages => self.ask_in_phase(Job::FreeImages),
            Step::KubeletConfig => self.run(Program::KubeletConfig),
            Step::Kubelet => {
                self.start_kubelet();
                Ok(())
            }
            Step::Gate => self.run(Program::Gate),
        }
    }

    fn ended(&mut self, phase: &'static Phase<Step>) {
        // The end of a job is printed when it exits.
        if !matches!(phase.ends, Ends::When(Condition::Done(_), _)) {
            self.print_phase(phase.name);
        }
    }
}

impl Dispatcher {
    fn say_if(&mut self, name: &str, line: Option<String>) {
        line.iter().for_each(|line| self.console.say(name, line));
    }

    fn mount_kernel(&mut self) -> Outcome {
        mounts::apply_kernel()?;
        self.console.open_others();
        self.read_keyboards();
        mounts::apply_memory()?;
        cgroups::apply()?;
        let command_line = CommandLine::read()?;
        self.facts.command_line.get_or_init(|| command_line);
        Ok(())
    }

    /// Sets what the image gives, and watches from then on what other programs change.
    fn set_image(&mut self) -> Outcome {
        self.settings.set_image(&self.facts.command_line().time_servers)?;
        // A node without its message runs all the same.
        if let Err(failure) = self.settings.set_motd_of_image() {
            self.console.say(settings::NAME, failure);
        }
        match Watch::start() {
            Ok(watch) => self.watch = Some(watch),
            Err(failure) => self.console.say(settings::NAME, failure),
        }
        Ok(())
    }

    fn set_host_names(&mut self, of_machine: String, kept: Option<String>) -> Outcome {
        self.settings.set(Source::Image, [(Single::HostName, Some(of_machine))])?;
        self.settings.set(Source::Dhcp, [(Single::HostName, kept)])
    }

    fn start_watchdog(&mut self) -> Outcome {
        let started = watchdog::start(self.facts.command_line().watchdog_seconds);
        started.lines.iter().for_each(|line| self.console.say("watchdog", line));
        self.watchdog = started.watchdog;
        started.missing.map_or(Ok(()), Err)
    }

    /// The job of a phase has ended: carries out what is left of the phase.
    pub(super) fn on_phase_job(&mut self, done: Done) -> Outcome {
        match done {
            Done::Security(security) => {
                let warning = security.secure_boot.warning();
                self.facts.security.get_or_init(|| security);
                warning.iter().for_each(|line| self.console.line(line));
                Ok(())
            }
            Done::DataMounted(lines, outcome) => {
                lines.iter().for_each(|line| self.console.say(mount::NAME, line));
                outcome
            }
            Done::DataEmptied(line) => {
                self.say_if(reset::NAME, line?.map(str::to_owned));
                Ok(())
            }
            Done::SlotFound(slots) => slots.map(|slots| self.print_slots(slots)),
            Done::Trial(facts, reached) => self.begin_trial(facts?, &reached),
            Done::LastRun(seen) => {
                let line = self.clock.apply_last(seen?)?;
                self.say_if("clock", line);
                Ok(())
            }
            Done::ContainerdReset(reset) => {
                let (line, is_untidy) = reset?;
                self.say_if(CONTAINERD_RESET, line);
                // There may be discarded files of an earlier boot, too.
                if is_untidy { self.run(Program::Tidy) } else { Ok(()) }
            }
            Done::WritableMounted(failures) => {
                failures?.iter().for_each(|failure| self.console.say("writable", failure));
                self.set_image()
            }
            Done::Identity(made, secret) => {
                match secret {
                    Ok(secret) => self.settings.network_mut().set_secret(secret),
                    // Links of WireGuard without a key of their own have an error then.
                    Err(failure) => self.console.say("machine-id", failure),
                }
                made
            }
            Done::PanicsMoved(lines) => {
                lines?.iter().for_each(|line| self.console.line(line));
                Ok(())
            }
            Done::HostNames { of_machine, kept } => self.set_host_names(of_machine, kept),
            Done::Settings { fallback, labels, counted } => {
                match labels {
                    Ok(labels) => self.settings.registration_mut().restore(&labels),
                    Err(failure) => self.say_about_settings([failure.to_string()]),
                }
                self.start_settings(fallback);
                counted
            }
            Done::Plain(outcome) => outcome,
            // No phase asks for these.
            _ => Ok(()),
        }
    }
}
