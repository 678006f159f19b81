//! The dispatcher: the only module that sees the whole state of the node. It hands each event to
//! the module that decides about it, and carries out that module's decision.

mod boot;
mod children;
mod debug;
mod disk;
mod environment;
mod keeping;
mod keyboards;
mod kubelet;
mod requests;
mod settings;
mod shutdown;
mod slot;
mod status;
mod summary;

use std::sync::Arc;
use std::time::Duration;

use osbuild_abi::console::PHASE;
use osbuild_failure::{Failure, Outcome};
use osbuild_protocol::{Fingerprint, ReportText};

use crate::boot::BOOT;
use crate::console::Console;
use crate::daemons::containerd;
use crate::daemons::debug_pod::DebugPod;
use crate::daemons::health::Health;
use crate::daemons::kubelet_start::KubeletStart;
use crate::daemons::node_name::NodeName;
use crate::daemons::static_pods::StaticPods;
use crate::data::room::Room;
use crate::data::writer::Writer;
use crate::disk_worker::phase_job::PhaseJob;
use crate::disk_worker::waiting::Waiting;
use crate::disk_worker::{DiskWorker, Done, Job};
use crate::event_loop::{Deadline, Event, EventLoop, Sources};
use crate::facts::Facts;
use crate::hardware::buttons::Buttons;
use crate::hardware::keyboards::Keyboards;
use crate::hardware::watchdog::Watchdog;
use crate::host::addresses::Addresses;
use crate::host::clock::Clock;
use crate::host::console_address::ConsoleAddress;
use crate::host::network_client::NetworkClient;
use crate::host::node_plugins::NodePlugins;
use crate::host::settings::Settings;
use crate::host::settings::keeping::Keeping;
use crate::host::settings::unkept::Unkept;
use crate::host::watch::Watch;
use crate::logind::Logind;
use crate::processes::Processes;
use crate::processes::program::{Life, Program};
use crate::sequence::{Condition, OnFailure, Progress, Sequence, Surroundings};
use crate::shutdown::hurry::Hurry;
use crate::shutdown::power::{self, End};
use crate::shutdown::{READING_TIME, SHUTDOWN, disks};
use crate::slot::last_report::LastReport;
use crate::slot::reached::Reach;
use crate::slot::trial::Trial;
use crate::slot::update_job::UpdateJob;
use crate::sockets::closer::Closer;
use crate::sockets::{ClientId, Sockets};
use crate::summary::cluster_report::ClusterReport;
use crate::summary::errors::LastErrors;
use crate::summary::pace::Pace;
use crate::uptime::uptime;
use crate::work::Work;

/// How often to look at the condition of a phase of the boot.
const BOOT_TURN: Duration = Duration::from_millis(10);
/// How often to look at the condition of a phase of the shutdown.
const SHUTDOWN_TURN: Duration = Duration::from_millis(20);
/// The longest turn when nothing happens.
const QUIET_TURN: Duration = Duration::from_secs(60);

/// The stage of the node, from its boot to its end.
enum Stage {
    /// It boots.
    Boots(Sequence<crate::boot::Step>),
    /// It runs.
    Runs,
    /// Its boot has failed, and the console can be read until this time since boot.
    Failed(Duration),
    /// It shuts down.
    Ends(Sequence<crate::shutdown::Step>),
}

/// The state of the node.
pub struct Dispatcher {
    stage: Stage,
    /// How the node is to end, once that is requested.
    end: Option<End>,
    /// Whether it is to end without waiting for pods.
    hurry: Hurry,
    /// When the node was ready, since boot.
    ready: Option<Duration>,
    console: Console,
    facts: Facts,
    events: EventLoop,
    processes: Processes,
    sockets: Sockets,
    logind: Logind,
    buttons: Buttons,
    keyboards: Keyboards,
    watchdog: Watchdog,
    disk: DiskWorker,
    /// The worker that reads disks which the node does not need.
    volumes: DiskWorker,
    /// The clients that wait for a job of the disk worker.
    waiting: Waiting,
    /// The job of the disk worker with which the phase of the boot ends.
    phase_job: PhaseJob,
    writer: Writer,
    /// The work of a phase of the shutdown that may wait for a disk.
    work: Option<Work>,
    clock: Clock,
    settings: Settings,
    keeping: Keeping,
    unkept: Unkept,
    /// The address that a person at a console has given.
    console_address: ConsoleAddress,
    /// The watch that reports changes of settings by other programs.
    watch: Option<Watch>,
    addresses: Addresses,
    /// The fingerprint with which the node API is served on the network.
    served: Option<Fingerprint>,
    /// The report of the pod `bootstrap` about the machine's node document.
    bootstrap: Option<ReportText>,
    node_name: NodeName,
    kubelet_start: KubeletStart,
    /// Whether the kubelet starts again when its configuration is written, even without a change.
    restarts_kubelet: bool,
    static_pods: StaticPods,
    debug_pod: DebugPod,
    room: Room,
    /// Whether entries of DATA were moved aside since the last of them were removed.
    is_untidy: bool,
    /// When the consoles show the summary of the node.
    pace: Pace,
    cluster_report: ClusterReport,
    last_errors: LastErrors,
    health: Health,
    node_plugins: NodePlugins,
    trial: Trial,
    reach: Reach,
    /// The part of an update for which a client waits.
    update: Option<UpdateJob>,
    /// The client that waits for a request to check for a release.
    updater: Option<ClientId>,
    /// The last report of the updater.
    last_report: LastReport,
    network_client: NetworkClient,
    #[cfg(test)]
    _alone: std::sync::MutexGuard<'static, ()>,
}

