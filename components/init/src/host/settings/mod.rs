//! The settings for which several sources can give a value. The highest rank wins, and a source
//! that withdraws its value gives way to the next one. When another program changes what is set,
//! it is set again.

pub mod document;
pub mod fallback;
mod held;
pub mod image;
pub mod keeping;
pub mod kept;
mod postponed;
mod tried;
pub mod unkept;
mod values;

use std::time::Duration;

use osbuild_failure::Outcome;
use osbuild_protocol::{HostSettings, Observed, Refusal, Setting, SettingName, Single, TryTime};
use osbuild_ranks::Source;

use self::fallback::{Fallback, Proof};
use self::kept::Refused;
use self::postponed::Postponed;
use self::tried::Try;
use self::values::Values;
use super::cluster_join::{self, ClusterSetting};
use super::control_plane::{self, ControlPlaneSetting};
use super::credential_providers::CredentialProviders;
use super::environment::DaemonEnvironment;
use super::kernel_modules::{self, KernelModules};
use super::kernel_parameters::{self, KernelParameters};
use super::kubelet_fields::{self, KubeletFields};
use super::mount_settings::{self, MountSettings};
use super::network::Network;
use super::pod_settings::{self, PodSettings};
use super::registration::Registration;
use super::registries::Registries;
use super::resolver::{self, Resolver};
use super::seccomp_profiles::SeccompProfiles;
use super::swap_settings::SwapSettings;
use super::system_images::SystemImages;
use super::volume_settings::{self, VolumeSettings};
use super::{hosts, motd, time_servers};
use crate::processes::rate_limit::RateLimit;

/// The name of the phase that restores them, and of lines about them.
pub const NAME: &str = "settings";

/// The values of all sources.
#[derive(Default)]
pub struct Settings {
    values: Values,
    /// The name in the cluster, which outlasts changes of the host name.
    node_name: String,
    cluster: ClusterSetting,
    control_plane: ControlPlaneSetting,
    credential_providers: CredentialProviders,
    environment: DaemonEnvironment,
    kernel_modules: KernelModules,
    kernel_parameters: KernelParameters,
    kubelet: KubeletFields,
    mounts: MountSettings,
    network: Network,
    pods: PodSettings,
    registration: Registration,
    registries: Registries,
    seccomp_profiles: SeccompProfiles,
    swap: SwapSettings,
    system_images: SystemImages,
    volumes: VolumeSettings,
    refused: Refused,
    postponed: Postponed,
    tried: Try,
    fallback: Fallback,
    /// The lines of the node document.
    document: String,
    /// Bounds the lines on the console.
    limit: RateLimit,
}

impl Settings {
    /// Sets what the image gives, before any other source: no name servers, as containerd copies
    /// the file into every pod, and these time servers.
    pub fn set_image(&mut self, time_servers: &[String]) -> Outcome {
        resolver::apply(&Resolver::default())?;
        time_servers::apply(&[])?;
        let servers = (!time_servers.is_empty()).then(|| time_servers.join(" "));
        self.set(Source::Image, [(Single::TimeServers, servers)])
    }

    /// Takes the message of the image.
    ///
    /// # Errors
    /// It is malformed.
    pub fn set_motd_of_image(&mut self) -> Outcome {
        let motd = motd::of_image()?.map(|motd| Setting::Motd(motd).value());
        self.set(Source::Image, [(Single::Motd, motd)])
    }

    /// Sets what `source` gives for single settings, and has the host follow. `None` withdraws a
    /// value.
    pub fn set<const N: usize>(
        &mut self,
        source: Source,
        values: [(Single, Option<String>); N],
    ) -> Outcome {
        let changed = values.each_ref().map(|(single, _)| *single);
        for (single, value) in values {
            self.values.set(source, single, value);
        }
        changed.into_iter().try_for_each(|single| self.put(single))
    }

    /// Takes the name under which the kubelet is about to start, which it looks up.
    pub fn set_node_name(&mut self, name: &str) -> Outcome {
        name.clone_into(&mut self.node_name);
        hosts::apply(self.host_name(), &self.node_name)
    }

