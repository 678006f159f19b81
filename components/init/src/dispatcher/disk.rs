//! Asks the disk worker for jobs, and carries out what their ends lead to.

use std::time::Duration;

use osbuild_abi::paths::SECCOMP_LINK;
use osbuild_failure::Outcome;
use osbuild_protocol::{Refusal, RefusalCode, Reply, Slots};

use super::{Dispatcher, End, Program};
use crate::boot::CONTAINERD_RESET;
use crate::data::volumes::OpenedVolume;
use crate::disk_worker::phase_job::PhaseJob;
use crate::disk_worker::waiting::{Waiter, Wants};
use crate::disk_worker::{DiskWorker, Done, Ended, Job, JobId, MAX_REQUESTED};
use crate::sequence::OnFailure;
use crate::sockets::{Answer, ClientId};
use crate::uptime::uptime;

/// The name of the lines about a disk that does not answer.
const NAME: &str = "disk";

impl Dispatcher {
    /// Asks for a job of `init` itself.
    pub(super) fn ask(&mut self, job: Job) -> Option<JobId> {
        let subject = job.subject();
        let asked = self.disk.ask(job, uptime());
        asked.map_err(|failure| self.console.say(subject, failure)).ok()
    }

    /// Asks for a job for which `client` waits, unless too many are left.
    pub(super) fn ask_for(
        &mut self,
        client: ClientId,
        wants: Wants,
        job: Job,
    ) -> Result<(), Refusal> {
        let worker = if job.reads_any_disk() { &mut self.volumes } else { &mut self.disk };
        may_ask(worker)?;
        let now = uptime();
        let id = worker.ask(job, now)?;
        self.waiting.add(client, id, wants, now);
        Ok(())
    }

    /// Refuses jobs of clients while too many are left.
    pub(super) fn may_ask(&self) -> Result<(), Refusal> {
        may_ask(&self.disk)
    }

    /// Asks how much room DATA has, and whether the link to the seccomp profiles is there: nothing
    /// reports either of them.
    pub(super) fn look_at_data(&mut self) {
        if self.takes_untidy()
            && let Err(failure) = self.run(Program::Tidy)
        {
            self.console.say(Program::Tidy.name(), failure);
        }
        self.ask(Job::LinkSeccompProfiles);
        let is_asked = self.ask(Job::MeasureRoom).is_some();
        self.room.on_asked(is_asked, uptime());
    }

    /// Whether a child has to remove the oldest entries that were moved aside. One that still runs
    /// does not know the newest.
    fn takes_untidy(&mut self) -> bool {
        !self.processes.is_running(Program::Tidy) && std::mem::take(&mut self.is_untidy)
    }

    /// Asks for the job of a phase, which ends with it.
    pub(super) fn ask_in_phase(&mut self, job: Job) -> Outcome {
        self.phase_job = PhaseJob::Waits(self.disk.ask(job, uptime())?);
        Ok(())
    }

    pub(super) fn on_job_ended(&mut self, Ended { id, subject, done }: Ended) {
        if self.phase_job.waits_for(id) {
            self.phase_job = PhaseJob::Ended(self.on_phase_job(done));
            return;
        }
        let waiter = self.waiting.take(id);
        let client = waiter.map(|waiter| waiter.client);
        match done {
            Done::Slots(slots) => self.on_slots(waiter, slots),
            Done::SlotOpened(opened) => self.on_slot_opened(client, opened),
            Done::VolumeOpened(opened) => self.on_volume_opened(client, opened),
            Done::PartitionFound(device) => self.on_partition_found(client, device),
            Done::MarkedForTry(marked) => self.on_marked_for_try(client, marked),
            Done::MarkedGood { outcome, is_still_on_trial } => {
                self.on_marked_good(outcome, is_still_on_trial);
            }
            Done::NodeName(known) => self.on_name_known(id, known),
            Done::KubeletPrepared { start, shutdown_grace } => {
                self.on_kubelet_prepared(id, &start, shutdown_grace);
            }
            Done::ProgramsFound(present) => {
                let providers = self.settings.credential_providers_mut();
                providers.on_looked(&present, uptime());
            }
            Done::StaticPodsPlaced(placed) => self.on_static_pods_placed(placed),
            Done::ClearedForJoining(outcome) => self.on_cleared_for_joining(client, outcome),
            Done::ResetRequested(outcome) => {
                if outcome.is_ok() {
                    self.request_end(End::Reboot);
                }
                self.reply(client, outcome);
            }
            Done::FailedBootCounted(outcome) => match outcome {
                Ok(line) => self.console.say(CONTAINERD_RESET, line),
                Err(failure) => self.console.say(CONTAINERD_RESET, failure),
            },
            Done::RoomMeasured(left) => {
                for line in self.room.on_measured(left, uptime()) {
                    self.console.say(subject, line);
                }
            }
            Done::SeccompProfilesLinked(Ok(true)) => self.say_about_settings([format!(
                "another program changed the link {SECCOMP_LINK}, it is as before again"
            )]),
            // A DATA that does not take it fails other jobs, whose lines say so.
            Done::SeccompProfilesLinked(Ok(false) | Err(_)) => {}
            Done::SettingsKept(outcome) => self.on_settings_kept(client, outcome),
            Done::ProofKept(proof, outcome) => self.on_proof_kept(proof, outcome),
            Done::LabelsKept(outcome) => self.on_labels_kept(outcome),
            Done::Acknowledged(outcome) => self.on_acknowledged(client, outcome),
            Done::Plain(outcome) => match (client, outcome) {
                (Some(client), outcome) => self.reply(Some(client), outcome),
                (None, Err(failure)) => self.console.say(subject, failure),
                (None, Ok(())) => {}
            },
            // A phase that no longer waits has failed.
            Done::Security(_)
            | Done::DataMounted(..)
            | Done::DataEmptied(_)
            | Done::SlotFound(_)
            | Done::Trial(..)
            | Done::LastRun(_)
            | Done::Identity(..)
            | Done::ContainerdReset(_)
            | Done::WritableMounted(_)
            | Done::PanicsMoved(_)
            | Done::HostNames { .. }
            | Done::Settings { .. } => {}
        }
    }

