//! The static pods that settings ask for. `init` writes their manifests, each to a file of its own
//! in the kubelet's folder, and writes it again when another program changes it. `/run` has the
//! files, so a boot finds those of its own settings alone.

mod manifest;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use osbuild_abi::paths::{API_STATIC_PODS, DATA_MANIFESTS, POD_MANIFESTS, STATIC_PODS};
use osbuild_failure::{Explain, Outcome};
use osbuild_protocol::{
    MAX_STATIC_PODS, Observed, PodName, PodRights, PodState, Refusal, RefusalCode, Setting,
    SettingName, StaticPod,
};
use osbuild_ranks::{Ranked, Source};

use super::run_files;
use crate::daemons::setting_manifest;

/// How long after a change to look for what has become of it.
const SOON: Duration = Duration::from_secs(2);
/// How often to look, while all pods run.
const INTERVAL: Duration = Duration::from_secs(10);

/// The pods that have a value of any source.
#[derive(Default)]
pub struct PodSettings {
    held: BTreeMap<PodName, Held>,
    /// The names of the manifests on DATA, without what follows the dot.
    of_data: BTreeSet<String>,
    /// The states of the pods, as a child has found them last.
    states: BTreeMap<PodName, PodState>,
    /// Whether a child looks.
    is_asking: bool,
    /// When to look again, since boot. `None` without pods, and while a child looks at those of
    /// now.
    due: Option<Duration>,
}

#[derive(Default)]
struct Held {
    values: Ranked<StaticPod>,
    /// Why the kubelet does not have the one in effect.
    error: String,
}

/// The part of the image about static pods of settings.
pub struct OfImage {
    /// The rights that they may have.
    pub rights: PodRights,
    /// The names of the image's own pods.
    pub names: BTreeSet<String>,
}

/// Reads that.
///
/// # Errors
/// The folder of the image's pods cannot be read.
pub fn of_image() -> Outcome<OfImage> {
    let rights = std::fs::read_to_string(API_STATIC_PODS).ok();
    let names = || -> std::io::Result<BTreeSet<String>> {
        let entries = std::fs::read_dir(POD_MANIFESTS)?;
        let names = entries.map(|entry| Ok(stem(&entry?.file_name().to_string_lossy())));
        names.collect()
    };
    let names = names().explain(format_args!("read {POD_MANIFESTS}"))?;
    Ok(OfImage { rights: PodRights::of_lines(rights.as_deref()), names })
}

impl PodSettings {
    /// Gives a pod the value of `source`. `now` is the time since boot.
    ///
    /// # Errors
    /// The image does not allow its rights or has a pod of its name, there are too many pods, or
    /// the manifest cannot be written: then the pod stays as it was.
    pub fn apply(
        &mut self,
        source: Source,
        pod: &StaticPod,
        image: &OfImage,
        now: Duration,
    ) -> Result<(), Refusal> {
        let name = pod.name();
        image.rights.permit(&pod.rights())?;
        if image.names.contains(name.as_str()) {
            let reason = format!("the image has a pod `{name}` of its own");
            return Err(Refusal::new(RefusalCode::NotAllowed, reason));
        }
        if !self.held.contains_key(name) && self.held.len() >= MAX_STATIC_PODS {
            let reason = format!("there are {MAX_STATIC_PODS} static pods of settings already");
            return Err(Refusal::new(RefusalCode::Failed, reason));
        }
        let is_of_data = self.of_data.contains(name.as_str());
        let held = self.held.entry(name.clone()).or_default();
        let former = held.values.set(source, Some(pod.clone()));
        let put = held.put(name, is_of_data);
        if put.is_err() {
            held.values.set(source, former);
            let _ = held.put(name, is_of_data);
        }
        self.on_change(name, now);
        put.map_err(Refusal::from)
    }

    /// Withdraws the value of `source`, so that the next one is in effect. Without one the kubelet
    /// ends the pod. `now` is the time since boot.
    ///
    /// # Errors
    /// The manifest cannot be replaced or removed.
    pub fn withdraw(&mut self, source: Source, name: &PodName, now: Duration) -> Outcome {
        let is_of_data = self.of_data.contains(name.as_str());
        let Some(held) = self.held.get_mut(name) else { return Ok(()) };
        held.values.set(source, None);
        let put = held.put(name, is_of_data);
        self.on_change(name, now);
        put
    }

    fn on_change(&mut self, name: &PodName, now: Duration) {
        self.held.retain(|_, held| held.effective().is_some());
        self.states.remove(name);
        self.due = (!self.held.is_empty()).then_some(now + SOON);
    }

    /// Takes the names of the manifests on DATA, which were there first, and holds the others as
    /// [`Self::hold`] does. Returns lines for the console.
    pub fn on_data(&mut self, files: &[String]) -> Vec<String> {
        self.of_data = files.iter().map(|name| stem(name)).collect();
        self.hold()
    }