    /// Gives a setting the value of `source`. `now` is the time since boot.
    ///
    /// # Errors
    /// The image does not allow it, or the host does not take the value: then the setting keeps
    /// the value that it had.
    pub fn apply(
        &mut self,
        source: Source,
        setting: &Setting,
        now: Duration,
    ) -> Result<(), Refusal> {
        if let Setting::ClusterJoin(wanted) = setting {
            self.cluster.apply(source, wanted, cluster_join::is_allowed(), now)?;
        } else if let Setting::ControlPlane(wanted) = setting {
            self.control_plane.apply(source, wanted, control_plane::support())?;
        } else if let Setting::CredentialProvider(wanted) = setting {
            self.credential_providers.apply(source, wanted, now)?;
        } else if let Setting::KernelModule(wanted) = setting {
            self.kernel_modules.apply(source, wanted, &kernel_modules::of_image()?)?;
        } else if let Setting::KernelParameter(wanted) = setting {
            let allowed = match source {
                // The list and these are in the same signed root.
                Source::Image => kernel_parameters::ALL.to_owned(),
                _ => kernel_parameters::allowed()?,
            };
            self.kernel_parameters.apply(source, wanted, &allowed, now)?;
        } else if let Setting::Kubelet(wanted) = setting {
            self.kubelet.apply(source, wanted, &kubelet_fields::allowed()?, now)?;
        } else if let Setting::Mount(wanted) = setting {
            self.mounts.apply(source, wanted, &mount_settings::lists()?, now)?;
        } else if let Setting::Network(wanted) = setting {
            self.network.apply(source, wanted)?;
        } else if let Setting::NodeLabel(wanted) = setting {
            self.registration.apply_label(source, wanted, now)?;
        } else if let Setting::NodeTaint(wanted) = setting {
            self.registration.apply_taint(source, wanted, now)?;
        } else if let Setting::Proxy(wanted) = setting {
            self.environment.apply_proxy(source, wanted, now)?;
        } else if let Setting::RegistryCredential(wanted) = setting {
            self.registries.apply_credential(source, wanted)?;
        } else if let Setting::RegistryMirror(wanted) = setting {
            self.registries.apply(source, wanted)?;
        } else if let Setting::SeccompProfile(wanted) = setting {
            self.seccomp_profiles.apply(source, wanted)?;
        } else if let Setting::StaticPod(wanted) = setting {
            self.pods.apply(source, wanted, &pod_settings::of_image()?, now)?;
        } else if let Setting::Swap(wanted) = setting {
            self.swap.apply(source, wanted, now)?;
        } else if let Setting::SystemImage(wanted) = setting {
            self.system_images.apply(source, wanted, now)?;
        } else if let Setting::TrustedRoot(wanted) = setting {
            self.environment.apply_root(source, wanted, now)?;
        } else if let Setting::Volume(wanted) = setting {
            self.volumes.apply(source, wanted, &volume_settings::allowed()?, now)?;
        } else if let SettingName::Single(single) = setting.name() {
            let former = self.values.set(source, single, Some(setting.value()));
            if let Err(failure) = self.put(single) {
                self.values.set(source, single, former);
                return Err(failure.into());
            }
        }
        if source == Source::Api {
            self.refused.forget(&setting.name());
        }
        Ok(())
    }

