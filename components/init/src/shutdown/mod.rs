//! The shutdown of the node, as a table that runs from top to bottom, like the boot.

pub mod disks;
pub mod hurry;
pub mod power;

use std::time::Duration;

use crate::daemons::kubelet_config::MAX_SHUTDOWN_GRACE;
use crate::processes::program::Program;
use crate::sequence::{Condition, Ends, OnFailure, Phase};

use Condition::{InhibitorsGone, JobsEnded, NoChildren, Stopped, WorkFinished, WriterEnded};
use Ends::{AtOnce, When, WhileProgress, Within};

/// The action of a phase of the shutdown. `dispatcher/shutdown.rs` carries it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Announces the shutdown. A disk that is slow from now on must not restart the node.
    Begin,
    /// Announces the shutdown to the kubelet, which ends its pods: those of the cluster before
    /// the critical ones, which give the node its network.
    Announce,
    /// Stops a program, and kills it after the time.
    Stop(Program, Duration),
    /// Starts the job that stops the pods that the kubelet has left.
    StopPods,
    /// Sends SIGTERM to all processes that are left, the shims for example.
    Terminate,
    /// Sends SIGKILL to all processes that are left.
    Kill,
    /// Keeps the time, and closes the disk worker, which does the jobs that are left.
    EndJobs,
    /// Closes the logs, which are on DATA.
    CloseLogs,
    /// Writes all of DATA to its disk: an ordered shutdown loses nothing of it.
    Flush,
    /// Unmounts every file system.
    Unmount,
    /// Makes DATA read-only if it is still mounted, which is as good for the disk.
    ReadOnly,
    /// Announces the end, and writes all remaining data to any disk.
    Sync,
    /// Powers the machine off or reboots it.
    End,
}

/// How long a daemon or a job may take to exit before it is killed.
const GRACE: Duration = Duration::from_secs(10);
/// How long a program is waited for: its grace, and as long again after SIGKILL.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the kubelet may take to end its pods. The time that it asks for is shorter.
const INHIBITORS_TIMEOUT: Duration = Duration::from_secs(MAX_SHUTDOWN_GRACE.as_secs() + 60);
/// How long the pods may take: two waves of the longest grace, and some.
const PODS_TIMEOUT: Duration = Duration::from_secs(100);
/// How long the jobs that the disk worker has left may take. A disk that needs longer has failed.
const JOBS_TIMEOUT: Duration = Duration::from_secs(120);
/// How long DATA's disk may make no progress.
const STALL: Duration = Duration::from_secs(120);
/// How long other volumes may make no progress.
const VOLUMES_STALL: Duration = Duration::from_secs(30);
/// How long a failed boot can be read on the console.
pub const READING_TIME: Duration = Duration::from_secs(10);

/// The name of the lines about the shutdown on the console.
pub const NAME: &str = "shutdown";

/// How long processes are waited for after SIGTERM and after SIGKILL.
const TERMINATE_TIME: Duration = Duration::from_secs(2);
const KILL_TIME: Duration = Duration::from_millis(200);

const PODS: Program = Program::StopPods;

/// The shutdown. A phase stops only what no phase below it needs. No failure keeps the machine
/// from ending, so each is noted.
pub static SHUTDOWN: [Phase<Step>; 18] = [
    phase(NAME, Step::Begin, AtOnce),
    stop(Program::Trial),
    stop(Program::Gate),
    stop(Program::Images),
    phase("pods", Step::Announce, When(InhibitorsGone, INHIBITORS_TIMEOUT)),
    stop(Program::Kubelet),
    phase(PODS.name(), Step::StopPods, When(Stopped(PODS), PODS_TIMEOUT)),
    phase(PODS.name(), Step::Stop(PODS, Duration::ZERO), Within(Stopped(PODS), GRACE)),
    stop(Program::Containerd),
    phase("terminate", Step::Terminate, Within(NoChildren, TERMINATE_TIME)),
    phase("kill", Step::Kill, Within(NoChildren, KILL_TIME)),
    phase("disk", Step::EndJobs, When(JobsEnded, JOBS_TIMEOUT)),
    phase("close-logs", Step::CloseLogs, WhileProgress(WriterEnded, STALL, "DATA")),
    phase("flush", Step::Flush, WhileProgress(WorkFinished, STALL, "DATA")),
    phase("unmount", Step::Unmount, WhileProgress(WorkFinished, VOLUMES_STALL, "a volume")),
    phase("read-only", Step::ReadOnly, WhileProgress(WorkFinished, VOLUMES_STALL, "DATA")),
    phase("sync", Step::Sync, Within(WorkFinished, GRACE)),
    phase("end", Step::End, AtOnce),
];

const fn phase(name: &'static str, step: Step, ends: Ends) -> Phase<Step> {
    Phase { name, step, ends, on_failure: OnFailure::Note }
}

const fn stop(program: Program) -> Phase<Step> {
    let ends = Within(Stopped(program), STOP_TIMEOUT);
    phase(program.name(), Step::Stop(program, GRACE), ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(step: Step) -> usize {
        SHUTDOWN.iter().position(|phase| phase.step == step).unwrap()
    }

    #[test]
    fn the_kubelet_ends_its_pods_before_anything_that_they_need_stops() {
        let announced = place(Step::Announce);
        assert!(announced < place(Step::Stop(Program::Kubelet, GRACE)));
        assert!(announced < place(Step::Stop(Program::Containerd, GRACE)));
    }

    #[test]
    fn the_kubelet_stops_before_the_pods_and_containerd_after_them() {
        let [kubelet, containerd] =
            [Program::Kubelet, Program::Containerd].map(|one| place(Step::Stop(one, GRACE)));
        assert!(kubelet < place(Step::StopPods) && place(Step::StopPods) < containerd);
        assert!(containerd < place(Step::Terminate) && place(Step::Kill) < place(Step::EndJobs));
    }

    #[test]
    fn data_is_flushed_before_it_is_unmounted_and_the_machine_ends_last() {
        let steps = [
            Step::EndJobs,
            Step::CloseLogs,
            Step::Flush,
            Step::Unmount,
            Step::ReadOnly,
            Step::Sync,
        ];
        assert!(steps.map(place).is_sorted());
        assert_eq!(place(Step::End), SHUTDOWN.len() - 1);
    }

    #[test]
    fn every_phase_of_the_shutdown_has_a_bound() {
        for phase in &SHUTDOWN {
            assert!(phase.ends != Ends::Later && phase.on_failure == OnFailure::Note);
        }
    }
}