    /// Writes the manifests again that another program has changed, and removes those of no
    /// setting. Returns lines for the console.
    pub fn hold(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, held) in &mut self.held {
            let is_of_data = self.of_data.contains(name.as_str());
            let was_of_data = held.error == of_data(name);
            if held.is_as_it_shall_be(name, is_of_data) && is_of_data == was_of_data {
                continue;
            }
            let before = held.error.clone();
            match held.put(name, is_of_data) {
                Ok(()) if is_of_data && !was_of_data => {
                    lines.push(format!("`{name}`: {}", held.error));
                }
                // A file on DATA has gone, or the same one is still in the way.
                Ok(()) if is_of_data || was_of_data => {}
                Ok(()) => lines.push(format!(
                    "another program changed the static pod `{name}`, it is as before again"
                )),
                Err(failure) if held.error != before => lines.push(failure.to_string()),
                Err(_) => {}
            }
        }
        lines.extend(self.remove_others());
        lines
    }

    /// Removes the files that look like those of settings and are of none.
    fn remove_others(&self) -> Vec<String> {
        let Ok(folder) = run_files::folder(STATIC_PODS) else { return Vec::new() };
        let names = folder.names().unwrap_or_default();
        let is_held = |file: &str| self.held.keys().any(|name| is_file_of(file, name));
        let names = names.iter().filter_map(|name| name.to_str());
        let others = names.filter(|file| setting_manifest::is_one(file) && !is_held(file));
        let removed = others.filter(|file| folder.remove(file).is_ok());
        removed.map(|file| format!("no setting asks for the static pod in `{file}`")).collect()
    }

    /// When to look what has become of the pods, since boot. A look ends before the next one.
    pub fn deadline(&self) -> Option<Duration> {
        self.due.filter(|_| !self.is_asking)
    }

    /// A child looks. Returns its arguments: for each pod its namespace, its name and the number of
    /// its containers.
    pub fn on_asking(&mut self) -> Vec<String> {
        (self.is_asking, self.due) = (true, None);
        let pods = self.held.values().filter_map(Held::effective).map(StaticPod::spec);
        pods.map(|pod| format!("{}/{}/{}", pod.namespace.as_str(), pod.name, pod.containers.len()))
            .collect()
    }

    /// The child has ended with this report. `now` is the time since boot.
    pub fn on_states(&mut self, report: &str, now: Duration) {
        let states = report.lines().filter_map(PodState::decode);
        let states = states.filter(|state| self.held.contains_key(&state.name));
        self.states = states.map(|state| (state.name.clone(), state)).collect();
        let is_running = |name| self.states.get(name).is_some_and(|state| state.running);
        let pause = if self.held.keys().all(is_running) { INTERVAL } else { SOON };
        // A change in the meantime has its own time.
        let was_asking = std::mem::take(&mut self.is_asking);
        let changed = self.due.filter(|_| was_asking);
        self.due = (!self.held.is_empty()).then(|| changed.unwrap_or(now + pause));
    }

    /// The states of the pods.
    pub fn states(&self) -> Vec<PodState> {
        self.states.values().cloned().collect()
    }

    /// The pods: what requests have set, and what the kubelet finds.
    pub fn observe(&self) -> impl Iterator<Item = Observed> {
        self.held.iter().map(|(name, held)| {
            let is_of_data = self.of_data.contains(name.as_str());
            let is_set = !is_of_data && held.is_as_it_shall_be(name, is_of_data);
            Observed {
                name: SettingName::StaticPod(name.clone()),
                wanted: held.values.get(Source::Api).cloned().map(Setting::StaticPod),
                source: held.values.effective().map(|(source, _)| source),
                current: match held.effective().filter(|_| is_set) {
                    Some(pod) => Setting::StaticPod(pod.clone()).value(),
                    None => String::new(),
                },
                error: held.error.clone(),
            }
        })
    }

    /// The pods with the values of a source.
    pub fn of(&self, source: Source) -> impl Iterator<Item = Setting> {
        let pods = self.held.values().filter_map(move |held| held.values.get(source).cloned());
        pods.map(Setting::StaticPod)
    }
}

impl Held {
    fn effective(&self) -> Option<&StaticPod> {
        self.values.effective().map(|(_, pod)| pod)
    }

    /// The text of the manifest that shall be there, if any.
    fn wanted(&self, is_of_data: bool) -> Option<String> {
        self.effective().filter(|_| !is_of_data).map(manifest::text)
    }

    fn is_as_it_shall_be(&self, name: &PodName, is_of_data: bool) -> bool {
        run_files::read(&path(name)) == self.wanted(is_of_data)
    }

    /// Has the kubelet follow.
    fn put(&mut self, name: &PodName, is_of_data: bool) -> Outcome {
        let put = run_files::folder(STATIC_PODS)
            .explain(format_args!("make {STATIC_PODS}"))
            .and_then(|_| run_files::set(&path(name), self.wanted(is_of_data).as_deref()));
        self.error = match &put {
            Ok(()) if is_of_data => of_data(name),
            Ok(()) => String::new(),
            Err(failure) => failure.to_string(),
        };
        put
    }
}

fn of_data(name: &PodName) -> String {
    format!("{DATA_MANIFESTS} has a pod `{name}`, which stays")
}

fn path(name: &PodName) -> String {
    format!("{STATIC_PODS}/{}", setting_manifest::of_pod(name.as_str()))
}

fn is_file_of(file: &str, name: &PodName) -> bool {
    file == setting_manifest::of_pod(name.as_str())
}

/// The name of a pod by that of its file.
fn stem(file: &str) -> String {
    Path::new(file).file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