/// A node reaps every child of its process, also those of another, so one test has one at a time.
#[cfg(test)]
static NODE: std::sync::Mutex<()> = std::sync::Mutex::new(());

impl Dispatcher {
    /// A node in front of its boot.
    pub fn new() -> Outcome<Dispatcher> {
        let facts = Facts::default();
        let source = Arc::clone(&facts.boot_source);
        Self::with(Console::open(), facts, move |job| job.run(&source))
    }

    /// The same, with disks on which `run` does the jobs.
    fn with(
        console: Console,
        facts: Facts,
        run: impl FnMut(Job) -> Done + Send + 'static,
    ) -> Outcome<Dispatcher> {
        // This comes first, see there.
        let events = EventLoop::new()?;
        let closer = Closer::default();
        let source = Arc::clone(&facts.boot_source);
        Ok(Dispatcher {
            stage: Stage::Boots(Sequence::new(&BOOT)),
            end: None,
            hurry: Hurry::default(),
            ready: None,
            console,
            facts,
            events,
            processes: Processes::default(),
            sockets: Sockets::new(closer.clone()),
            logind: Logind::new(closer),
            buttons: Buttons::default(),
            keyboards: Keyboards::default(),
            watchdog: Watchdog::default(),
            disk: DiskWorker::start(run)?,
            volumes: DiskWorker::start(move |job| job.run(&source))?,
            waiting: Waiting::default(),
            phase_job: PhaseJob::default(),
            writer: Writer::start()?,
            work: None,
            clock: Clock::default(),
            settings: Settings::default(),
            keeping: Keeping::default(),
            unkept: Unkept::default(),
            console_address: ConsoleAddress::default(),
            watch: None,
            addresses: Addresses::default(),
            served: None,
            bootstrap: None,
            node_name: NodeName::default(),
            kubelet_start: KubeletStart::default(),
            // The first one may be late.
            restarts_kubelet: true,
            static_pods: StaticPods::default(),
            debug_pod: DebugPod::default(),
            room: Room::default(),
            is_untidy: false,
            pace: Pace::default(),
            cluster_report: ClusterReport::default(),
            last_errors: LastErrors::default(),
            health: Health::default(),
            node_plugins: NodePlugins::default(),
            trial: Trial::default(),
            reach: Reach::default(),
            update: None,
            updater: None,
            last_report: LastReport::default(),
            network_client: NetworkClient::default(),
            #[cfg(test)]
            _alone: NODE.lock().unwrap_or_else(std::sync::PoisonError::into_inner),
        })
    }

    /// Does what there is to do, waits for events, and handles them.
    pub fn turn(&mut self) {
        self.advance();
        self.watchdog.hold_off(uptime());
        let at_most = match self.stage {
            Stage::Boots(_) => BOOT_TURN,
            Stage::Ends(_) => SHUTDOWN_TURN,
            Stage::Runs => QUIET_TURN,
            Stage::Failed(until) => until.saturating_sub(uptime()),
        };
        let watchdog = self.watchdog.deadline().map(|due| due.saturating_sub(uptime()));
        let at_most = watchdog.map_or(at_most, |due| due.min(at_most));
        let deadlines = self.deadlines();
        let mut sources = Sources {
            processes: &mut self.processes,
            sockets: &mut self.sockets,
            logind: &mut self.logind,
            buttons: &mut self.buttons,
            keyboards: &mut self.keyboards,
            disk: &mut self.disk,
            volumes: &mut self.volumes,
            writer: &self.writer,
            watch: self.watch.as_ref(),
        };
        for event in self.events.wait(&mut sources, &deadlines, at_most) {
            self.handle(event);
        }
        self.reply_about_network();
    }

