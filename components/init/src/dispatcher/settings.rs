//! Carries out what follows from a change of the host's settings.

use std::time::Duration;

use osbuild_failure::Outcome;
use osbuild_protocol::{
    HostSettings, Refusal, RefusalCode, Reply, Setting, SettingName, Single, TryTime,
};
use osbuild_ranks::Source;

use super::{Dispatcher, End, Program};
use crate::disk_worker::Job;
use crate::disk_worker::waiting::Wants;
use crate::host::settings::fallback::{Fallback, MAX_FAILURES, Proof};
use crate::host::settings::{NAME, document};
use crate::host::volume_settings::Start;
use crate::host::watch::Watch;
use crate::processes::process::Launch;
use crate::sockets::{Answer, ClientId};
use crate::uptime::uptime;

/// The text before a daemon's last error in the message about its exit.
const LAST_ERROR: &str = "its last error: ";
/// The text before the reason in the kubelet's last line.
const KUBELET_ERROR: &str = "err=\"";
/// The maximum characters of that error in a status.
const MAX_ERROR: usize = 200;

/// Why the node reboots after a try.
const NETWORK_HANGS: &str =
    "nothing takes the changes of the network back: the node reboots to be without them";

/// Why a try is not confirmed yet.
const NETWORK_IS_BEHIND: &str =
    "the network does not have all changes yet: confirm them again in a moment";

/// How long the node has to be ready, if its board names no deadline.
const START_TIMEOUT: Duration = Duration::from_secs(300);

impl Dispatcher {
    /// Gives a setting the value of a request over the socket `host`.
    pub(super) fn apply_setting(
        &mut self,
        client: ClientId,
        setting: &Setting,
    ) -> Result<Option<Answer>, Refusal> {
        self.settings.admit()?;
        self.settings.apply(Source::Api, setting, uptime())?;
        self.keep_setting(client, &setting.name())
    }

    /// Withdraws the value of requests over the socket `host`.
    pub(super) fn withdraw_setting(
        &mut self,
        client: ClientId,
        name: &SettingName,
    ) -> Result<Option<Answer>, Refusal> {
        self.settings.admit()?;
        let withdrawn = self.settings.withdraw(Source::Api, name, uptime());
        if let Err(failure) = withdrawn {
            // The host has not followed, but the value is gone: DATA must not have it either.
            self.on_setting(name);
            self.keep_settings_unasked(uptime());
            return Err(failure.into());
        }
        self.keep_setting(client, name)
    }

    /// A request over the socket `host` has changed a setting: it is kept, unless it is tried.
    fn keep_setting(
        &mut self,
        client: ClientId,
        name: &SettingName,
    ) -> Result<Option<Answer>, Refusal> {
        self.on_setting(name);
        if self.settings.is_trying() {
            return Ok(Some(Reply::Done.into()));
        }
        self.keep_settings(client).map(|()| None)
    }

    /// A setting has changed: carries out what follows from it.
    pub(super) fn on_setting(&mut self, name: &SettingName) {
        match name {
            SettingName::Single(Single::HostName) => {
                let actions = self.node_name.on_host_name(self.settings.host_name());
                self.carry_out_name(actions);
            }
            SettingName::Single(Single::NameServers | Single::SearchDomains) => {
                self.run_again(Program::PodResolvers);
            }
            // These are carried out when their deadlines have passed.
            SettingName::ClusterJoin
            | SettingName::CredentialProvider(_)
            | SettingName::Kubelet(_)
            | SettingName::NodeLabel(_)
            | SettingName::NodeTaint(_)
            | SettingName::Proxy
            | SettingName::Swap
            | SettingName::SystemImage(_)
            | SettingName::TrustedRoot(_)
            | SettingName::Volume(_) => {}
            // The kubelet watches the folder of its pods. The pod that sets the clock watches the
            // file of its servers, and the one that configures links waits for a reply with others.
            // The pod that makes a control plane looks for changes of its file.
            // containerd reads a seccomp profile when it makes a container.
            // containerd reads the mirrors and the credentials of a registry at each pull.
            // The summary shows the message when it has changed.
            SettingName::ControlPlane
            | SettingName::Single(Single::TimeServers | Single::Motd)
            | SettingName::KernelModule(_)
            | SettingName::KernelParameter(_)
            | SettingName::Mount(_)
            | SettingName::Network(_)
            | SettingName::RegistryCredential(_)
            | SettingName::RegistryMirror(_)
            | SettingName::SeccompProfile(_)
            | SettingName::StaticPod(_) => {}
        }
    }