    /// Withdraws the value of `source`, so that the next one is in effect. `now` is the time since
    /// boot.
    pub fn withdraw(&mut self, source: Source, name: &SettingName, now: Duration) -> Outcome {
        if source == Source::Api {
            self.refused.forget(name);
        }
        match name {
            SettingName::Single(single) => self.set(source, [(*single, None)]),
            SettingName::ClusterJoin => {
                self.cluster.set(source, None, now);
                Ok(())
            }
            SettingName::ControlPlane => self.control_plane.withdraw(source),
            SettingName::CredentialProvider(name) => {
                self.credential_providers.withdraw(source, name, now);
                Ok(())
            }
            SettingName::KernelModule(name) => {
                self.kernel_modules.withdraw(source, name);
                Ok(())
            }
            SettingName::KernelParameter(key) => self.kernel_parameters.withdraw(source, key, now),
            SettingName::Kubelet(key) => {
                self.kubelet.withdraw(source, key, now);
                Ok(())
            }
            SettingName::Mount(target) => {
                self.mounts.withdraw(source, target, now);
                Ok(())
            }
            SettingName::Network(name) => {
                self.network.withdraw(source, name);
                Ok(())
            }
            SettingName::NodeLabel(key) => {
                self.registration.withdraw_label(source, key, now);
                Ok(())
            }
            SettingName::NodeTaint(name) => {
                self.registration.withdraw_taint(source, name, now);
                Ok(())
            }
            SettingName::Proxy => self.environment.withdraw_proxy(source, now),
            SettingName::RegistryCredential(registry) => {
                self.registries.withdraw_credential(source, registry)
            }
            SettingName::RegistryMirror(registry) => self.registries.withdraw(source, registry),
            SettingName::SeccompProfile(name) => self.seccomp_profiles.withdraw(source, name),
            SettingName::StaticPod(name) => self.pods.withdraw(source, name, now),
            SettingName::Swap => {
                self.swap.withdraw(source, now);
                Ok(())
            }
            SettingName::SystemImage(name) => {
                self.system_images.withdraw(source, name, now);
                Ok(())
            }
            SettingName::TrustedRoot(name) => self.environment.withdraw_root(source, name, now),
            SettingName::Volume(name) => {
                self.volumes.withdraw(source, name, now);
                Ok(())
            }
        }
    }

    /// The cluster that the node joins.
    pub fn cluster(&self) -> &ClusterSetting {
        &self.cluster
    }

    /// The same, for what becomes of the kubelet.
    pub fn cluster_mut(&mut self) -> &mut ClusterSetting {
        &mut self.cluster
    }

    /// The credential providers of the kubelet.
    pub fn credential_providers(&self) -> &CredentialProviders {
        &self.credential_providers
    }

    /// The same, for what becomes of the kubelet and of their programs.
    pub fn credential_providers_mut(&mut self) -> &mut CredentialProviders {
        &mut self.credential_providers
    }

    /// The environment of the daemons.
    pub fn environment(&self) -> &DaemonEnvironment {
        &self.environment
    }

    /// The same, for what becomes of the daemons.
    pub fn environment_mut(&mut self) -> &mut DaemonEnvironment {
        &mut self.environment
    }

    /// The fields of the kubelet's configuration.
    pub fn kubelet(&self) -> &KubeletFields {
        &self.kubelet
    }

    /// The same, for what becomes of the kubelet.
    pub fn kubelet_mut(&mut self) -> &mut KubeletFields {
        &mut self.kubelet
    }

    /// The static pods.
    pub fn pods(&self) -> &PodSettings {
        &self.pods
    }

    /// The same, for what becomes of them.
    pub fn pods_mut(&mut self) -> &mut PodSettings {
        &mut self.pods
    }

    /// The swap.
    pub fn swap(&self) -> &SwapSettings {
        &self.swap
    }

    /// The same, for its child and for the kubelet.
    pub fn swap_mut(&mut self) -> &mut SwapSettings {
        &mut self.swap
    }

    /// The images that the node keeps, for their child.
    pub fn system_images_mut(&mut self) -> &mut SystemImages {
        &mut self.system_images
    }

    /// The volumes, for their children.
    pub fn volumes_mut(&mut self) -> &mut VolumeSettings {
        &mut self.volumes
    }

    /// The labels and taints of the node in its cluster.
    pub fn registration(&self) -> &Registration {
        &self.registration
    }

    /// The same, for what becomes of them.
    pub fn registration_mut(&mut self) -> &mut Registration {
        &mut self.registration
    }

