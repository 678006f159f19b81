//! The node as PID 1 sees it, and one turn of its loop.

use std::os::fd::OwnedFd;
use std::time::Duration;

use osbuild_failure::{Explain, Outcome};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitOptions, WaitStatus, wait};

use crate::buttons::{self, Buttons};
use crate::clock::Clock;
use crate::console::Console;
use crate::disks::Disk;
use crate::errand::{self, Errand};
use crate::health::{self, Health};
use crate::phases::tell_end;
use crate::process::{Life, Process, State};
use crate::reached::Reach;
use crate::secure_boot::SecureBoot;
use crate::severity::{Verdict, is_error};
use crate::shutdown::End;
use crate::slot::Running;
use crate::sockets::{self, Sockets};
use crate::sys::{self, Signal};
use crate::uptime::uptime;
use crate::watchdog::Watchdog;
use crate::writer::Writer;
use crate::{cluster, gate, kubelet, kubelet_config, node_name, reached, resolver, trial};

/// Everything that PID 1 knows.
pub struct Node {
    /// Where it speaks.
    pub console: Console,
    /// The kernel's command line.
    pub command_line: String,
    /// The host name.
    pub host_name: String,
    /// The name by which the kubelet that runs now knows the node.
    pub node_name: String,
    /// Until when the kubelet that runs now waits for a name under which it joins, since boot, if
    /// it does.
    pub name_due: Option<Duration>,
    /// The addresses that a pod has told, by link.
    pub addresses: Vec<String>,
    /// The daemons and jobs, in the order in which they were started first.
    pub processes: Vec<Process>,
    /// The sockets.
    pub sockets: Sockets,
    /// What is done for a client that waits for it.
    pub errand: Option<Errand>,
    /// When the node was ready, since boot.
    pub ready: Option<Duration>,
    /// Whether the cluster has reported the node as Ready in this boot.
    pub in_cluster: bool,
    /// What the firmware does about signatures.
    pub secure_boot: SecureBoot,
    /// The disk with DATA, once it is found.
    pub disk: Option<Disk>,
    /// The slot that runs, if slotboot has told.
    pub slot: Option<Running>,
    /// Whether the slot that runs still has to become a good one, or may have to where nothing
    /// tells which one it is.
    pub on_trial: bool,
    /// When the node goes back to the other slot, since boot, unless this one has become a good one
    /// before.
    pub deadline: Option<Duration>,
    /// What the slot that runs has to reach besides its gate.
    pub reach: Reach,
    /// What resets the machine when this program stands still.
    pub watchdog: Watchdog,
    /// Whether the daemons answer.
    pub health: Health,
    /// The machine's power button.
    pub buttons: Buttons,
    /// Writes to DATA.
    pub writer: Writer,
    /// Keeps the time of day on DATA.
    pub clock: Clock,
    /// How the node is to end, once somebody has asked for it.
    pub end: Option<End>,
    signals: OwnedFd,
}

impl Node {
    /// A node on which nothing has happened yet.
    pub fn new() -> Outcome<Node> {
        // Threads inherit what is blocked, so this comes before the first one.
        let signals = sys::signal_descriptor().explain("take over the signals")?;
        Ok(Node {
            console: Console::open(),
            command_line: String::new(),
            host_name: String::new(),
            node_name: String::new(),
            name_due: None,
            addresses: Vec::new(),
            processes: Vec::new(),
            sockets: Sockets::default(),
            errand: None,
            ready: None,
            in_cluster: false,
            secure_boot: SecureBoot::default(),
            disk: None,
            slot: None,
            on_trial: false,
            deadline: None,
            reach: Reach::default(),
            watchdog: Watchdog::default(),
            health: Health::default(),
            buttons: Buttons::default(),
            writer: Writer::start()?,
            clock: Clock::default(),
            end: None,
            signals,
        })
    }

    /// Starts a daemon or a job, now and whenever it has to be started anew.
    pub fn run(
        &mut self,
        name: &'static str,
        life: Life,
        command: fn(&str) -> Vec<String>,
    ) -> Outcome {
        self.launch(Process::new(name, life, command)?)
    }

    /// Starts a process, and keeps it among the node's.
    pub fn launch(&mut self, mut process: Process) -> Outcome {
        if process.life == Life::Daemon {
            process.log = crate::log_files::of(&self.writer, process.name).ok();
        }
        let started = process.start(uptime(), &self.node_name);
        self.processes.push(process);
        started
    }

    /// The process of that name, if it was ever started.
    pub fn process(&mut self, name: &str) -> Option<&mut Process> {
        self.processes.iter_mut().find(|process| process.name == name)
    }

    /// Whether the job of that name has done its work.
    pub fn has_done(&self, name: &str) -> bool {
        self.processes.iter().any(|process| process.name == name && process.state == State::Ended)
    }