    /// The settings of the host, and what the node knows of itself in its cluster.
    pub(super) fn observe(&self) -> HostSettings {
        HostSettings { cluster: self.cluster_state(), ..self.settings.observe(uptime()) }
    }

    /// Hands the settings of the network to the client that waits for others than it has.
    pub(super) fn reply_about_network(&mut self) {
        let network = self.settings.network();
        let revision = network.revision();
        if let Some(client) = self.network_client.take_waiting(revision) {
            let reply = Reply::Network(network.wanted());
            if self.sockets.reply(client, Ok(reply.into())) {
                self.network_client.on_given(revision);
            }
        }
    }

    /// Until when the pod that configures links has to be without what was taken back, since boot.
    pub(super) fn network_due(&self) -> Option<Duration> {
        self.network_client.deadline()
    }

    /// The pod that configures links may hang. Then a reboot ends what it has set: nothing of a try
    /// is kept.
    pub(super) fn on_network_due(&mut self, now: Duration) {
        if self.network_client.is_late(now) {
            self.say_about_settings([NETWORK_HANGS.to_owned()]);
            self.request_end(End::Reboot);
        }
    }

    pub(super) fn begin_try(&mut self, time: TryTime) -> Result<(), Refusal> {
        let is_new = !self.settings.is_trying();
        self.settings.begin_try(time, uptime())?;
        if is_new {
            self.network_client.on_try(self.settings.network().revision());
        }
        let seconds = time.seconds();
        self.say_about_settings([format!("changes are taken back in {seconds} s if unconfirmed")]);
        Ok(())
    }

    /// Ends the try and keeps its changes, if the network has them: a client that has reached the
    /// node before has not shown that they let it connect.
    pub(super) fn confirm_try(&mut self, client: ClientId) -> Result<(), Refusal> {
        let revision = self.settings.network().revision();
        if self.settings.is_trying() && self.network_client.is_behind(revision) {
            return Err(Refusal::new(RefusalCode::Busy, NETWORK_IS_BEHIND));
        }
        self.may_ask()?;
        self.settings.confirm_try()?;
        self.say_about_settings(["the changes are confirmed".to_owned()]);
        self.keep_settings(client)
    }

    pub(super) fn revert_try(&mut self, client: ClientId) -> Result<Option<Answer>, Refusal> {
        if self.settings.begin_acknowledging() {
            // They come first: DATA would have them as unknown to clients otherwise.
            self.keep_proofs_again();
            return self.ask_for(client, Wants::Disk, Job::KeepAcknowledged).map(|()| None);
        }
        if let Some(lines) = self.settings.revert_try(uptime())? {
            self.on_taken_back(lines, "on request");
        }
        Ok(Some(Reply::Done.into()))
    }

    /// DATA has that a client knows that the node has gone back, or has not taken it: then the
    /// client has to say so again.
    pub(super) fn on_acknowledged(&mut self, client: Option<ClientId>, outcome: Outcome) {
        if outcome.is_ok() {
            self.settings.on_acknowledged();
            // A client knows what DATA may still not have: the settings in effect.
            if self.unkept.on_younger_settings() {
                self.keep_settings_unasked(uptime());
            }
        }
        self.reply(client, outcome);
    }

    pub(super) fn on_try_deadline(&mut self, now: Duration) {
        if let Some(lines) = self.settings.expire_try(now) {
            self.on_taken_back(lines, "as nobody confirmed them in time");
        }
    }