    /// Takes back what is tried, as a daemon fails with it. Returns lines for the console; nothing
    /// if no try is running, or neither the kubelet's fields, its environment nor its cluster are
    /// new. `now` is the time since boot.
    pub fn fail_try(&mut self, now: Duration) -> Option<Vec<String>> {
        let tries_cluster = self.tried.before().is_some_and(|text| self.cluster.differs_from(text));
        let is_unproven = self.kubelet.is_unproven() || self.environment.is_unproven();
        if !is_unproven && !tries_cluster {
            return None;
        }
        let before = self.tried.fail()?;
        Some(self.go_back_to(&before, now))
    }

    /// The kubelet has run for long enough. Returns lines for the console, and what to keep, if
    /// fields were taken back that requests have set.
    pub fn on_kubelet_proved(&mut self) -> (Vec<String>, Option<Proof>) {
        let Some(taken_back) = self.kubelet.on_proved() else { return (Vec::new(), None) };
        let proof = taken_back.of_requests.then(|| self.fallback.take_back(self.text()));
        (taken_back.lines, proof)
    }

    /// Takes back the environment with which a daemon fails: `reason`. Returns lines for the
    /// console, and what to keep, if values of requests are among it; nothing if the environment is
    /// not new. `now` is the time since boot.
    pub fn take_environment_back(
        &mut self,
        reason: &str,
        now: Duration,
    ) -> Option<(Vec<String>, Option<Proof>)> {
        let taken_back = self.environment.take_back(reason, now)?;
        let proof = taken_back.of_requests.then(|| self.fallback.take_back(self.text()));
        Some((taken_back.lines, proof))
    }

    /// The settings of the network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The same, for the reports about them.
    pub fn network_mut(&mut self) -> &mut Network {
        &mut self.network
    }

    /// The value of a single setting that shall be in effect, and its source. Empty if no source
    /// has one.
    pub fn in_effect(&self, single: Single) -> (&str, Option<Source>) {
        (self.values.effective(single), self.values.source(single))
    }

    /// The host name that shall be in effect.
    pub fn host_name(&self) -> &str {
        self.values.effective(Single::HostName)
    }

