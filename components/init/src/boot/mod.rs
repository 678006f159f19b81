//! The boot of the node, as a table that runs from top to bottom.

pub mod apparmor;
pub mod command_line;
pub mod early;
pub mod images;
pub mod limits;
pub mod memory;
pub mod secure_boot;
pub mod security;

use std::time::Duration;

use crate::data::reset;
use crate::disk_worker::MAX_JOB_TIME;
use crate::host::settings;
use crate::processes::program::Program;
use crate::sequence::{Condition, Ends, OnFailure, Phase};

use Condition::{Accepts, Done, JobDone, Runs};
use Ends::{AtOnce, Later, When};
use OnFailure::{CountAndReboot, Note, Reboot};

/// The action of a phase of the boot. `dispatcher/boot.rs` carries it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Mounts the kernel's file systems, `/run` and `/tmp`, makes the daemons' control groups, and
    /// reads the command line.
    Mounts,
    /// Starts the hardware watchdogs.
    Watchdog,
    /// Compares the machine's memory with what the board asks for.
    Memory,
    /// Asks the firmware whether it verifies signatures.
    SecureBoot,
    /// Sets the clock forward to the image's epoch.
    Clock,
    /// Sets the resource limits of all processes.
    Limits,
    /// Sets the kernel's settings.
    Sysctl,
    /// Loads the AppArmor profile of pods.
    AppArmor,
    /// Sets `lo` up.
    Loopback,
    /// Finds, grows and mounts DATA.
    Data,
    /// Empties DATA, if that was requested.
    Reset,
    /// Finds the slot that runs.
    Slot,
    /// Sets the deadline of a slot on trial.
    Deadline,
    /// Sets the clock forward to when the node last ran.
    LastClock,
    /// Makes the machine id.
    MachineId,
    /// Deletes containerd's state after too many failed boots.
    ContainerdReset,
    /// Mounts the writable paths.
    Writable,
    /// Starts the log files.
    Logs,
    /// Moves the messages of a panic from the firmware to a log.
    Panics,
    /// Sets the host name.
    HostName,
    /// Sets what requests of earlier boots have set.
    Settings,
    /// Opens the sockets.
    Sockets,
    /// Removes from DATA what containerd has of the node's own images.
    OldImages,
    /// Starts containerd.
    Containerd,
    /// Loads the node's pod images.
    Images,
    /// Frees the memory of the node's pod images.
    FreeImages,
    /// Has the kubelet's configuration written.
    KubeletConfig,
    /// Starts the kubelet.
    Kubelet,
    /// Waits until the node is ready.
    Gate,
}

/// The end of a phase whose step is a job of the disk worker: the limit is that of every job.
const JOB: Ends = When(JobDone, MAX_JOB_TIME);

/// How long the boot waits for a daemon or a job.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The name of the phase that resets containerd's state, and of its lines on the console.
pub const CONTAINERD_RESET: &str = "last-resort";
/// The name of the phase that opens the sockets.
const SOCKETS: &str = "sockets";
/// The name of the phase that removes the node's own images from DATA.
const OLD_IMAGES: &str = "old-images";

const CONTAINERD: Program = Program::Containerd;
const IMAGES: Program = Program::Images;
const KUBELET: Program = Program::Kubelet;
const CONFIG: Program = Program::KubeletConfig;

/// The boot. A phase needs only what the phases above it have made.
pub static BOOT: [Phase<Step>; 29] = [
    phase("mounts", Step::Mounts, AtOnce, Reboot),
    phase("watchdog", Step::Watchdog, AtOnce, Note),
    phase("memory", Step::Memory, AtOnce, Note),
    phase("secure-boot", Step::SecureBoot, JOB, Note),
    phase("clock", Step::Clock, AtOnce, Note),
    phase("limits", Step::Limits, AtOnce, Note),
    phase("sysctl", Step::Sysctl, AtOnce, Note),
    phase("apparmor", Step::AppArmor, AtOnce, Note),
    phase("loopback", Step::Loopback, AtOnce, Note),
    phase("data", Step::Data, JOB, Reboot),
    phase(reset::NAME, Step::Reset, JOB, Note),
    phase("slot", Step::Slot, JOB, Note),
    phase("deadline", Step::Deadline, JOB, Note),
    phase("last-clock", Step::LastClock, JOB, Note),
    phase("machine-id", Step::MachineId, JOB, Reboot),
    phase(CONTAINERD_RESET, Step::ContainerdReset, JOB, Note),
    phase("writable", Step::Writable, JOB, Reboot),
    phase("logs", Step::Logs, AtOnce, Note),
    phase("panic", Step::Panics, JOB, Note),
    phase("hostname", Step::HostName, JOB, Note),
    phase(settings::NAME, Step::Settings, JOB, Note),
    phase(SOCKETS, Step::Sockets, AtOnce, Note),
    phase(OLD_IMAGES, Step::OldImages, JOB, CountAndReboot),
    phase(CONFIG.name(), Step::KubeletConfig, When(Done(CONFIG), TIMEOUT), Note),
    phase(CONTAINERD.name(), Step::Containerd, When(Accepts(CONTAINERD), TIMEOUT), CountAndReboot),
    phase(IMAGES.name(), Step::Images, When(Done(IMAGES), TIMEOUT), CountAndReboot),
    phase("free-images", Step::FreeImages, JOB, Note),
    phase(KUBELET.name(), Step::Kubelet, When(Runs(KUBELET), TIMEOUT), Note),
    phase("gate", Step::Gate, Later, Note),
];