    /// Replies to a client, if it still waits, that its request was carried out or why not.
    pub(super) fn reply(&mut self, client: Option<ClientId>, outcome: Outcome) {
        if let Some(client) = client {
            let outcome = outcome.map(|()| Reply::Done.into()).map_err(Refusal::from);
            self.sockets.reply(client, outcome);
        }
    }

    fn on_volume_opened(
        &mut self,
        client: Option<ClientId>,
        opened: Result<Option<OpenedVolume>, Refusal>,
    ) {
        let outcome = opened.map(|opened| match opened {
            Some(OpenedVolume { device, descriptor }) => {
                Answer { reply: Reply::Volume(Some(device)), descriptor: Some(descriptor) }
            }
            None => Reply::Volume(None).into(),
        });
        self.answer(client, outcome);
    }

    /// Replies to a client, if it still waits, perhaps with a descriptor.
    pub(super) fn answer(&mut self, client: Option<ClientId>, outcome: Result<Answer, Refusal>) {
        match (client, outcome) {
            (Some(client), outcome) => drop(self.sockets.reply(client, outcome)),
            (None, Ok(Answer { descriptor: Some(descriptor), .. })) => {
                self.sockets.close(descriptor);
            }
            (None, _) => {}
        }
    }

    fn on_slots(&mut self, waiter: Option<Waiter>, slots: Outcome<Slots>) {
        let Some(Waiter { client, wants, .. }) = waiter else { return };
        let slots = slots.map(|slots| self.with_outage(slots));
        let outcome: Result<Answer, Refusal> = match wants {
            Wants::NodeStatus => {
                let slots = slots.unwrap_or_else(|failure| Slots::Unreadable(failure.to_string()));
                Ok(Reply::Node(Box::new(self.status(slots))).into())
            }
            Wants::Disk => slots.map(|slots| Reply::Slots(slots).into()).map_err(Refusal::from),
        };
        self.sockets.reply(client, outcome);
    }

    /// The time of clients may be over: they get a reply without the disk.
    pub(super) fn answer_without_disk(&mut self, now: Duration) {
        for Waiter { client, wants, .. } in self.waiting.expired(now) {
            let seconds = wants.timeout().as_secs();
            let reason = format!("the disk has not answered for {seconds} s");
            let outcome: Result<Answer, Refusal> = match wants {
                Wants::NodeStatus => {
                    Ok(Reply::Node(Box::new(self.status(Slots::Unreadable(reason)))).into())
                }
                Wants::Disk => Err(Refusal::new(RefusalCode::Failed, reason)),
            };
            self.update.take_if(|update| update.client == client);
            self.sockets.reply(client, outcome);
        }
    }

    /// A job may have taken too long: the node cannot go on without its disk.
    pub(super) fn on_disk_deadline(&mut self, now: Duration) {
        if let Some(failure) = self.disk.overdue(now) {
            self.stage = self.fail(NAME, failure, OnFailure::Reboot);
        }
    }

    fn on_cleared_for_joining(&mut self, client: Option<ClientId>, cleared: Outcome) {
        if let Err(failure) = cleared {
            self.console.say(Program::Kubelet.name(), failure);
        }
        self.restarts_kubelet = true;
        if let Some(config) = self.processes.get_mut(Program::KubeletConfig) {
            config.run_again(uptime());
        }
        self.reply(client, Ok(()));
    }
}

