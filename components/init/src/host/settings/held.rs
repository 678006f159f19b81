//! Holds the host to its settings: sets again what another program has changed.

use std::time::Duration;

use osbuild_failure::Outcome;
use osbuild_protocol::Single;

use super::Settings;
use crate::host::resolver::{self, Resolver};
use crate::host::{host_name, hosts, pod_resolvers, time_servers};
use crate::processes::rate_limit::Admission;

impl Settings {
    /// When to compare the kernel's parameters, since boot: nothing reports a change of them.
    pub fn deadline(&self) -> Option<Duration> {
        self.kernel_parameters.deadline()
    }

    /// Sets the kernel's parameters again that another program has changed, if it is time to
    /// compare them. Returns lines for the console.
    pub fn hold_kernel_parameters(&mut self, now: Duration) -> Vec<String> {
        let lines = self.kernel_parameters.hold(now);
        self.admitted(lines, now)
    }

    /// When to try again to mount or unmount what has failed, or to look at volumes, the swap or
    /// images, since boot.
    pub fn mounts_deadline(&self) -> Option<Duration> {
        let all = [
            self.mounts.deadline(),
            self.volumes.deadline(),
            self.swap.deadline(),
            self.system_images.deadline(),
        ];
        all.into_iter().flatten().min()
    }

    /// Sets again what another program has changed of the others. Returns lines for the console.
    pub fn hold(&mut self, now: Duration) -> Vec<String> {
        let mut lines = self.mounts.hold(now);
        lines.extend(self.volumes.hold(now));
        lines.extend(self.swap.hold(now));
        lines.extend(self.system_images.hold());
        lines.extend(self.environment.hold());
        lines.extend(self.registries.hold());
        lines.extend(self.seccomp_profiles.hold());
        lines.extend(self.pods.hold());
        lines.extend(self.kubelet.hold());
        lines.extend(self.cluster.hold());
        lines.extend(self.control_plane.hold());
        lines.extend(self.credential_providers.hold());
        for single in Single::ALL {
            if self.is_as_it_shall_be(single) {
                continue;
            }
            let found = self.current(single);
            lines.push(match self.put(single) {
                Ok(()) => {
                    let (word, value) = (single.word(), self.values.effective(single));
                    format!("another program changed {word} to `{found}`, it is `{value}` again")
                }
                Err(failure) => failure.to_string(),
            });
        }
        self.admitted(lines, now)
    }

    fn admitted(&mut self, mut lines: Vec<String>, now: Duration) -> Vec<String> {
        lines.retain(|_| self.limit.admit(now) != Admission::Hold);
        lines
    }

    /// Has the host follow.
    pub(super) fn put(&self, single: Single) -> Outcome {
        if self.is_as_it_shall_be(single) {
            return Ok(());
        }
        match single {
            Single::HostName => {
                host_name::apply(self.host_name())?;
                hosts::apply(self.host_name(), &self.node_name)
            }
            Single::NameServers | Single::SearchDomains => {
                pod_resolvers::note()?;
                resolver::apply(&self.resolver())
            }
            Single::TimeServers => time_servers::apply(&self.values.words(single)),
            Single::Motd => Ok(()),
        }
    }

    pub(super) fn is_as_it_shall_be(&self, single: Single) -> bool {
        match single {
            // Early in the boot no source has named the node yet.
            Single::HostName => ["", &host_name::observe()].contains(&self.host_name()),
            Single::NameServers | Single::SearchDomains => {
                resolver::observe() == Some(self.resolver())
            }
            Single::TimeServers => time_servers::observe() == Some(self.values.words(single)),
            // Nothing but `init` has it.
            Single::Motd => true,
        }
    }

    fn resolver(&self) -> Resolver {
        let words = |single| self.values.words(single);
        Resolver::new(words(Single::NameServers), words(Single::SearchDomains))
    }

    /// The value that the host has.
    pub(super) fn current(&self, single: Single) -> String {
        match single {
            Single::HostName => host_name::observe(),
            Single::NameServers => resolver::observe().unwrap_or_default().servers().join(" "),
            Single::SearchDomains => resolver::observe().unwrap_or_default().search().join(" "),
            Single::TimeServers => time_servers::observe().unwrap_or_default().join(" "),
            Single::Motd => self.values.effective(single).to_owned(),
        }
    }
}
