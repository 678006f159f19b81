//! What the phases of the boot do. Each gets the console and the facts that it needs, and returns
//! what it has found.

use osbuild_failure::Outcome;
use osbuild_ranks::Source;

use super::Dispatcher;
use crate::boot::command_line::CommandLine;
use crate::boot::{CONTAINERD_RESET, Step, limits, memory, secure_boot};
use crate::daemons::kubelet;
use crate::data::{containerd_reset, log_files, machine_id, mount, old_images, tidy, writable};
use crate::hardware::watchdog;
use crate::host::{host_name, link, mounts, sysctl};
use crate::processes::program::Program;
use crate::sequence::{Condition, Ends, Machine, Phase};
use crate::slot::boot_source;

impl Machine<Step> for Dispatcher {
    fn start(&mut self, step: Step) -> Outcome {
        // Phases before the daemons wait for disks, and nothing else has to be done meanwhile.
        let _cover = self.watchdog.cover();
        match step {
            Step::Mounts => self.mount_kernel(),
            Step::Watchdog => self.start_watchdog(),
            Step::Memory => {
                let wanted = self.facts.command_line().min_ram_mib;
                memory::check(wanted).iter().for_each(|line| self.console.line(line));
                Ok(())
            }
            Step::SecureBoot => {
                let secure_boot = *self.facts.secure_boot.get_or_init(secure_boot::observe);
                secure_boot.warning().iter().for_each(|line| self.console.line(line));
                Ok(())
            }
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
            Step::Loopback => link::set_loopback_up(),
            Step::Data => self.mount_data(),
            Step::Slot => self.find_slot(),
            Step::Deadline => self.begin_trial(),
            Step::LastClock => {
                let line = self.clock.apply_last()?;
                self.say_if("clock", line);
                Ok(())
            }
            Step::MachineId => machine_id::make(),
            Step::ContainerdReset => {
                let line = containerd_reset::apply()?;
                self.say_if(CONTAINERD_RESET, line);
                // There may be discarded files of an earlier boot, too.
                if tidy::is_due()? { self.run(Program::Tidy) } else { Ok(()) }
            }
            Step::Writable => self.mount_writable(),
            Step::Logs => {
                self.console.keep_log(log_files::start(&self.writer, "init")?);
                Ok(())
            }
            Step::HostName => self.set_first_host_name(),
            Step::Sockets => self.sockets.open(),
            Step::OldImages => old_images::remove(),
            Step::Containerd => self.run(Program::Containerd),
            Step::Images => self.run(Program::Images),
            Step::KubeletConfig => self.run(Program::KubeletConfig),
            Step::Kubelet => {
                kubelet::prepare_boot();
                self.choose_node_name();
                self.run(Program::Kubelet)
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
        mounts::apply_memory()?;
        let command_line = CommandLine::read()?;
        self.facts.command_line.get_or_init(|| command_line);
        Ok(())
    }

    fn start_watchdog(&mut self) -> Outcome {
        let started = watchdog::start(self.facts.command_line().watchdog_seconds);
        started.lines.iter().for_each(|line| self.console.say("watchdog", line));
        self.watchdog = started.watchdog;
        started.missing.map_or(Ok(()), Err)
    }

    fn mount_data(&mut self) -> Outcome {
        let booted = boot_source::booted().map(|booted| booted.disk);
        let disk = match self.facts.command_line().data_in_memory {
            true => mount::in_memory(&mut self.console, booted)?,
            false => Some(mount::from_disk(&mut self.console, booted)?),
        };
        disk.into_iter().for_each(|disk| self.facts.boot_source.set_disk(disk));
        Ok(())
    }

    fn mount_writable(&mut self) -> Outcome {
        for failure in writable::mount()? {
            self.console.say("writable", failure);
        }
        self.settings.set_image(self.facts.command_line().time_servers)
    }

    fn set_first_host_name(&mut self) -> Outcome {
        self.settings.set_host_name(Source::Image, Some(host_name::of_machine()))?;
        match host_name::kept() {
            Some(name) => self.settings.set_host_name(Source::Dhcp, Some(name)),
            None => Ok(()),
        }
    }
}