    pub(super) fn on_taken_back(&mut self, lines: Vec<String>, reason: &str) {
        self.say_about_settings(lines);
        self.say_about_settings([format!("the changes are taken back, {reason}")]);
        self.on_many_settings();
        self.network_client.on_taken_back(self.settings.network().revision(), uptime());
    }

    /// The node document was read again.
    pub(super) fn on_document(&mut self) {
        // One that cannot be read withdraws nothing.
        let lines = match document::read() {
            Ok(text) => self.settings.set_document(text, uptime()),
            Err(failure) => {
                self.say_about_settings([failure.to_string()]);
                None
            }
        };
        if let Some(lines) = lines {
            self.say_about_settings(lines);
            self.on_many_settings();
        }
    }

    /// Any setting may have changed.
    fn on_many_settings(&mut self) {
        for single in [Single::HostName, Single::NameServers] {
            self.on_setting(&single.into());
        }
    }

    /// Another program may have changed what is set on the host.
    pub(super) fn on_host_changed(&mut self) {
        // A shutdown unmounts all that is mounted.
        if self.end.is_some() {
            return;
        }
        let lines = self.settings.hold(uptime());
        self.say_about_settings(lines);
        self.watch.iter().for_each(Watch::watch_again);
        self.start_volumes();
        self.start_swap();
        self.start_system_images();
    }

    /// Starts the child that keeps images, if it is due, and ends one that a change has outdated.
    fn start_system_images(&mut self) {
        let program = Program::SystemImages;
        let images = self.settings.system_images_mut();
        if images.has_to_end()
            && let Some(process) = self.processes.get_mut(program)
        {
            process.stop(uptime(), Duration::ZERO);
        }
        let has_own = self.processes.is_done(Program::Images);
        let Some(arguments) = images.start(has_own, uptime()) else { return };
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        if let Err(failure) = self.run_as(program, Launch::child(program, &words)) {
            let images = self.settings.system_images_mut();
            images.on_report(false, &failure.to_string(), uptime());
        }
    }

    /// Starts the child that turns the swap on or off, if it is due.
    fn start_swap(&mut self) {
        let Some(arguments) = self.settings.swap_mut().start(uptime()) else { return };
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        if let Err(failure) = self.run_as(Program::Swap, Launch::child(Program::Swap, &words)) {
            self.settings.swap_mut().on_report(false, &failure.to_string(), uptime());
        }
    }

    /// Starts the children of volumes that are due.
    fn start_volumes(&mut self) {
        for Start { number, arguments } in self.settings.volumes_mut().starts(uptime()) {
            let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let program = Program::Volume(number);
            if let Err(failure) = self.run_as(program, Launch::child(program, &words)) {
                self.settings.volumes_mut().on_report(number, &failure.to_string(), uptime());
            }
        }
    }

    /// Tries settings again that the host has refused.
    pub(super) fn on_postponed_due(&mut self, now: Duration) {
        for name in self.settings.retry_postponed(now) {
            self.on_setting(&name);
            self.say_about_settings([format!("`{name}` is set now")]);
        }
    }

    pub(super) fn on_parameters_due(&mut self, now: Duration) {
        let lines = self.settings.hold_kernel_parameters(now);
        self.say_about_settings(lines);
    }

    /// Sets what this start takes of the kept settings.
    pub(super) fn start_settings(&mut self, fallback: Fallback) {
        let mut lines = self.settings.set_recipe(uptime());
        lines.extend(self.settings.start(fallback, self.start_timeout(), uptime()));
        self.say_about_settings(lines);
    }

    /// A daemon has failed so many times in a row, the last time with this message.
    pub(super) fn on_daemon_failed(&mut self, daemon: Program, times: u32, message: &str) {
        if times == 0 || !times.is_multiple_of(MAX_FAILURES) {
            return;
        }
        let reason = format!("{} has failed {times} times in a row", daemon.name());
        let is_of_kubelet = daemon == Program::Kubelet;
        let is_given_up = is_of_kubelet && self.give_up_kubelet_fields(&reason, message);
        if !is_given_up && !self.give_up_environment(&reason) {
            self.give_up_settings(&reason);
        }
    }

