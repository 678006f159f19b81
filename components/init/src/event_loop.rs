//! The event loop of PID 1: it waits for descriptors and deadlines, and returns what happened as
//! typed events. The [dispatcher](crate::dispatcher) decides how to react to each.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use osbuild_failure::{Explain, Failure, Outcome};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{WaitOptions, wait};

use crate::data::writer::Writer;
use crate::disk_worker::{DiskWorker, Ended};
use crate::hardware::buttons::Buttons;
use crate::hardware::keyboards::Keyboards;
use crate::host::watch::Watch;
use crate::logind::{self, Logind};
use crate::processes::Processes;
use crate::processes::process::Exit;
use crate::processes::program::Program;
use crate::shutdown::power::End;
use crate::sockets::{Received, Sockets};
use crate::sys::{self, Signal};
use crate::uptime::uptime;

/// An event that the loop returns.
pub enum Event {
    /// A program has written a line for the console.
    Line(Program, String),
    /// A program has exited.
    Exited(Program, Exit),
    /// A program did not exit in time and was killed.
    Killed(Program),
    /// The time has come to start a program again.
    StartDue(Program),
    /// A signal asks for the end of the node.
    Signal(End),
    /// A client sent a request.
    Request(Received),
    /// A lock that delays a shutdown has changed.
    Inhibitor(logind::Change),
    /// A device with a power key was found.
    ButtonFound(String),
    /// A power key was pressed.
    ButtonPressed,
    /// A person has typed a line at a console.
    Typed(String),
    /// A job of the disk worker has ended.
    JobEnded(Ended),
    /// A log could not be started.
    WriteFailed(Failure),
    /// An entry on DATA was in the way, and was moved aside.
    MovedAside(String),
    /// A setting of the host has changed.
    HostChanged,
    /// A deadline has passed.
    Deadline(Deadline),
}

/// A deadline of the dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// The slot on trial has to be a good one.
    Trial,
    /// The slot to which the node has come back has to have an address.
    Reach,
    /// The wait for a host name is over.
    NodeName,
    /// The next health checks of the daemons are due.
    Health,
    /// The time is to be kept on DATA.
    Clock,
    /// It is time to look for changed manifests of static pods.
    StaticPods,
    /// It is time to look what has become of the static pods of settings.
    PodStates,
    /// The time of the debug container is over.
    Debug,
    /// It is time to measure the room on DATA.
    Room,
    /// It is time to compare the kernel's parameters with what they shall be.
    KernelParameters,
    /// The kubelet's files must be written with other fields or credential providers, or for
    /// another cluster.
    KubeletFiles,
    /// The environment of the daemons has changed.
    Environment,
    /// Both daemons have run for long enough in their environment.
    EnvironmentProof,
    /// Labels or taints of the node have changed.
    Registration,
    /// The next watch of the node's object begins.
    NodeWatch,
    /// The kubelet has run for long enough with its fields.
    KubeletProof,
    /// It is time to try again to mount or unmount what has failed.
    Mounts,
    /// A try of settings is over.
    Try,
    /// The settings are written again, as they could not be written.
    Keeping,
    /// Proofs about the settings are kept again, as they could not be kept.
    Proofs,
    /// Settings that the host has refused are tried again.
    Postponed,
    /// The pod that configures links has to be without what was taken back.
    Network,
    /// The address that a person at a console has given goes.
    ConsoleAddress,
    /// The node is not ready with its settings in time.
    Start,
    /// It is time to look at the node for its summary.
    Summary,
    /// The cluster is to be shown the problems of the node.
    ClusterReport,
    /// A job of the disk worker has taken too long.
    Disk,
    /// The time of a client that waits for such a job is over.
    Reply,
}

/// The sources of events, and what has to be done in every turn.
pub struct Sources<'a> {
    /// Processes write, exit and have to be started or killed.
    pub processes: &'a mut Processes,
    /// Clients send requests.
    pub sockets: &'a mut Sockets,
    /// The kubelet delays a shutdown.
    pub logind: &'a mut Logind,
    /// Power keys are pressed.
    pub buttons: &'a mut Buttons,
    /// People type.
    pub keyboards: &'a mut Keyboards,
    /// Jobs end.
    pub disk: &'a mut DiskWorker,
    /// Those on any disk end.
    pub volumes: &'a mut DiskWorker,
    /// Writes fail.
    pub writer: &'a Writer,
    /// Other programs change settings.
    pub watch: Option<&'a Watch>,
}

/// The loop. It owns the descriptor from which signals are read.
pub struct EventLoop {
    signals: OwnedFd,
}