    /// Goes on with the boot or the shutdown as far as it can without waiting.
    fn advance(&mut self) {
        self.stage = match self.next_stage() {
            Stage::Boots(mut boot) => match boot.advance(self) {
                Progress::Waits => Stage::Boots(boot),
                Progress::Finished => Stage::Runs,
                Progress::Failed(phase, failure) => {
                    self.fail(phase.name, failure, phase.on_failure)
                }
            },
            Stage::Ends(mut shutdown) => {
                shutdown.advance(self);
                Stage::Ends(shutdown)
            }
            stage => stage,
        };
    }

    /// Takes the stage, or the shutdown in its place if it is time for that.
    fn next_stage(&mut self) -> Stage {
        match (std::mem::replace(&mut self.stage, Stage::Runs), self.end) {
            (Stage::Boots(_) | Stage::Runs, Some(_)) => Stage::Ends(Sequence::new(&SHUTDOWN)),
            (Stage::Failed(until), _) if uptime() >= until => {
                // A person may have asked for another end in the meantime.
                self.end.get_or_insert(End::Reboot);
                Stage::Ends(Sequence::new(&SHUTDOWN))
            }
            (stage, _) => stage,
        }
    }

    /// Prints why the node cannot go on, and leaves time to read it.
    fn fail(&mut self, name: &str, failure: Failure, on_failure: OnFailure) -> Stage {
        self.console.failed(name, failure);
        if on_failure == OnFailure::CountAndReboot {
            self.ask(Job::CountFailedBoot);
        }
        Stage::Failed(uptime() + READING_TIME)
    }