const fn phase(name: &'static str, step: Step, ends: Ends, on_failure: OnFailure) -> Phase<Step> {
    Phase { name, step, ends, on_failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(step: Step) -> usize {
        BOOT.iter().position(|phase| phase.step == step).unwrap()
    }

    #[test]
    fn no_two_phases_share_a_name_or_a_step() {
        for (index, one) in BOOT.iter().enumerate() {
            assert!(BOOT[..index].iter().all(|other| other.name != one.name), "{}", one.name);
            assert_eq!(place(one.step), index, "{}", one.name);
        }
    }

    #[test]
    fn the_readme_shows_the_phases_in_their_order() {
        let (_, table) = include_str!("../../README.md")
            .split_once("| phase | does | ends | on failure |\n|---|---|---|---|\n")
            .unwrap();
        let rows: Vec<(&str, bool, &str)> = table
            .lines()
            .take_while(|line| line.starts_with("| `"))
            .map(|line| {
                let cells: Vec<&str> = line.split(" | ").collect();
                let name = cells[0].trim_start_matches("| `").trim_end_matches('`');
                (name, cells[2] == "at once", cells[3].trim_end_matches(" |"))
            })
            .collect();
        let failure = |phase: &Phase<Step>| match phase.on_failure {
            Reboot => "reboot",
            CountAndReboot => "reboot, and count",
            Note => "noted",
        };
        let phases = BOOT.iter().map(|one| (one.name, one.ends == AtOnce, failure(one)));
        assert!(phases.eq(rows));
    }

    #[test]
    fn the_kubelet_waits_for_containerd_and_for_the_images_of_this_boot() {
        assert!(place(Step::OldImages) < place(Step::Containerd));
        assert!(place(Step::Containerd) < place(Step::Images));
        assert!(place(Step::Images) < place(Step::Kubelet));
        assert!(matches!(BOOT[place(Step::Containerd)].ends, When(..)));
        // Otherwise the kubelet could run an image that an attacker has put on the disk.
        assert_eq!(BOOT[place(Step::OldImages)].ends, JOB);
        assert!(matches!(BOOT[place(Step::Images)].ends, When(Done(_), _)));
        for step in [Step::OldImages, Step::Images] {
            assert_ne!(BOOT[place(step)].on_failure, Note);
        }
    }

    #[test]
    fn the_images_are_freed_before_a_container_could_keep_their_mount() {
        assert!(place(Step::Images) < place(Step::FreeImages));
        assert!(place(Step::FreeImages) < place(Step::Kubelet));
        assert_eq!(BOOT[place(Step::FreeImages)].ends, JOB);
    }

    #[test]
    fn containerd_starts_with_the_proxy_of_the_node_document() {
        assert!(place(Step::Settings) < place(Step::KubeletConfig));
        assert!(place(Step::KubeletConfig) < place(Step::Containerd));
    }

    #[test]
    fn only_phases_that_read_containerds_state_count_for_its_reset() {
        for phase in &BOOT {
            let reads = [Step::OldImages, Step::Containerd, Step::Images].contains(&phase.step);
            assert_eq!(phase.on_failure == CountAndReboot, reads, "{}", phase.name);
        }
    }

    #[test]
    fn containerds_reset_comes_between_data_and_the_writable_paths() {
        assert!(place(Step::Data) < place(Step::ContainerdReset));
        assert!(place(Step::ContainerdReset) < place(Step::Writable));
    }
}