impl EventLoop {
    /// Takes over the signals. Threads inherit the signal mask, so this comes before the first one.
    pub fn new() -> Outcome<EventLoop> {
        let signals = sys::signal_descriptor().explain("take over the signals")?;
        Ok(EventLoop { signals })
    }

    /// Waits until something happens, a deadline passes, or `at_most` has passed, and returns what
    /// happened. `deadlines` are times since boot.
    pub fn wait(
        &self,
        sources: &mut Sources<'_>,
        deadlines: &[(Deadline, Duration)],
        at_most: Duration,
    ) -> Vec<Event> {
        let due = deadlines.iter().map(|(_, at)| *at);
        let others = [sources.processes.deadline(), Some(sources.buttons.deadline())];
        let now = uptime();
        let timeout = due
            .chain(others.into_iter().flatten())
            .map(|at| at.saturating_sub(now))
            .fold(at_most, Duration::min);
        let has_changed = self.poll(sources, timeout);
        let mut events = self.collect(sources, deadlines, uptime());
        events.extend(has_changed.then_some(Event::HostChanged));
        events
    }

    /// Returns whether the watch has reported a change.
    fn poll(&self, sources: &Sources<'_>, timeout: Duration) -> bool {
        let outputs = sources.processes.outputs().map(AsFd::as_fd);
        let descriptors: Vec<BorrowedFd<'_>> = [self.signals.as_fd()]
            .into_iter()
            .chain(outputs)
            .chain(sources.sockets.descriptors())
            .chain(sources.logind.descriptors())
            .chain(sources.buttons.descriptors())
            .chain(sources.keyboards.descriptors())
            .chain([sources.disk.descriptor(), sources.volumes.descriptor()])
            .collect();
        // A hang-up is reported without being asked for.
        let waiting = sources.sockets.waiting();
        let waiting = waiting.map(|one| PollFd::from_borrowed_fd(one, PollFlags::empty()));
        let mut polled: Vec<PollFd<'_>> = waiting
            .chain(descriptors.iter().map(|one| PollFd::from_borrowed_fd(*one, PollFlags::IN)))
            .collect();
        let others = polled.len();
        polled.extend(sources.watch.into_iter().flat_map(Watch::polled));
        let timeout =
            Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        // After an event, the timeout or an error, every source is read without blocking.
        let _ = poll(&mut polled, Some(&timeout));
        let watched = &polled[others..];
        let has_changed = watched.iter().any(|one| !one.revents().is_empty());
        sources.watch.filter(|_| has_changed).into_iter().for_each(Watch::clear);
        has_changed
    }

    fn collect(
        &self,
        sources: &mut Sources<'_>,
        deadlines: &[(Deadline, Duration)],
        now: Duration,
    ) -> Vec<Event> {
        let mut events = lines(sources.processes, now);
        while let Some(signal) = sys::next_signal(&self.signals) {
            match signal {
                Signal::Child => reap(sources.processes, &mut events),
                Signal::Terminate => events.push(Event::Signal(End::PowerOff)),
                Signal::Interrupt => events.push(Event::Signal(End::Reboot)),
            }
        }
        events.extend(sources.processes.kill_late(now).into_iter().map(Event::Killed));
        events.extend(sources.processes.due(now).into_iter().map(Event::StartDue));
        events.extend(sources.disk.ends(now).into_iter().map(Event::JobEnded));
        events.extend(sources.volumes.ends(now).into_iter().map(Event::JobEnded));
        events.extend(sources.sockets.poll().into_iter().map(Event::Request));
        events.extend(sources.logind.poll().into_iter().map(Event::Inhibitor));
        let passed = deadlines.iter().filter(|(_, at)| *at <= now);
        events.extend(passed.map(|(deadline, _)| Event::Deadline(*deadline)));
        events.extend(sources.buttons.look(now).into_iter().map(Event::ButtonFound));
        events.extend(sources.buttons.was_pressed().then_some(Event::ButtonPressed));
        events.extend(sources.keyboards.typed().into_iter().map(Event::Typed));
        events.extend(sources.writer.failures().into_iter().map(Event::WriteFailed));
        events.extend(osbuild_folder::moved().into_iter().map(Event::MovedAside));
        events
    }
}

fn lines(processes: &mut Processes, now: Duration) -> Vec<Event> {
    processes.read(now).into_iter().map(|(program, line)| Event::Line(program, line)).collect()
}

/// Reaps everything that has exited: the programs of `init`, and the orphans that the kernel hands
/// to PID 1. The lines that a program has written come before its exit.
fn reap(processes: &mut Processes, events: &mut Vec<Event>) {
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        let now = uptime();
        events.extend(lines(processes, now));
        let exit = processes.on_exit(pid, status, now);
        events.extend(exit.map(|(program, exit)| Event::Exited(program, exit)));
    }
}