    /// The lines of the message that consoles show.
    pub fn motd(&self) -> Vec<String> {
        let source = self.values.source(Single::Motd);
        match source.and_then(|source| self.values.of(source, Single::Motd)) {
            Some(Setting::Motd(motd)) => motd.as_str().lines().map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    }

    /// The host name, if it comes from a source above the image.
    pub fn chosen_host_name(&self) -> Option<&str> {
        let source = self.values.source(Single::HostName)?;
        (source > Source::Image).then(|| self.host_name())
    }

    /// Each setting: the value that requests have set, and the one on the host. `now` is the time
    /// since boot.
    pub fn observe(&self, now: Duration) -> HostSettings {
        let single = Single::ALL.into_iter().map(|single| Observed {
            name: single.into(),
            wanted: self.values.of(Source::Api, single),
            source: self.values.source(single),
            current: self.current(single),
            error: String::new(),
        });
        let refused = self.refused.settings().map(|setting| Observed {
            name: setting.name(),
            wanted: Some(setting),
            source: None,
            current: String::new(),
            error: String::new(),
        });
        let settings = single
            .chain(self.cluster.observe())
            .chain(self.control_plane.observe())
            .chain(self.credential_providers.observe())
            .chain(self.kernel_modules.observe())
            .chain(self.kernel_parameters.observe())
            .chain(self.kubelet.observe())
            .chain(self.mounts.observe())
            .chain(self.network.observe())
            .chain(self.environment.observe())
            .chain(self.registration.observe())
            .chain(self.registries.observe())
            .chain(self.seccomp_profiles.observe())
            .chain(self.pods.observe())
            .chain(self.swap.observe())
            .chain(self.system_images.observe())
            .chain(self.volumes.observe())
            .chain(refused);
        let (tried, start) = (self.tried.state(now), self.fallback.state());
        let mut settings = settings.collect();
        self.postponed.complete(&mut settings);
        let wireguard = self.network.wireguard().cloned().collect();
        HostSettings { tried, start, settings, pods: self.pods.states(), wireguard, cluster: None }
    }

    /// Whether requests may change settings, see [`Try::admit`] and [`Fallback::admit`].
    pub fn admit(&self) -> Result<(), Refusal> {
        self.fallback.admit()?;
        self.tried.admit()
    }

    /// Sets what this start takes of the kept settings. The node has `timeout` to be ready with
    /// them. Returns lines for the console.
    pub fn start(&mut self, fallback: Fallback, timeout: Duration, now: Duration) -> Vec<String> {
        self.fallback = fallback;
        self.fallback.expect_ready(now + timeout);
        let text = self.fallback.text().to_owned();
        let mut lines: Vec<String> = self.fallback.line().into_iter().collect();
        lines.extend(self.restore(&text, now));
        self.note_good_fields();
        lines
    }

    fn note_good_fields(&mut self) {
        if self.fallback.starts_with_good() {
            self.kubelet.on_good();
        }
    }

    /// Goes on with other settings, as this start has failed for `reason`. The node has `timeout`
    /// to be ready with them. Returns the number of failed starts to keep, and lines for the
    /// console; nothing if there is no other choice.
    pub fn give_up(
        &mut self,
        reason: &str,
        timeout: Duration,
        now: Duration,
    ) -> Option<(u32, Vec<String>)> {
        let mut lines = vec![self.fallback.give_up(reason)?];
        let text = self.fallback.text().to_owned();
        self.fallback.expect_ready(now + timeout);
        // The settings of a try are not kept, and the node does not start with them.
        self.tried = Try::default();
        lines.extend(self.go_back_to(&text, now));
        self.note_good_fields();
        Some((self.fallback.count()?, lines))
    }

    /// When a start has failed without the node being ready, since boot.
    pub fn start_deadline(&self) -> Option<Duration> {
        self.fallback.deadline()
    }

    /// The node is ready: returns what to keep of that, if anything.
    pub fn on_ready(&mut self, is_on_trial: bool) -> Option<Proof> {
        self.fallback.on_ready(&self.text(), is_on_trial)
    }

    /// A client knows that the node has gone back, which DATA has to have. Returns whether that is
    /// so: a try that is running, or over, is what a client speaks of.
    pub fn begin_acknowledging(&mut self) -> bool {
        self.tried.is_none() && self.fallback.begin_acknowledging()
    }

    /// DATA has that a client knows it.
    pub fn on_acknowledged(&mut self) {
        self.fallback.on_acknowledged();
    }

    /// Has changes taken back unless they are confirmed in time.
    pub fn begin_try(&mut self, time: TryTime, now: Duration) -> Result<(), Refusal> {
        self.fallback.admit()?;
        let mut tried = std::mem::take(&mut self.tried);
        let begun = tried.begin(time, || self.text(), now);
        self.tried = tried;
        begun
    }

    /// Whether changes are tried, so that they are not kept.
    pub fn is_trying(&self) -> bool {
        self.tried.is_running()
    }

    /// Ends the try; what it has changed is to be kept.
    pub fn confirm_try(&mut self) -> Result<(), Refusal> {
        self.tried.end().map(drop)
    }

    /// Ends the try and takes back what it has changed. Returns lines for the console; nothing if
    /// that has happened already.
    pub fn revert_try(&mut self, now: Duration) -> Result<Option<Vec<String>>, Refusal> {
        if self.tried.acknowledge() {
            return Ok(None);
        }
        let before = self.tried.end()?;
        Ok(Some(self.go_back_to(&before, now)))
    }

    /// Takes back what the try has changed, if its time is over. Returns lines for the console.
    pub fn expire_try(&mut self, now: Duration) -> Option<Vec<String>> {
        let before = self.tried.expire(now)?;
        Some(self.go_back_to(&before, now))
    }

    /// When the time of the try is over, since boot.
    pub fn try_deadline(&self) -> Option<Duration> {
        self.tried.deadline()
    }

    /// Has the values that requests had given when the file on DATA had this text. Returns the
    /// reasons why they are not set.
    fn go_back_to(&mut self, text: &str, now: Duration) -> Vec<String> {
        self.refused = Refused::default();
        let mut lines = self.withdraw_others(Source::Api, text, now);
        lines.extend(self.restore(text, now));
        lines
    }

    /// Gives settings the values of the image. Returns the reasons why some are not set.
    pub fn set_recipe(&mut self, now: Duration) -> Vec<String> {
        self.apply_all(Source::Image, image::settings(), now)
    }

    /// Gives settings the values of the node document, whose lines `text` has, and withdraws the
    /// others of an earlier document. Returns the reasons why some are not set; nothing if the
    /// document is the same as before.
    pub fn set_document(&mut self, text: String, now: Duration) -> Option<Vec<String>> {
        if text == self.document {
            return None;
        }
        self.environment.on_new_document();
        self.kubelet.on_new_document();
        let lines = self.replace(Source::Document, &text, now);
        self.document = text;
        Some(lines)
    }

    /// Gives settings the values that a person at a console has given, and withdraws the others of
    /// that person. Returns the reasons why some are not set.
    pub fn set_console(&mut self, settings: &[Setting], now: Duration) -> Vec<String> {
        let text: String = settings.iter().map(|setting| format!("{}\n", setting.line())).collect();
        self.replace(Source::Console, &text, now)
    }

    /// Gives settings the values of `source` that `text` has, and withdraws its others. Returns the
    /// reasons why some are not set.
    fn replace(&mut self, source: Source, text: &str, now: Duration) -> Vec<String> {
        let mut lines = self.withdraw_others(source, text, now);
        self.postponed.forget(source);
        lines.extend(self.apply_all(source, text.lines().map(Setting::parse), now));
        lines
    }

    /// Withdraws the values of `source` that `text` does not have. Returns the reasons why some are
    /// not withdrawn.
    fn withdraw_others(&mut self, source: Source, text: &str, now: Duration) -> Vec<String> {
        let kept: Vec<SettingName> =
            text.lines().filter_map(|line| Some(Setting::parse(line).ok()?.name())).collect();
        let names: Vec<SettingName> = self.of(source).map(|setting| setting.name()).collect();
        let gone = names.iter().filter(|name| !kept.contains(name));
        let outcomes = gone.map(|name| self.withdraw(source, name, now));
        outcomes.filter_map(Outcome::err).map(|failure| failure.to_string()).collect()
    }

    /// The settings with the values of a source.
    fn of(&self, source: Source) -> impl Iterator<Item = Setting> {
        let single = Single::ALL.into_iter().filter_map(move |one| self.values.of(source, one));
        single
            .chain(self.cluster.of(source).map(Setting::ClusterJoin))
            .chain(self.control_plane.of(source).map(Setting::ControlPlane))
            .chain(self.credential_providers.of(source).map(Setting::CredentialProvider))
            .chain(self.kernel_modules.of(source).map(Setting::KernelModule))
            .chain(self.kernel_parameters.of(source).map(Setting::KernelParameter))
            .chain(self.kubelet.of(source).map(Setting::Kubelet))
            .chain(self.mounts.of(source).map(Setting::Mount))
            .chain(self.network.of(source).map(Setting::Network))
            .chain(self.environment.of(source))
            .chain(self.registration.of(source))
            .chain(self.registries.of(source))
            .chain(self.seccomp_profiles.of(source).map(Setting::SeccompProfile))
            .chain(self.pods.of(source))
            .chain(self.swap.of(source).map(Setting::Swap))
            .chain(self.system_images.of(source).map(Setting::SystemImage))
            .chain(self.volumes.of(source).map(Setting::Volume))
    }

    /// The text of the file on DATA.
    pub fn text(&self) -> String {
        kept::text(self.of(Source::Api), &self.refused)
    }

    /// Sets what the text of that file says. Returns the reasons why lines are refused, which stay
    /// in the file.
    pub fn restore(&mut self, text: &str, now: Duration) -> Vec<String> {
        let mut reasons = Vec::new();
        for line in text.lines() {
            let setting = kept::parse(line);
            let applied = setting.and_then(|setting| self.apply(Source::Api, &setting, now));
            if let Err(refusal) = applied {
                self.refused.add(line);
                reasons.push(refusal.reason);
            }
        }
        reasons
    }
}