    /// The newest fields of the kubelet's configuration may be the reason why it fails. Returns
    /// whether it gets others.
    fn give_up_kubelet_fields(&mut self, reason: &str, message: &str) -> bool {
        // Before a slot on trial is ready, its release is the cause.
        if self.trial.is_on() && self.ready.is_none() {
            return false;
        }
        let now = uptime();
        if let Some(lines) = self.settings.fail_try(now) {
            self.on_taken_back(lines, &format!("as the {reason}"));
            return true;
        }
        let error = message.split_once(LAST_ERROR).map_or(message, |(_, error)| error);
        let error = error.split_once(KUBELET_ERROR).map_or(error, |(_, error)| error);
        let error: String = error.chars().take(MAX_ERROR).collect();
        let is_held_back =
            self.settings.kubelet_mut().on_failed(&format!("the {reason}: {error}"), now);
        if is_held_back {
            let text = format!("{reason}: it gets the fields with which it has run before");
            self.say_about_settings([text]);
        }
        is_held_back
    }

    /// The kubelet has run for long enough to show that it does with its fields.
    pub(super) fn on_kubelet_proved(&mut self) {
        let (lines, proof) = self.settings.on_kubelet_proved();
        self.say_about_settings(lines);
        if let Some(proof) = proof {
            self.keep_proof(proof);
        }
    }

    pub(super) fn on_start_deadline(&mut self) {
        let seconds = self.start_timeout().as_secs();
        self.give_up_settings(&format!("the node is not ready after {seconds} s"));
    }

    /// The settings may be the reason why the node does not get ready.
    fn give_up_settings(&mut self, reason: &str) {
        let timeout = self.start_timeout();
        let Some((failures, lines)) = self.settings.give_up(reason, timeout, uptime()) else {
            return;
        };
        self.ask(Job::CountFailedStarts(failures));
        self.say_about_settings(lines);
        self.on_many_settings();
        // A daemon may have started with what is taken back, and go on without a part of itself.
        self.restart_containerd();
        self.restart_kubelet_with_files();
    }

    /// The node is ready, or its slot has become a good one as well: its settings are good, or it
    /// has gone back to those that are.
    pub(super) fn on_ready_with_settings(&mut self) {
        let Some(proof) = self.settings.on_ready(self.trial.is_on()) else { return };
        if let Proof::GoneBack(_) = proof {
            let text = "the node is ready with earlier settings, and goes back to them";
            self.say_about_settings([text.to_owned()]);
        }
        self.keep_proof(proof);
    }

    /// How long the node has to be ready: so that a slot on trial can still get ready with earlier
    /// settings.
    fn start_timeout(&self) -> Duration {
        self.facts.command_line().gate_deadline.map_or(START_TIMEOUT, |deadline| deadline / 2)
    }