    /// The deadlines of all policies, since boot.
    fn deadlines(&self) -> Vec<(Deadline, Duration)> {
        let runs = self.end.is_none();
        let asks = runs && self.ready.is_some();
        let needs_disk = runs && !matches!(self.stage, Stage::Failed(_));
        let deadlines = [
            (Deadline::Trial, self.trial.deadline().filter(|_| runs)),
            // A node that ends proves nothing about the network.
            (Deadline::Reach, self.reach.deadline().filter(|_| runs)),
            (Deadline::NodeName, self.node_name.deadline().filter(|_| runs)),
            (Deadline::Health, self.health.deadline().filter(|_| asks)),
            (Deadline::Clock, self.clock.deadline()),
            (Deadline::StaticPods, self.static_pods.deadline().filter(|_| runs)),
            (Deadline::PodStates, self.pod_states_due().filter(|_| runs)),
            (Deadline::Debug, self.debug_pod.deadline().filter(|_| runs)),
            (Deadline::Room, self.room.deadline().filter(|_| runs)),
            (Deadline::KernelParameters, self.settings.deadline()),
            (Deadline::KubeletFiles, self.kubelet_files_due().filter(|_| runs)),
            (Deadline::Environment, self.settings.environment().deadline().filter(|_| runs)),
            (Deadline::EnvironmentProof, self.environment_proof_due().filter(|_| runs)),
            (Deadline::Registration, self.registration_due().filter(|_| runs)),
            (Deadline::NodeWatch, self.node_watch_due().filter(|_| runs)),
            (Deadline::KubeletProof, self.kubelet_proof_due().filter(|_| runs)),
            (Deadline::Mounts, self.settings.mounts_deadline().filter(|_| runs)),
            (Deadline::Try, self.settings.try_deadline()),
            (Deadline::Keeping, self.keeping.deadline().filter(|_| runs)),
            (Deadline::Proofs, self.unkept.deadline().filter(|_| runs)),
            (Deadline::Postponed, self.settings.postponed_deadline().filter(|_| runs)),
            (Deadline::Network, self.network_due().filter(|_| runs)),
            (Deadline::ConsoleAddress, self.console_address.deadline()),
            (Deadline::Start, self.settings.start_deadline().filter(|_| runs)),
            (Deadline::Summary, Some(self.pace.deadline()).filter(|_| needs_disk)),
            (Deadline::ClusterReport, self.cluster_report_due().filter(|_| runs)),
            (Deadline::Disk, self.disk.deadline().filter(|_| needs_disk)),
            (Deadline::Reply, self.waiting.deadline()),
        ];
        deadlines.into_iter().filter_map(|(deadline, at)| Some((deadline, at?))).collect()
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Line(program, line) => {
                self.last_errors.on_line(program, &line, uptime());
                self.console.say(program.name(), line);
            }
            Event::Exited(program, exit) => self.on_exit(program, exit),
            Event::Killed(program) => self.on_killed(program),
            Event::StartDue(program) => self.start_again(program),
            Event::Signal(end) => self.on_person(end),
            Event::Request(received) => self.on_request(received),
            Event::ButtonFound(name) => {
                self.console.say("power-button", format_args!("listens to {name}"));
            }
            Event::ButtonPressed => {
                if self.end.is_none() {
                    self.console.say("power-button", "was pressed, so the node powers off");
                }
                self.on_person(End::PowerOff);
            }
            Event::Typed(line) => self.on_typed(&line),
            Event::Inhibitor(change) => self.on_inhibitor(change),
            Event::JobEnded(ended) => self.on_job_ended(ended),
            Event::WriteFailed(failure) => self.console.say("data", failure),
            Event::MovedAside(text) => {
                self.is_untidy = true;
                self.console.say("data", text);
            }
            Event::HostChanged => self.on_host_changed(),
            Event::Deadline(deadline) => self.on_deadline(deadline),
        }
    }

    fn on_deadline(&mut self, deadline: Deadline) {
        let now = uptime();
        match deadline {
            Deadline::Trial => self.on_trial_deadline(now),
            Deadline::Reach => {
                let actions = self.reach.on_deadline(now);
                self.carry_out_reach(actions);
            }
            Deadline::NodeName if self.end.is_none() && self.node_name.is_over(now) => {
                self.restart_kubelet();
            }
            Deadline::NodeName => {}
            Deadline::Health => self.ask_daemons(now),
            Deadline::Clock => {
                if self.clock.is_due(now) {
                    self.ask(Job::KeepClock);
                }
            }
            Deadline::StaticPods => {
                self.static_pods.on_due(now);
                self.place_static_pods();
                self.look_for_programs();
            }
            Deadline::PodStates => self.ask_for_pod_states(),
            Deadline::Debug => self.on_debug_deadline(now),
            Deadline::Room => self.look_at_data(),
            Deadline::KernelParameters => self.on_parameters_due(now),
            Deadline::KubeletFiles => self.write_kubelet_config(),
            Deadline::Environment => self.on_environment_due(now),
            Deadline::EnvironmentProof => self.settings.environment_mut().on_proved(),
            Deadline::Registration => self.on_registration_due(),
            Deadline::NodeWatch => self.watch_node(),
            Deadline::KubeletProof => self.on_kubelet_proved(),
            Deadline::Mounts => self.on_host_changed(),
            Deadline::Try => self.on_try_deadline(now),
            Deadline::Keeping => self.on_keeping_due(now),
            Deadline::Proofs => self.keep_proofs_again(),
            Deadline::Postponed => self.on_postponed_due(now),
            Deadline::Network => self.on_network_due(now),
            Deadline::ConsoleAddress => self.end_console_address("as nobody kept it in time"),
            Deadline::Start => self.on_start_deadline(),
            Deadline::Summary => self.on_summary_due(),
            Deadline::ClusterReport => self.report_to_cluster(),
            Deadline::Disk => self.on_disk_deadline(now),
            Deadline::Reply => self.answer_without_disk(now),
        }
    }

    /// Has the node end. Once the shutdown has begun, nothing changes it.
    fn request_end(&mut self, end: End) {
        if !matches!(self.stage, Stage::Ends(_)) {
            self.end = Some(end);
            self.hurry.on_end(uptime());
        }
    }

    /// Prints the line that says that a phase has ended.
    fn print_phase(&mut self, name: &str) {
        self.console.line(&format!("{PHASE}{name} {:.3}", uptime().as_secs_f64()));
    }
}

impl Surroundings for Dispatcher {
    fn now(&self) -> Duration {
        uptime()
    }

    fn holds(&mut self, condition: Condition) -> Outcome<bool> {
        Ok(match condition {
            Condition::Accepts(Program::Containerd) => containerd::accepts(),
            Condition::Accepts(program) => self.processes.is_running(program),
            Condition::Done(program) => self.processes.is_done(program),
            Condition::JobDone => return self.phase_job.is_done(),
            Condition::Runs(program) => self.processes.is_running(program),
            Condition::Stopped(program) => !self.processes.is_running(program),
            Condition::JobsEnded => self.disk.has_ended(uptime()),
            Condition::InhibitorsGone => self.hurry.is_on() || self.logind.is_free(uptime()),
            Condition::NoChildren => !power::has_children(),
            Condition::WriterEnded => self.writer.has_ended(),
            Condition::WorkFinished => match self.work.as_ref().and_then(Work::outcome) {
                Some(outcome) => {
                    if let Err(failure) = outcome {
                        self.console.say(crate::shutdown::NAME, failure);
                    }
                    true
                }
                None => false,
            },
        })
    }

    fn unwritten(&self) -> u64 {
        disks::unwritten()
    }

    fn report(&mut self, text: String) {
        self.console.say(crate::shutdown::NAME, text);
    }

    fn note(&mut self, name: &'static str, failure: Failure) {
        self.console.say(name, failure);
    }
}
