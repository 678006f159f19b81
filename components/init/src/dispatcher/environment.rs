//! Carries out what follows from a change of the daemons' environment.

use std::time::Duration;

use super::{Dispatcher, Program};
use crate::daemons::containerd;
use crate::host::environment::{self, Daemon, Step};
use crate::processes::process::State;
use crate::uptime::uptime;

impl Dispatcher {
    /// The daemons may have to start again. Their pods go on.
    pub(super) fn on_environment_due(&mut self, now: Duration) {
        match self.settings.environment_mut().on_due(containerd::accepts, now) {
            Step::Restart(Daemon::Containerd) => self.restart_containerd(),
            Step::Restart(Daemon::Kubelet) => self.restart_kubelet(),
            Step::None => {}
        }
    }

    /// Starts containerd again, unless the node ends. Its containers go on.
    pub(super) fn restart_containerd(&mut self) {
        if self.end.is_some() {
            return;
        }
        if let Some(process) = self.processes.get_mut(Program::Containerd) {
            process.run_again(uptime());
        }
    }

    /// The child has found what the cluster adds to what is reached without the proxy.
    pub(super) fn on_cluster(&mut self) {
        let cluster = environment::cluster();
        let taken = self.settings.environment_mut().on_cluster(cluster, uptime());
        self.say_about_settings(taken.err().map(|failure| failure.to_string()));
    }

    /// When both daemons will have run for long enough to show that they run in their environment,
    /// since boot.
    pub(super) fn environment_proof_due(&self) -> Option<Duration> {
        let since = |daemon| match self.processes.get(daemon)?.state {
            State::Running { since, .. } => Some(since),
            State::Waiting { .. } | State::Ended => None,
        };
        let is_wanted = self.settings.environment().awaits_proof() && !self.settings.is_trying();
        let started = since(Program::Containerd)?.max(since(Program::Kubelet)?);
        is_wanted.then_some(started + environment::PROOF)
    }

    /// The environment may be the reason why a daemon fails, on a node that was ready. Returns
    /// whether it gets another one.
    pub(super) fn give_up_environment(&mut self, reason: &str) -> bool {
        if self.ready.is_none() || !self.settings.environment().is_unproven() {
            return false;
        }
        let now = uptime();
        if let Some(lines) = self.settings.fail_try(now) {
            self.on_taken_back(lines, &format!("as {reason}"));
            return true;
        }
        let Some((lines, proof)) = self.settings.take_environment_back(reason, now) else {
            return false;
        };
        self.say_about_settings(lines);
        if let Some(proof) = proof {
            self.keep_proof(proof);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::tests::{on_a_node, requested};
    use super::*;
    use osbuild_protocol::{Setting, SettingName, TryState, TryTime};
    use osbuild_ranks::Source;

    const REASON: &str = "containerd has failed 3 times in a row";

    fn set_proxy(node: &mut Dispatcher) {
        let proxy = Setting::parse("proxy http=http://a:1").unwrap();
        node.settings.apply(Source::Api, &proxy, uptime()).unwrap();
    }

    fn error(node: &Dispatcher) -> String {
        let mut all = node.settings.observe(uptime()).settings.into_iter();
        all.find(|one| one.name == SettingName::Proxy).map(|one| one.error).unwrap_or_default()
    }

    #[test]
    fn a_ready_node_takes_a_proxy_back_with_which_a_daemon_fails() {
        on_a_node(|node| {
            set_proxy(node);
            node.on_daemon_failed(Program::Containerd, 3, "");
            assert_eq!(requested(node), ["proxy http=http://a:1: "], "it is not ready");
            node.ready = Some(uptime());
            node.on_daemon_failed(Program::Containerd, 2, "");
            assert_eq!(requested(node), ["proxy http=http://a:1: "]);
            node.on_daemon_failed(Program::Containerd, 3, "");
            assert_eq!((requested(node), error(node)), (Vec::new(), REASON.to_owned()));
            assert!(node.settings.admit().is_err(), "no client knows of it");
        });
    }

    #[test]
    fn a_try_of_a_proxy_with_which_a_daemon_fails_is_over() {
        on_a_node(|node| {
            node.ready = Some(uptime());
            node.begin_try(TryTime::new(60).unwrap()).unwrap();
            set_proxy(node);
            node.on_daemon_failed(Program::Containerd, 3, "");
            assert_eq!((requested(node), error(node)), (Vec::new(), String::new()));
            assert_eq!(node.settings.observe(uptime()).tried, TryState::Over);
        });
    }

    #[test]
    fn daemons_that_do_not_run_have_nothing_to_show() {
        on_a_node(|node| {
            set_proxy(node);
            assert_eq!(node.environment_proof_due(), None);
            node.on_environment_due(uptime());
            assert_eq!(node.settings.environment().deadline(), None);
        });
    }
}
