//! The environment in which containerd and the kubelet run: the proxy and the authorities that
//! settings ask for. A program reads both once, so the daemons start again when they change: first
//! containerd, and the kubelet as soon as that accepts connections, without which it would exit.
//! Their pods go on.
//!
//! If a daemon fails several times in a row with a new environment, on a node that is ready, the
//! one with which both have run is back.

mod files;
#[cfg(test)]
mod tests;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use osbuild_failure::Outcome;
use osbuild_protocol::{
    MAX_ROOTS, Observed, Proxy, ProxyExclusion, Refusal, RefusalCode, RootName, Setting,
    SettingName, TrustedRoot,
};
use osbuild_ranks::Source;

pub use self::files::{cluster, keep_cluster};
use self::values::{Environment, Values, Variables};

/// How long after a change the daemons start again: others may follow.
const PAUSE: Duration = Duration::from_secs(1);
/// How often to look whether containerd has started again.
const TURN: Duration = Duration::from_millis(200);
/// How long both daemons have to run to show that they run in their environment.
pub const PROOF: Duration = Duration::from_secs(60);

/// A daemon that gets the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    /// containerd.
    Containerd,
    /// The kubelet.
    Kubelet,
}

/// The next step of a change of the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This daemon starts again.
    Restart(Daemon),
    /// Nothing, or nothing yet.
    None,
}

/// The result of taking back values after a daemon has failed.
#[derive(Debug, PartialEq, Eq)]
pub struct TakenBack {
    /// Lines for the console.
    pub lines: Vec<String>,
    /// Whether values of requests are among those that were taken back.
    pub of_requests: bool,
}

/// The settings of the environment, and what the daemons have of them.
#[derive(Default)]
pub struct DaemonEnvironment {
    values: Values,
    /// Those with which both daemons have run.
    proven: Values,
    /// Why values were taken back, as long as nobody changes them.
    taken_back: BTreeMap<SettingName, String>,
    /// The proxy exclusions that the node's cluster adds.
    cluster: Vec<ProxyExclusion>,
    /// Why the files do not have the values in effect.
    error: String,
    /// The environments with which containerd and the kubelet were started, while they run.
    running: [Option<Environment>; 2],
    /// Whether containerd was asked to start again, and runs still.
    is_asked: bool,
    /// When to look at the daemons, since boot.
    due: Option<Duration>,
}

impl DaemonEnvironment {
    /// Gives the proxy the value of `source`. `now` is the time since boot.
    ///
    /// # Errors
    /// The file for pods cannot be written: then the proxy stays as it was.
    pub fn apply_proxy(
        &mut self,
        source: Source,
        proxy: &Proxy,
        now: Duration,
    ) -> Result<(), Refusal> {
        let former = self.values.proxy.set(source, Some(proxy.clone()));
        let put = self.on_change(&SettingName::Proxy, now);
        if put.is_err() {
            self.values.proxy.set(source, former);
            let _ = self.on_change(&SettingName::Proxy, now);
        }
        put.map_err(Refusal::from)
    }

    /// Withdraws the value of `source`, so that the next one is in effect. `now` is the time since
    /// boot.
    ///
    /// # Errors
    /// The file for pods cannot be replaced or removed.
    pub fn withdraw_proxy(&mut self, source: Source, now: Duration) -> Outcome {
        self.values.proxy.set(source, None);
        self.on_change(&SettingName::Proxy, now)
    }

    /// Gives authorities the value of `source`. `now` is the time since boot.
    ///
    /// # Errors
    /// There are too many, or their file cannot be written: then they stay as they were.
    pub fn apply_root(
        &mut self,
        source: Source,
        root: &TrustedRoot,
        now: Duration,
    ) -> Result<(), Refusal> {
        let roots = &mut self.values.roots;
        if !roots.contains_key(root.name()) && roots.len() >= MAX_ROOTS {
            let reason = format!("{MAX_ROOTS} names have authorities already");
            return Err(Refusal::new(RefusalCode::Failed, reason));
        }
        let name = SettingName::TrustedRoot(root.name().clone());
        let former = roots.entry(root.name().clone()).or_default().set(source, Some(root.clone()));
        let put = self.on_change(&name, now);
        if put.is_err() {
            self.set_root(source, root.name(), former);
            let _ = self.on_change(&name, now);
        }
        put.map_err(Refusal::from)
    }

    /// Withdraws the value of `source`, so that the next one is in effect. `now` is the time since
    /// boot.
    ///
    /// # Errors
    /// The file cannot be replaced or removed.
    pub fn withdraw_root(&mut self, source: Source, name: &RootName, now: Duration) -> Outcome {
        self.set_root(source, name, None);
        self.on_change(&SettingName::TrustedRoot(name.clone()), now)
    }

    fn set_root(&mut self, source: Source, name: &RootName, value: Option<TrustedRoot>) {
        if let Some(values) = self.values.roots.get_mut(name) {
            values.set(source, value);
        }
        self.values.roots.retain(|_, values| values.effective().is_some());
    }

    /// Takes what the cluster of the node adds to what is reached without the proxy. `now` is the
    /// time since boot.
    ///
    /// # Errors
    /// The file for pods cannot be written.
    pub fn on_cluster(&mut self, cluster: Vec<ProxyExclusion>, now: Duration) -> Outcome {
        if cluster == self.cluster {
            return Ok(());
        }
        self.cluster = cluster;
        self.carry_out(now)
    }

    fn on_change(&mut self, name: &SettingName, now: Duration) -> Outcome {
        self.taken_back.remove(name);
        self.carry_out(now)
    }

    /// Has the files follow, and the daemons a little later.
    fn carry_out(&mut self, now: Duration) -> Outcome {
        self.due = Some(now + PAUSE);
        let put = files::write(&self.wanted());
        self.error = put.as_ref().err().map(ToString::to_string).unwrap_or_default();
        put
    }