    pub(super) fn say_about_settings(&mut self, lines: impl IntoIterator<Item = String>) {
        lines.into_iter().for_each(|line| self.console.say(NAME, line));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::Stage;
    use super::*;
    use std::fs::File;
    use std::io::{ErrorKind, Read, Write};
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    use osbuild_failure::Failure;
    use osbuild_protocol::{Socket, TryState};
    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

    use crate::console::Console;
    use crate::disk_worker::Done;
    use crate::facts::Facts;
    use crate::hardware::watchdog::Watchdog;
    use crate::host::settings::fallback::Kept;
    use crate::sys::own_mounts;
    use crate::uptime::tests::{EXACTNESS, of_the_kernel};

    /// How long a turn may wait.
    const INTERVAL: Duration = Duration::from_millis(5);
    const MAX_TURNS: u32 = 1000;

    /// A node that runs, with two sockets in `folder`, and a client of each.
    pub fn node(folder: &Path) -> (Dispatcher, [UnixStream; 2]) {
        node_on(folder, |_| Done::ClearedForJoining(Ok(())))
    }

    /// The same, with a disk on which `run` does the jobs.
    pub fn node_on(
        folder: &Path,
        run: impl FnMut(Job) -> Done + Send + 'static,
    ) -> (Dispatcher, [UnixStream; 2]) {
        let mut node = Dispatcher::with(Console::silent(), Facts::default(), run).unwrap();
        node.stage = Stage::Runs;
        node.watchdog = Watchdog::on(File::create(folder.join("watchdog")).unwrap(), INTERVAL);
        let clients = [(Socket::Net, "net"), (Socket::Host, "host")].map(|(socket, name)| {
            node.sockets.listen(socket, &folder.join(name)).unwrap();
            let client = UnixStream::connect(folder.join(name)).unwrap();
            client.set_nonblocking(true).unwrap();
            client
        });
        (node, clients)
    }

    /// Runs a test with such a node on a thread where `/run` is as on a node.
    pub fn on_a_node(work: impl FnOnce(&mut Dispatcher) + Send) {
        let inside = || {
            own_mounts().expect("these tests require uid 0 and CAP_SYS_ADMIN");
            let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
            mount_change("/", private).unwrap();
            mount("node", "/run", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, None).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let (mut node, _clients) = node(folder.path());
            work(&mut node);
        };
        let ended = std::thread::scope(|scope| scope.spawn(inside).join());
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }

    /// Runs turns of the node until the client has received a whole reply, and returns its text:
    /// only a part if the reply is not complete after [`MAX_TURNS`].
    pub fn reply(node: &mut Dispatcher, client: &mut UnixStream) -> String {
        let mut reply = String::new();
        for _ in 0..MAX_TURNS {
            match client.read_to_string(&mut reply) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => panic!("{other:?}"),
            }
            let is_refused = reply.starts_with("error: ") && reply.ends_with('\n');
            if is_refused || reply.ends_with("ok\n") {
                break;
            }
            node.turn();
        }
        reply
    }

    fn ask(node: &mut Dispatcher, client: &mut UnixStream, line: &str) -> String {
        client.write_all(line.as_bytes()).unwrap();
        reply(node, client)
    }