    /// Does what there is to do, and waits at most this long for something.
    pub fn turn(&mut self, at_most: Duration) {
        self.watchdog.hold_off(uptime());
        self.wait(at_most);
        self.read_outputs();
        self.read_signals();
        self.kill_what_is_late();
        self.start_what_is_due();
        sockets::requests::serve(self);
        trial::watch(self);
        reached::watch(self);
        node_name::watch(self);
        errand::watch(self);
        health::watch(self);
        buttons::watch(self);
        self.tell_writes();
        self.clock.keep(uptime(), &self.writer);
    }

    fn wait(&mut self, at_most: Duration) {
        let now = uptime();
        let due = self.processes.iter().filter_map(|process| match process.state {
            State::Waiting { until } => Some(until.saturating_sub(now)),
            State::Running { .. } | State::Ended => None,
        });
        let deadlines = [self.deadline, self.name_due, reached::due(self)].into_iter().flatten();
        let deadlines = deadlines.map(|deadline| deadline.saturating_sub(now));
        let late = self
            .processes
            .iter()
            .filter_map(|process| Some(process.kill_at()?.saturating_sub(now)));
        let longest = due
            .chain(deadlines)
            .chain(late)
            .chain(health::timeout(self, now))
            .chain(self.watchdog.patience(now))
            .fold(at_most, Duration::min);
        let timeout =
            Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: longest.subsec_nanos().into() };
        let mut sources = vec![PollFd::new(&self.signals, PollFlags::IN)];
        sources.extend(
            self.processes.iter().map(|process| PollFd::new(process.output(), PollFlags::IN)),
        );
        sources.extend(
            self.sockets
                .descriptors()
                .map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)),
        );
        sources.extend(
            self.buttons
                .descriptors()
                .map(|button| PollFd::from_borrowed_fd(button, PollFlags::IN)),
        );
        // Whether it was an event, the time or an error: all sources are looked at without
        // blocking.
        let _ = poll(&mut sources, Some(&timeout));
    }

    fn read_outputs(&mut self) {
        let now = uptime();
        for process in &mut self.processes {
            for line in process.written() {
                if process.life == Life::Job {
                    self.console.say(process.name, &line);
                    continue;
                }
                if let Some(log) = &mut process.log {
                    log.line(&line);
                }
                if is_error(&line) {
                    if let Verdict::Show { held_back } = process.limit.judge(now) {
                        self.console
                            .say(process.name, with_held_back(&line, held_back, process.name));
                    }
                    process.last_error = Some(line);
                }
            }
        }
    }

    fn read_signals(&mut self) {
        while let Some(signal) = sys::next_signal(&self.signals) {
            match signal {
                Signal::Child => self.reap(),
                Signal::Terminate => self.end = Some(End::PowerOff),
                Signal::Interrupt => self.end = Some(End::Reboot),
            }
        }
    }

    /// Takes the status of everything that ended: what `init` started, and the orphans that the
    /// kernel hands to PID 1.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            self.read_outputs();
            errand::ended(self, pid, status);
            health::ended(self, pid);
            self.bury(pid, status);
        }
    }

    fn bury(&mut self, pid: Pid, status: WaitStatus) {
        let Some(process) = self.processes.iter_mut().find(|process| process.pid() == Some(pid))
        else {
            return;
        };
        let said = process.ended(status, uptime());
        let (name, done) =
            (process.name, process.life == Life::Job && process.state == State::Ended);
        if let Some(said) = said {
            self.console.say(name, said);
        }
        if done && self.end.is_none() {
            // They are no part of the boot.
            if ![resolver::NAME, cluster::NAME].contains(&name) {
                tell_end(self, name);
            }
            match name {
                gate::NAME => gate::opened(self),
                trial::NAME => trial::passed(self),
                kubelet_config::NAME => kubelet::start_anew(self),
                cluster::NAME => cluster::ready(self),
                _ => {}
            }
        }
    }

    fn kill_what_is_late(&mut self) {
        let now = uptime();
        for process in &mut self.processes {
            if process.kill_if_late(now) {
                self.console.say(process.name, "does not end and is killed");
            }
        }
    }

    /// Says what was in the way on DATA, and what could not be written there.
    fn tell_writes(&mut self) {
        for failure in self.writer.failures() {
            self.console.say("data", failure);
        }
        for said in osbuild_folder::moved() {
            self.console.say("data", said);
        }
    }

    fn start_what_is_due(&mut self) {
        let now = uptime();
        for process in &mut self.processes {
            if matches!(process.state, State::Waiting { until } if until <= now)
                && let Err(failure) = process.start(now, &self.node_name)
            {
                self.console.say(process.name, failure);
            }
        }
    }
}

fn with_held_back(line: &str, held_back: u32, name: &str) -> String {
    match held_back {
        0 => line.to_owned(),
        some => format!("{line} ({some} more in {}/{name}.log)", osbuild_abi::paths::LOGS),
    }
}