fn may_ask(worker: &DiskWorker) -> Result<(), Refusal> {
    if worker.left() < MAX_REQUESTED {
        return Ok(());
    }
    let reason = format!("{MAX_REQUESTED} jobs wait for the disk");
    Err(Refusal::new(RefusalCode::Busy, reason))
}

#[cfg(test)]
mod tests {
    use super::super::Stage;
    use super::*;
    use std::fs::File;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;
    use std::path::Path;
    use std::sync::mpsc::{Sender, channel};
    use std::time::Instant;

    use osbuild_protocol::Socket;

    use crate::console::Console;
    use crate::disk_worker::MAX_JOB_TIME;
    use crate::disk_worker::waiting::STATUS_TIMEOUT;
    use crate::event_loop::{Deadline, Event, Sources};
    use crate::facts::Facts;
    use crate::hardware::watchdog::Watchdog;
    use crate::slot::boot_source::OpenedSlot;
    use crate::sockets::closer::tests::{SOON, lingering};

    const INTERVAL: Duration = Duration::from_millis(5);

    /// A node that runs, with two sockets and a watchdog in `folder`. Its disk does not answer
    /// before something is sent.
    fn node(folder: &Path) -> (Dispatcher, Sender<()>) {
        let (answers, disk) = channel();
        let run = move |_| {
            let _ = disk.recv();
            Done::ClearedForJoining(Ok(()))
        };
        let mut node = Dispatcher::with(Console::silent(), Facts::default(), run).unwrap();
        node.stage = Stage::Runs;
        node.sockets.listen(Socket::Admin, &folder.join("admin")).unwrap();
        node.sockets.listen(Socket::Time, &folder.join("time")).unwrap();
        node.sockets.listen(Socket::Bootstrap, &folder.join("bootstrap")).unwrap();
        node.watchdog = Watchdog::on(File::create(folder.join("watchdog")).unwrap(), INTERVAL);
        (node, answers)
    }

    /// One turn of the loop, without the stages: this is not PID 1 of a machine that may end.
    fn turn(node: &mut Dispatcher) {
        node.watchdog.hold_off(uptime());
        let mut sources = Sources {
            processes: &mut node.processes,
            sockets: &mut node.sockets,
            logind: &mut node.logind,
            buttons: &mut node.buttons,
            keyboards: &mut node.keyboards,
            disk: &mut node.disk,
            volumes: &mut node.volumes,
            writer: &node.writer,
            watch: None,
        };
        for event in node.events.wait(&mut sources, &[], INTERVAL) {
            if let Event::Request(_) | Event::JobEnded(_) = event {
                node.handle(event);
            }
        }
    }

    fn connect(folder: &Path, socket: &str, line: &str) -> BufReader<UnixStream> {
        let mut client = UnixStream::connect(folder.join(socket)).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        client.write_all(line.as_bytes()).unwrap();
        BufReader::new(client)
    }