    #[test]
    fn the_pod_that_configures_links_hears_of_a_try_and_of_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let (mut node, [mut net, mut host]) = node(folder.path());
        let node = &mut node;
        assert_eq!(ask(node, &mut net, "await-network 0\n"), "revision 1\nok\n");
        net.write_all(b"await-network 1\n").unwrap();
        assert_eq!(ask(node, &mut host, "try 60\n"), "ok\n");
        let error = net.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "nothing has changed");
        assert_eq!(ask(node, &mut host, "apply address eth0 192.0.2.7 24\n"), "ok\n");
        let tried = "revision 2\nsetting address eth0 192.0.2.7 24\nok\n";
        assert_eq!(reply(node, &mut net), tried);
        assert_eq!(ask(node, &mut net, "network-set address eth0 192.0.2.7 24\n"), "ok\n");
        let observed = ask(node, &mut host, "observe\n");
        assert!(observed.contains("current api address eth0 192.0.2.7 24\n"), "{observed}");
        net.write_all(b"await-network 2\n").unwrap();
        assert_eq!(ask(node, &mut host, "revert\n"), "ok\n");
        assert_eq!(reply(node, &mut net), "revision 3\nok\n");
    }

    #[test]
    fn a_pod_that_was_given_nothing_of_a_try_has_nothing_to_take_back() {
        let folder = tempfile::tempdir().unwrap();
        let (mut node, [mut net, mut host]) = node(folder.path());
        let node = &mut node;
        for is_given in [false, true] {
            let revision = node.settings.network().revision();
            let awaits = format!("await-network {revision}\n");
            assert!(ask(node, &mut net, "await-network 0\n").ends_with("ok\n"));
            net.write_all(awaits.as_bytes()).unwrap();
            node.turn();
            if !is_given {
                // It ends before the try, and the kubelet needs a while to start it again.
                net = UnixStream::connect(folder.path().join("net")).unwrap();
                net.set_nonblocking(true).unwrap();
            }
            assert_eq!(ask(node, &mut host, "try 60\n"), "ok\n");
            assert_eq!(ask(node, &mut host, "apply address eth0 192.0.2.7 24\n"), "ok\n");
            assert_eq!(ask(node, &mut host, "try 90\n"), "ok\n", "it has more time");
            assert_eq!(ask(node, &mut host, "revert\n"), "ok\n");
            assert_eq!(node.network_due().is_some(), is_given);
        }
    }

    /// The pod `time` may set the wall clock by decades while a try is running.
    #[test]
    fn no_jump_of_the_wall_clock_moves_the_end_of_a_try() {
        let folder = tempfile::tempdir().unwrap();
        let (mut node, [_, mut host]) = node(folder.path());
        let (time, before) = (Duration::from_secs(60), of_the_kernel());
        assert_eq!(ask(&mut node, &mut host, "try 60\n"), "ok\n");
        let until = node.settings.try_deadline().unwrap();
        let latest = of_the_kernel() + EXACTNESS + time;
        assert!(before + time <= until && until <= latest, "{until:?}");
        assert!(node.settings.expire_try(until - EXACTNESS).is_none());
        assert!(node.settings.expire_try(until).is_some());
    }

    #[test]
    fn a_try_is_confirmed_once_the_pod_that_configures_links_has_its_changes() {
        let folder = tempfile::tempdir().unwrap();
        let (mut node, [mut net, mut host]) = node(folder.path());
        let node = &mut node;
        assert_eq!(ask(node, &mut net, "await-network 0\n"), "revision 1\nok\n");
        net.write_all(b"await-network 1\n").unwrap();
        assert_eq!(ask(node, &mut host, "try 60\n"), "ok\n");
        assert_eq!(ask(node, &mut host, "apply address eth0 192.0.2.7 24\n"), "ok\n");
        let refused = format!("error: {NETWORK_IS_BEHIND} [code=4]\n");
        assert_eq!(ask(node, &mut host, "confirm\n"), refused);
        assert!(node.settings.is_trying());
        assert!(reply(node, &mut net).starts_with("revision 2\n"));
        assert_eq!(ask(node, &mut host, "confirm\n"), refused);
        net.write_all(b"await-network 2\n").unwrap();
        while node.network_client.is_behind(2) {
            node.turn();
        }
        assert_eq!(ask(node, &mut host, "confirm\n"), "ok\n");
        assert!(!node.settings.is_trying());
    }

    #[test]
    fn a_try_without_a_pod_that_configures_links_is_confirmed_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let (mut node, [_, mut host]) = node(folder.path());
        let node = &mut node;
        assert_eq!(ask(node, &mut host, "try 60\n"), "ok\n");
        assert_eq!(ask(node, &mut host, "apply link br0 made bridge\n"), "ok\n");
        assert_eq!(ask(node, &mut host, "confirm\n"), "ok\n");
    }

    #[test]
    fn a_link_that_nobody_confirms_goes_when_the_time_of_its_try_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let (mut node, [mut net, mut host]) = node(folder.path());
        let node = &mut node;
        let (kept, tried) = ("link eth0.5 made vlan id=5 parent=eth0", "link br0 made bridge");
        assert_eq!(ask(node, &mut host, &format!("apply {kept}\n")), "ok\n");
        assert_eq!(ask(node, &mut host, "try 60\n"), "ok\n");
        assert_eq!(ask(node, &mut host, &format!("apply {tried}\n")), "ok\n");
        let both = format!("revision 3\nsetting {tried}\nsetting {kept}\nok\n");
        assert_eq!(ask(node, &mut net, "await-network 2\n"), both);
        let lines = node.settings.expire_try(uptime() + Duration::from_secs(61));
        assert_eq!(lines, Some(Vec::new()));
        let kept = format!("revision 4\nsetting {kept}\nok\n");
        assert_eq!(ask(node, &mut net, "await-network 3\n"), kept);
    }

    #[test]
    fn a_node_that_has_gone_back_says_so_until_data_has_that_a_client_knows() {
        let folder = tempfile::tempdir().unwrap();
        let mut is_full = true;
        let run = move |job| match job {
            Job::KeepAcknowledged if std::mem::take(&mut is_full) => {
                Done::Acknowledged(Err(Failure::new("no space left")))
            }
            Job::KeepAcknowledged => Done::Acknowledged(Ok(())),
            _ => Done::Plain(Ok(())),
        };
        let (mut node, [_, mut host]) = node_on(folder.path(), run);
        let kept = Kept { is_unacknowledged: true, ..Kept::default() };
        node.start_settings(Fallback::new(kept, false));
        let node = &mut node;
        assert!(ask(node, &mut host, "revert\n").starts_with("error: no space left"));
        assert!(ask(node, &mut host, "observe\n").contains("start gone-back\n"));
        assert_eq!(ask(node, &mut host, "revert\n"), "ok\n");
        assert!(ask(node, &mut host, "observe\n").contains("start newest\n"));
        assert!(ask(node, &mut host, "revert\n").contains("no try is running"));
    }

    const MESSAGE: &str = "ended with exit code 1; starts again in 2.0 s; its last error: E1127 \
                           04:31:50.157410 2 run.go:72] \"command failed\" err=\"bad value";

    pub fn set_field(node: &mut Dispatcher, key: &str, value: &str) {
        let field = osbuild_protocol::KubeletField::parse(key, value).unwrap();
        node.settings.kubelet_mut().apply(Source::Api, &field, key, uptime()).unwrap();
    }

    /// The settings of requests, each with its error.
    pub fn requested(node: &Dispatcher) -> Vec<String> {
        let observed = node.settings.observe(uptime()).settings.into_iter();
        let wanted = observed.filter_map(|one| Some(format!("{}: {}", one.wanted?, one.error)));
        wanted.collect()
    }

    #[test]
    fn a_kubelet_that_fails_three_times_gets_the_fields_from_before() {
        let folder = tempfile::tempdir().unwrap();
        let (mut node, _clients) = node(folder.path());
        set_field(&mut node, "maxPods", "50");
        for (daemon, times) in [(Program::Kubelet, 2), (Program::Containerd, 3)] {
            node.on_daemon_failed(daemon, times, MESSAGE);
            assert_eq!(requested(&node), ["kubelet-config maxPods 50: "]);
        }
        node.on_daemon_failed(Program::Kubelet, 3, MESSAGE);
        let error = "the kubelet has failed 3 times in a row: bad value";
        assert_eq!(requested(&node), [format!("kubelet-config maxPods 50: {error}")]);
        node.on_daemon_failed(Program::Kubelet, 6, MESSAGE);
        assert_eq!(requested(&node), ["kubelet-config maxPods 50: "]);
    }

    #[test]
    fn a_change_of_fields_is_due_once() {
        let folder = tempfile::tempdir().unwrap();
        let (mut node, _clients) = node(folder.path());
        set_field(&mut node, "maxPods", "50");
        assert_eq!(node.kubelet_files_due(), None, "the kubelet's first start comes with it");
        assert!(node.settings.kubelet().deadline().is_some());
        node.settings.kubelet_mut().on_due();
        assert_eq!(node.settings.kubelet().deadline(), None);
        assert!(node.settings.kubelet().is_unproven());
    }

    #[test]
    fn a_try_of_fields_with_which_the_kubelet_fails_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let (mut node, _clients) = node(folder.path());
        node.begin_try(TryTime::new(60).unwrap()).unwrap();
        assert_eq!(node.settings.fail_try(uptime()), None, "there are no new fields");
        set_field(&mut node, "maxPods", "50");
        assert_eq!(node.settings.fail_try(uptime()), Some(Vec::new()));
        assert_eq!(requested(&node), [""; 0]);
        assert_eq!(node.settings.observe(uptime()).tried, TryState::Over);
    }
}