    /// Forgets why values were taken back: there is a new document.
    pub fn on_new_document(&mut self) {
        self.taken_back.clear();
    }

    /// The variables for a daemon that is started now.
    pub fn variables(&self) -> Variables {
        self.wanted().variables()
    }

    /// A daemon is started.
    pub fn on_started(&mut self, daemon: Daemon) {
        self.running[daemon as usize] = Some(self.wanted());
        self.is_asked &= daemon != Daemon::Containerd;
    }

    /// A daemon has exited.
    pub fn on_exited(&mut self, daemon: Daemon) {
        self.running[daemon as usize] = None;
    }

    /// When to look at the daemons, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.due
    }

    /// It is time to look at the daemons. `accepts` finds whether containerd accepts connections.
    pub fn on_due(&mut self, accepts: impl Fn() -> bool, now: Duration) -> Step {
        self.due = None;
        let wanted = self.wanted();
        let differs = |daemon| self.runs(daemon).is_some_and(|running| *running != wanted);
        let [containerd, kubelet] = [Daemon::Containerd, Daemon::Kubelet].map(differs);
        if containerd && !self.is_asked {
            self.is_asked = true;
            self.due = kubelet.then_some(now + TURN);
            return Step::Restart(Daemon::Containerd);
        }
        if !kubelet {
            return Step::None;
        }
        if containerd || !accepts() {
            self.due = Some(now + TURN);
            return Step::None;
        }
        Step::Restart(Daemon::Kubelet)
    }

    /// Whether the daemons have not shown yet that they run with the newest values.
    pub fn is_unproven(&self) -> bool {
        self.values != self.proven
    }

    /// Whether the daemons, if they go on, will show that.
    pub fn awaits_proof(&self) -> bool {
        self.is_unproven() && self.is_in_effect()
    }

    /// The daemons have run for long enough.
    pub fn on_proved(&mut self) {
        if self.is_in_effect() {
            self.proven = self.values.clone();
        }
    }

    /// A daemon has failed several times in a row: `reason`. Takes back what it has not run with
    /// before; nothing if that changes no environment. `now` is the time since boot.
    pub fn take_back(&mut self, reason: &str, now: Duration) -> Option<TakenBack> {
        let [newest, proven] =
            [&self.values, &self.proven].map(|values| BTreeSet::from_iter(lines(values)));
        if newest == proven {
            return None;
        }
        let requested = |values: &Values| BTreeSet::from_iter(values.of(Source::Api).map(line));
        let of_requests = requested(&self.values) != requested(&self.proven);
        let changed: BTreeSet<SettingName> = newest
            .symmetric_difference(&proven)
            .filter_map(|line| Some(Setting::parse(line).ok()?.name()))
            .collect();
        self.values = self.proven.clone();
        let mut lines: Vec<String> =
            changed.iter().map(|name| format!("`{name}` is taken back: {reason}")).collect();
        self.taken_back.extend(changed.into_iter().map(|name| (name, reason.to_owned())));
        lines.extend(self.carry_out(now).err().map(|failure| failure.to_string()));
        Some(TakenBack { lines, of_requests })
    }

    /// Writes the files again that another program has changed. Returns lines for the console.
    pub fn hold(&mut self) -> Vec<String> {
        let wanted = self.wanted();
        let changed: Vec<&str> = files::missing(&wanted).map(|(path, _)| path).collect();
        if changed.is_empty() {
            return Vec::new();
        }
        let before = std::mem::take(&mut self.error);
        let line = |path| format!("another program changed `{path}`, it is as before again");
        match files::write(&wanted) {
            Ok(()) => changed.into_iter().map(line).collect(),
            Err(failure) => {
                self.error = failure.to_string();
                (self.error != before).then(|| self.error.clone()).into_iter().collect()
            }
        }
    }

    /// The settings that have a value, and those that were taken back: what requests have set, and
    /// with what the daemons run.
    pub fn observe(&self) -> impl Iterator<Item = Observed> {
        let is_set = self.is_in_effect() && files::missing(&self.wanted()).next().is_none();
        let effective = self.values.effective();
        let known: BTreeSet<SettingName> =
            effective.iter().map(|(name, ..)| name.clone()).collect();
        let gone = self.taken_back.iter().filter(move |(name, _)| !known.contains(name));
        let gone = gone.map(|(name, reason)| Observed {
            name: name.clone(),
            wanted: None,
            source: None,
            current: String::new(),
            error: reason.clone(),
        });
        let held = effective.into_iter().map(move |(name, source, setting)| Observed {
            wanted: self.values.of(Source::Api).find(|setting| setting.name() == name),
            source: Some(source),
            current: if is_set { setting.value() } else { String::new() },
            error: self.taken_back.get(&name).unwrap_or(&self.error).clone(),
            name,
        });
        held.chain(gone)
    }

    /// The settings with the values of a source.
    pub fn of(&self, source: Source) -> impl Iterator<Item = Setting> {
        self.values.of(source)
    }

    fn wanted(&self) -> Environment {
        self.values.environment(&self.cluster)
    }

    fn runs(&self, daemon: Daemon) -> Option<&Environment> {
        self.running[daemon as usize].as_ref()
    }

    /// Whether both daemons run with the values in effect.
    fn is_in_effect(&self) -> bool {
        let wanted = self.wanted();
        self.running.iter().all(|running| running.as_ref() == Some(&wanted))
    }
}

/// The settings in effect, as lines.
fn lines(values: &Values) -> impl Iterator<Item = String> {
    values.effective().into_iter().map(|(_, _, setting)| line(setting))
}

fn line(setting: Setting) -> String {
    setting.to_string()
}
