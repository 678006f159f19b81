//! The labels and taints that settings ask for. The kubelet registers its node with them. Later the
//! child `init cluster` changes labels with the node's own credentials. A node may not change its
//! taints, so those are compared alone.

pub mod kept;
pub mod node_object;
pub mod object_watch;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use osbuild_protocol::{
    LabelKey, MAX_LABELS, MAX_TAINTS, NodeLabel, NodeTaint, Observed, Refusal, RefusalCode,
    Setting, SettingName, TaintName,
};
use osbuild_ranks::{Ranked, Source};

use self::node_object::Found;
use self::object_watch::{End, ObjectWatch};

/// How long after a change it is carried out: others may follow.
const PAUSE: Duration = Duration::from_secs(1);
/// How long after a refusal of the API server it is asked again.
const RETRY: Duration = Duration::from_secs(60);
/// Why the node differs from what it registers with.
const LATER: &str = "takes effect when the node registers anew";
const TAINTS_LATER: &str =
    "takes effect when the node registers anew: a node may not change its taints";

/// The labels and taints that have a value of any source.
#[derive(Default)]
pub struct Registration {
    labels: BTreeMap<LabelKey, Ranked<NodeLabel>>,
    taints: BTreeMap<TaintName, Ranked<NodeTaint>>,
    /// The labels of requests that were withdrawn, in this boot or an earlier one, until the child
    /// has removed them from the node's object.
    gone: BTreeSet<LabelKey>,
    /// The text of the [file](kept) on DATA.
    kept: String,
    /// Those that the child has been asked to remove.
    asked: BTreeSet<LabelKey>,
    /// The labels and taints of the registered node, once the child has read them.
    found: Option<Found>,
    /// The settings of requests at the time when the kubelet's command line was written last.
    written: Vec<String>,
    /// When to carry out a change, since boot.
    due: Option<Duration>,
    watch: ObjectWatch,
}

impl Registration {
    /// Gives a label the value of `source`. `now` is the time since boot.
    ///
    /// # Errors
    /// There are too many.
    pub fn apply_label(
        &mut self,
        source: Source,
        label: &NodeLabel,
        now: Duration,
    ) -> Result<(), Refusal> {
        set(&mut self.labels, MAX_LABELS, &label.key, source, label)?;
        self.on_change(source, now);
        if source == Source::Api {
            self.gone.remove(&label.key);
        }
        Ok(())
    }

    /// Gives a taint the value of `source`. `now` is the time since boot.
    ///
    /// # Errors
    /// There are too many.
    pub fn apply_taint(
        &mut self,
        source: Source,
        taint: &NodeTaint,
        now: Duration,
    ) -> Result<(), Refusal> {
        set(&mut self.taints, MAX_TAINTS, &taint.name, source, taint)?;
        self.on_change(source, now);
        Ok(())
    }

    /// Takes the text of the [file](kept) on DATA, before requests of earlier boots set their
    /// labels: those that they do not set were withdrawn.
    pub fn restore(&mut self, text: &str) {
        let keys = text.lines().filter_map(|line| LabelKey::parse(line).ok());
        self.gone = keys.take(kept::MAX_LABELS).collect();
        text.clone_into(&mut self.kept);
    }

    /// The text for that file: the labels that requests set, and those that were withdrawn. Nothing
    /// if the file has it already.
    pub fn to_keep(&self) -> Option<String> {
        let requested = self.labels.iter().filter(|(_, values)| values.get(Source::Api).is_some());
        let keys: BTreeSet<&LabelKey> = requested.map(|(key, _)| key).chain(&self.gone).collect();
        let text: String = keys.into_iter().map(|key| format!("{key}\n")).collect();
        (text != self.kept).then_some(text)
    }

    /// The file is about to get this text.
    pub fn on_keeping(&mut self, text: String) {
        self.kept = text;
    }

    /// The file was not written, so the next text is another one than it has.
    pub fn on_not_kept(&mut self) {
        self.kept.clear();
    }

    /// Withdraws the value of `source`, so that the next one counts. `now` is the time since boot.
    pub fn withdraw_label(&mut self, source: Source, key: &LabelKey, now: Duration) {
        let former = self.labels.get_mut(key).and_then(|values| values.set(source, None));
        self.labels.retain(|_, values| values.effective().is_some());
        if source == Source::Api && former.is_some() && self.gone.len() < MAX_LABELS {
            self.gone.insert(key.clone());
        }
        self.on_change(source, now);
    }

    /// See [`Self::withdraw_label`].
    pub fn withdraw_taint(&mut self, source: Source, name: &TaintName, now: Duration) {
        if let Some(values) = self.taints.get_mut(name) {
            values.set(source, None);
        }
        self.taints.retain(|_, values| values.effective().is_some());
        self.on_change(source, now);
    }

    fn on_change(&mut self, source: Source, now: Duration) {
        // The child that writes the kubelet's command line has read the document before.
        if source == Source::Api {
            self.due = Some(now + PAUSE);
        }
    }