    /// The lines of a reply, the last of which is `ok` or an error.
    fn reply(client: &mut BufReader<UnixStream>) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            client.read_line(&mut line).unwrap();
            let is_last = line == "ok\n" || line.starts_with("error");
            lines.push(line);
            if is_last {
                return lines;
            }
        }
    }

    #[test]
    fn a_disk_that_hangs_leaves_the_loop_turning() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        let (mut node, answers) = node(folder);
        let fed = || std::fs::read(folder.join("watchdog")).unwrap().len();
        let mut waits = connect(folder, "admin", "restart kubelet\n");
        while node.disk.left() == 0 {
            turn(&mut node);
        }
        let before = fed();
        let mut served = connect(folder, "time", "last\n");
        for _ in 0..20 {
            turn(&mut node);
        }
        assert_eq!(reply(&mut served), ["seen 0\n", "kept yes\n", "ok\n"]);
        assert!(fed() > before + 2 && node.waiting.deadline().is_some());
        answers.send(()).unwrap();
        while node.disk.left() > 0 {
            turn(&mut node);
        }
        assert_eq!(reply(&mut waits), ["ok\n"]);
    }

    #[test]
    fn a_disk_of_others_that_hangs_holds_up_neither_the_disk_of_the_node_nor_its_shutdown() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        let (mut node, answers) = node(folder);
        let (opens, volume) = channel::<()>();
        node.volumes = DiskWorker::start(move |_| {
            let _ = volume.recv();
            Done::VolumeOpened(Ok(None))
        })
        .unwrap();
        let mut waits = connect(folder, "bootstrap", "volume\n");
        while node.volumes.left() == 0 {
            turn(&mut node);
        }
        answers.send(()).unwrap();
        let mut served = connect(folder, "admin", "restart kubelet\n");
        while node.disk.left() == 0 {
            turn(&mut node);
        }
        while node.disk.left() > 0 {
            turn(&mut node);
        }
        assert_eq!(reply(&mut served), ["ok\n"]);
        assert!(node.deadlines().iter().all(|(deadline, _)| *deadline != Deadline::Disk));
        node.disk.close();
        assert!(node.disk.has_ended(uptime()));
        opens.send(()).unwrap();
        while node.volumes.left() > 0 {
            turn(&mut node);
        }
        assert_eq!(reply(&mut waits), ["ok\n"]);
    }

    #[test]
    fn a_request_has_one_reply_in_time_even_if_its_job_ends_later() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        let (mut node, answers) = node(folder);
        let mut status = connect(folder, "admin", "status\n");
        let mut restart = connect(folder, "admin", "restart kubelet\n");
        while node.disk.left() < 2 {
            turn(&mut node);
        }
        node.answer_without_disk(uptime() + STATUS_TIMEOUT);
        let lines = reply(&mut status);
        assert!(lines.contains(&"slot the disk has not answered for 30 s\n".to_owned()));
        assert!(lines.iter().any(|line| line.starts_with("watchdog on")));
        node.answer_without_disk(uptime() + Wants::Disk.timeout());
        let refusal = "error: the disk has not answered for 120 s [code=3]\n";
        assert_eq!(reply(&mut restart), [refusal]);
        restart.get_mut().write_all(b"dance\n").unwrap();
        (0..2).for_each(|_| answers.send(()).unwrap());
        while node.disk.left() > 0 {
            turn(&mut node);
        }
        turn(&mut node);
        assert_eq!(reply(&mut restart), ["error: `dance` is not a verb of this socket [code=1]\n"]);
    }

    #[test]
    fn a_job_that_never_ends_fails_the_node_once() {
        let place = tempfile::tempdir().unwrap();
        let (mut node, _answers) = node(place.path());
        node.ask(Job::MarkGood);
        let has_deadline = |node: &Dispatcher| {
            node.deadlines().iter().any(|(deadline, _)| *deadline == Deadline::Disk)
        };
        assert!(has_deadline(&node));
        node.on_disk_deadline(uptime());
        assert!(matches!(node.stage, Stage::Runs));
        node.on_disk_deadline(uptime() + MAX_JOB_TIME);
        assert!(matches!(node.stage, Stage::Failed(_)) && !has_deadline(&node));
    }

    #[test]
    fn the_link_to_the_seccomp_profiles_is_looked_at_as_often_as_the_room() {
        let place = tempfile::tempdir().unwrap();
        let (mut node, _answers) = node(place.path());
        for jobs in [2, 4] {
            node.handle(Event::Deadline(Deadline::Room));
            assert_eq!(node.disk.left(), jobs);
        }
    }

    #[test]
    fn entries_that_were_moved_aside_are_tidied_once() {
        let place = tempfile::tempdir().unwrap();
        let (mut node, _answers) = node(place.path());
        assert!(!node.takes_untidy());
        node.handle(Event::MovedAside("one".to_owned()));
        node.handle(Event::MovedAside("another".to_owned()));
        assert!(node.takes_untidy() && !node.takes_untidy());
    }

    #[test]
    fn a_disk_for_which_no_client_waits_any_more_is_closed_without_blocking() {
        let place = tempfile::tempdir().unwrap();
        let (mut node, _answers) = node(place.path());
        let since = Instant::now();
        let (partition, _peer) = lingering();
        let opened = OpenedSlot { name: "SLOT-B", partition, length: 1 };
        node.on_slot_opened(None, Ok(opened));
        let (descriptor, _peer) = lingering();
        let device = osbuild_protocol::BlockDevice::parse("vdb").unwrap();
        node.on_volume_opened(None, Ok(Some(OpenedVolume { device, descriptor })));
        assert!(since.elapsed() < SOON);
    }

    #[test]
    fn a_failed_node_ends_as_a_person_has_asked() {
        let place = tempfile::tempdir().unwrap();
        let (mut node, _answers) = node(place.path());
        for (asked, end) in [(None, End::Reboot), (Some(End::PowerOff), End::PowerOff)] {
            (node.stage, node.end) = (Stage::Failed(Duration::ZERO), asked);
            // The shutdown itself would end this machine.
            assert!(matches!(node.next_stage(), Stage::Ends(_)));
            assert_eq!(node.end, Some(end));
        }
    }

    #[test]
    fn requests_are_refused_while_too_many_jobs_are_left() {
        let place = tempfile::tempdir().unwrap();
        let (mut node, _answers) = node(place.path());
        let mut ask =
            || node.ask_for(ClientId::default(), Wants::Disk, Job::ReadSlots).map_err(|no| no.code);
        assert!((0..MAX_REQUESTED).all(|_| ask().is_ok()));
        assert_eq!(ask(), Err(RefusalCode::Busy));
        assert!(node.ask(Job::KeepClock).is_some(), "`init` itself may still ask");
    }
}