    /// When to carry out a change, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.due
    }

    /// The change is carried out now.
    pub fn on_due(&mut self) {
        self.due = None;
    }

    /// Returns the settings of requests, a line each, for the child that now writes the kubelet's
    /// command line and reads the document itself.
    pub fn write(&mut self) -> Vec<String> {
        self.written = self.requested();
        self.written.clone()
    }

    /// Whether that command line has the settings of requests.
    pub fn is_written(&self) -> bool {
        self.written == self.requested()
    }

    fn requested(&self) -> Vec<String> {
        self.of(Source::Api).map(|setting| setting.to_string()).collect()
    }

    /// Returns the labels to set on the registered node, a line each, and the names of those to
    /// remove. Labels of the document belong to the cluster administrator by then.
    pub fn ask(&mut self) -> Vec<String> {
        self.asked = self.gone.clone();
        let labels = self.labels.values().filter(|values| values.get(Source::Api).is_some());
        let back = self.gone.iter().filter_map(|key| self.labels.get(key));
        let set = labels.chain(back).filter_map(Ranked::effective);
        let set = set.map(|(_, label)| Setting::NodeLabel(label.clone()).to_string());
        let removed = self.gone.iter().filter(|key| !self.labels.contains_key(*key));
        let removed = removed.map(|key| SettingName::NodeLabel(key.clone()).to_string());
        set.chain(removed).collect()
    }

    /// The child has looked at the registered node, and changed its labels. Returns whether it is
    /// the first time. `now` is the time since boot.
    pub fn on_found(&mut self, found: Found, now: Duration) -> bool {
        if found.error.is_empty() {
            let asked = std::mem::take(&mut self.asked);
            self.gone.retain(|key| !asked.contains(key));
        } else {
            self.due.get_or_insert(now + RETRY);
        }
        self.found.replace(found).is_none()
    }

    /// Another child has looked at the registered node. A label of requests that somebody else has
    /// changed there is changed back. `now` is the time since boot.
    pub fn on_looked(&mut self, seen: Found, now: Duration) {
        // Nothing is compared before the first labels are set, or while the API server refuses.
        let Some(found) = self.found.as_mut().filter(|found| found.error.is_empty()) else {
            return;
        };
        found.settings = seen.settings;
        let settings = &found.settings;
        let differs = |values: &Ranked<NodeLabel>| {
            let label = values.effective().filter(|_| values.get(Source::Api).is_some());
            label.is_some_and(|(_, label)| {
                let label = Setting::NodeLabel(label.clone());
                settings.get(&label.name()) != Some(&label.value())
            })
        };
        if self.labels.values().any(differs) {
            self.due.get_or_insert(now);
        }
    }

    /// When a child begins to watch the registered node, since boot: while requests set labels that
    /// it has.
    pub fn watch_due(&self) -> Option<Duration> {
        let is_requested = self.labels.values().any(|values| values.get(Source::Api).is_some());
        let is_settled = self.found.as_ref().is_some_and(|found| found.error.is_empty());
        self.watch.deadline().filter(|_| is_requested && is_settled && self.due.is_none())
    }

    /// That child begins. Returns its settings, a line each: what the node has.
    pub fn on_watching(&mut self) -> Vec<String> {
        self.watch.on_start();
        let text = self.found.as_ref().map(Found::text).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// That child has ended with this report. `now` is the time since boot.
    pub fn on_watched(&mut self, succeeded: bool, report: &str, now: Duration) {
        let (seen, _) = Found::split(report);
        let end = match (&seen, succeeded) {
            (Some(_), _) => End::Changed,
            (None, true) => End::Over,
            (None, false) => End::Failed,
        };
        self.watch.on_end(end, now);
        if let Some(seen) = seen {
            self.on_looked(seen, now);
        }
    }

    /// Each label and taint: the value that requests have set, and the value that the child read
    /// last from the registered node.
    pub fn observe(&self) -> impl Iterator<Item = Observed> {
        let labels = self.labels.values().map(|values| {
            let setting = |label: &NodeLabel| Setting::NodeLabel(label.clone());
            let error = self.found.as_ref().map_or("", |found| &found.error);
            let is_requested = values.get(Source::Api).is_some();
            self.observed(values, setting, if is_requested { error } else { LATER })
        });
        let taints = self.taints.values().map(|values| {
            self.observed(values, |taint| Setting::NodeTaint(taint.clone()), TAINTS_LATER)
        });
        labels.chain(taints).flatten()
    }

    fn observed<T>(
        &self,
        values: &Ranked<T>,
        setting: impl Fn(&T) -> Setting,
        error: &str,
    ) -> Option<Observed> {
        let (source, effective) = values.effective()?;
        let effective = setting(effective);
        let name = effective.name();
        let current = self.found.as_ref().and_then(|found| found.settings.get(&name));
        let differs = self.found.is_some() && current != Some(&effective.value());
        Some(Observed {
            wanted: values.get(Source::Api).map(setting),
            source: Some(source),
            current: current.cloned().unwrap_or_default(),
            error: if differs { error.to_owned() } else { String::new() },
            name,
        })
    }

    /// The settings with the values of a source.
    pub fn of(&self, source: Source) -> impl Iterator<Item = Setting> {
        let labels = self.labels.values().filter_map(move |values| values.get(source));
        let taints = self.taints.values().filter_map(move |values| values.get(source));
        let labels = labels.cloned().map(Setting::NodeLabel);
        labels.chain(taints.cloned().map(Setting::NodeTaint))
    }
}

/// Sets the value of `source`, unless there are `max` others.
fn set<K: Clone + Ord, T: Clone>(
    all: &mut BTreeMap<K, Ranked<T>>,
    max: usize,
    key: &K,
    source: Source,
    value: &T,
) -> Result<(), Refusal> {
    if !all.contains_key(key) && all.len() >= max {
        let reason = format!("the node has {max} of them already");
        return Err(Refusal::new(RefusalCode::Failed, reason));
    }
    all.entry(key.clone()).or_default().set(source, Some(value.clone()));
    Ok(())
}
