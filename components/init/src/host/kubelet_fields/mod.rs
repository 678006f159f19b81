//! The fields of the kubelet's configuration that settings ask for. A child writes the
//! configuration with them, and the kubelet starts again if that has changed.
//!
//! A kubelet that does not start with new fields gets those with which it has run before. If it
//! runs with these, the new ones are taken back; if not, they are not the cause, and it gets them
//! again. Those with which the node was ready in an earlier boot are taken back only if the kubelet
//! then fails with them once more.

mod files;
mod overlay;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use osbuild_abi::paths::KUBELET_FIELDS;
use osbuild_failure::{Explain, Outcome};
use osbuild_protocol::{
    KubeletField, KubeletKey, Observed, Refusal, RefusalCode, Setting, SettingName,
};
use osbuild_ranks::{Ranked, Source};

use self::files::Files;
pub use self::files::write_overridden;
pub use self::overlay::{Argument, Fields, overlay};

/// How long after a change the configuration is written: a resource may change several fields, one
/// after the other.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the kubelet has to run to show that it runs with its fields.
pub const PROOF: Duration = Duration::from_secs(60);

/// The values of all sources.
type Values = BTreeMap<KubeletKey, Ranked<KubeletField>>;

/// The fields that have a value of any source.
#[derive(Default)]
pub struct KubeletFields {
    values: Values,
    /// Those with which the kubelet has run.
    proven: Values,
    /// Whether those of requests are of an earlier boot, in which the node was ready with them.
    are_good: bool,
    /// Why the kubelet gets those, if the newest are held back.
    held_back: Option<String>,
    /// Why fields were taken back, as long as nobody changes them.
    taken_back: BTreeMap<KubeletKey, String>,
    /// The arguments of the child that is writing the configuration.
    asked: Option<Vec<Argument>>,
    /// The fields in the configuration, and what it is.
    written: Fields,
    files: Files,
    /// Those that a drop-in on DATA overrides, with its name.
    overridden: BTreeMap<KubeletKey, String>,
    /// The fields with which the kubelet was started, while it runs.
    running: Option<Fields>,
    /// When to write the configuration, since boot.
    due: Option<Duration>,
}

/// The result of taking back the newest fields, because the kubelet runs without them.
#[derive(Debug, PartialEq, Eq)]
pub struct TakenBack {
    /// Lines for the console.
    pub lines: Vec<String>,
    /// Whether values of requests are among those that were taken back.
    pub of_requests: bool,
}

impl KubeletFields {
    /// Gives a field the value of `source`, if `allowed`, the text of the image's list, permits it.
    /// `now` is the time since boot.
    ///
    /// # Errors
    /// The list does not permit it.
    pub fn apply(
        &mut self,
        source: Source,
        field: &KubeletField,
        allowed: &str,
        now: Duration,
    ) -> Result<(), Refusal> {
        let key = field.key();
        if !permits(allowed, key) {
            let reason = format!("the image does not allow `{key}` to be set");
            return Err(Refusal::new(RefusalCode::NotAllowed, reason));
        }
        self.values.entry(key.clone()).or_default().set(source, Some(field.clone()));
        self.on_change(source, key, now);
        Ok(())
    }

    /// Withdraws the value of `source`, so that the next one is in effect. `now` is the time since
    /// boot.
    pub fn withdraw(&mut self, source: Source, key: &KubeletKey, now: Duration) {
        if let Some(values) = self.values.get_mut(key) {
            values.set(source, None);
        }
        self.values.retain(|_, values| values.effective().is_some());
        self.on_change(source, key, now);
    }

    fn on_change(&mut self, source: Source, key: &KubeletKey, now: Duration) {
        self.are_good &= source != Source::Api;
        self.held_back = None;
        self.taken_back.remove(key);
        self.write_at(now + PAUSE);
    }

    /// The node was ready with the fields of requests in an earlier boot.
    pub fn on_good(&mut self) {
        self.are_good = true;
    }

    /// Forgets why fields were taken back: there is a new document.
    pub fn on_new_document(&mut self) {
        self.taken_back.clear();
    }

    fn write_at(&mut self, due: Duration) {
        self.due = (self.given() != self.written).then_some(due);
    }

    /// When to write the configuration, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.due
    }

    /// The configuration is about to be written.
    pub fn on_due(&mut self) {
        self.due = None;
    }

    /// The arguments of the child that writes the configuration, which is started now.
    pub fn ask(&mut self) -> Vec<String> {
        self.on_due();
        let given = self.given();
        let document = self.of(Source::Document).map(|field| field.key().clone());
        let removed: Vec<KubeletKey> = document.filter(|key| !given.contains_key(key)).collect();
        let set = given.into_values().map(Argument::Set);
        let arguments: Vec<Argument> =
            set.chain(removed.into_iter().map(Argument::Remove)).collect();
        let words = arguments.iter().map(Argument::word).collect();
        self.asked = Some(arguments);
        words
    }

    /// The child has written the configuration, and its document is known. Returns whether the
    /// kubelet has to start again. `now` is the time since boot.
    pub fn on_written(&mut self, now: Duration) -> bool {
        let arguments = self.asked.take().unwrap_or_default();
        let written = overlay(self.of(Source::Document), &arguments);
        let has_changed = written != self.written;
        self.written = written;
        self.overridden = files::overridden();
        let files = Files::read();
        // Taints are in the files, too, and need no other kubelet.
        let has_changed = has_changed && files != self.files;
        self.files = files;
        if !has_changed && self.running.is_some() {
            self.running = Some(self.written.clone());
        }
        self.write_at(now);
        has_changed
    }

    /// The kubelet is started.
    pub fn on_started(&mut self) {
        self.running = Some(self.written.clone());
    }

    /// The kubelet has exited.
    pub fn on_exited(&mut self) {
        self.running = None;
    }

    /// Whether the kubelet has not shown yet that it runs with the newest fields.
    pub fn is_unproven(&self) -> bool {
        self.held_back.is_some() || self.values != self.proven
    }

    /// Whether the kubelet, if it goes on, will show that it runs with the fields that it has.
    pub fn awaits_proof(&self) -> bool {
        self.is_unproven() && self.running.as_ref() == Some(&self.given())
    }

    /// The kubelet has failed several times in a row: `reason`. Returns whether that may be due to
    /// its fields: then it gets those with which it has run. `now` is the time since boot.
    pub fn on_failed(&mut self, reason: &str, now: Duration) -> bool {
        if self.held_back.take().is_some() || effective(&self.values) == effective(&self.proven) {
            self.write_at(now);
            return false;
        }
        self.held_back = Some(reason.to_owned());
        self.write_at(now);
        true
    }

    /// The kubelet has run for long enough. Returns what follows, if fields were held back.
    pub fn on_proved(&mut self) -> Option<TakenBack> {
        if self.running.as_ref() != Some(&self.given()) {
            return None;
        }
        let was_good = std::mem::take(&mut self.are_good);
        let Some(reason) = self.held_back.take() else {
            self.proven = self.values.clone();
            return None;
        };
        // The cause may have been something else that has passed: they are tried once more.
        if was_good {
            self.write_at(Duration::ZERO);
            return None;
        }
        let newest = std::mem::replace(&mut self.values, self.proven.clone());
        let keys: BTreeSet<&KubeletKey> = newest.keys().chain(self.values.keys()).collect();
        let changed: Vec<KubeletKey> = keys
            .into_iter()
            .filter(|key| newest.get(key) != self.values.get(key))
            .cloned()
            .collect();
        let of = |values: &Values, key| values.get(key)?.get(Source::Api).cloned();
        let of_requests = changed.iter().any(|key| of(&newest, key) != of(&self.values, key));
        let line = |key: &KubeletKey| format!("`{key}` of the kubelet is taken back: {reason}");
        let lines = changed.iter().map(line).collect();
        self.taken_back.extend(changed.into_iter().map(|key| (key, reason.clone())));
        Some(TakenBack { lines, of_requests })
    }

    /// Writes the configurations again that another program has changed. Returns lines for the
    /// console.
    pub fn hold(&self) -> Vec<String> {
        // A child is about to change them.
        if self.asked.is_some() { Vec::new() } else { self.files.hold() }
    }

    /// The fields that have a value, and those that were taken back: what requests have set, and
    /// with what the kubelet runs.
    pub fn observe(&self) -> impl Iterator<Item = Observed> {
        let keys: BTreeSet<&KubeletKey> =
            self.values.keys().chain(self.taken_back.keys()).collect();
        keys.into_iter().map(|key| {
            let values = self.values.get(key);
            let running = self.running.as_ref().and_then(|running| running.get(key));
            let running = running.filter(|_| !self.overridden.contains_key(key));
            Observed {
                name: SettingName::Kubelet(key.clone()),
                wanted: values
                    .and_then(|values| values.get(Source::Api).cloned())
                    .map(Setting::Kubelet),
                source: values.and_then(Ranked::effective).map(|(source, _)| source),
                current: running.map(|field| field.value().to_owned()).unwrap_or_default(),
                error: self.error(key),
            }
        })
    }

    /// Why the kubelet does not run with the value in effect; empty if nothing speaks against it.
    fn error(&self, key: &KubeletKey) -> String {
        let is_held_back = effective(&self.values).get(key) != self.given().get(key);
        let held_back = self.held_back.as_ref().filter(|_| is_held_back);
        match (self.taken_back.get(key).or(held_back), self.overridden.get(key)) {
            (Some(reason), _) => reason.clone(),
            (None, Some(name)) => format!("the drop-in `{name}` on DATA sets it"),
            (None, None) => String::new(),
        }
    }

    /// The fields with the values of a source.
    pub fn of(&self, source: Source) -> impl Iterator<Item = KubeletField> {
        self.values.values().filter_map(move |values| values.get(source).cloned())
    }

    /// The fields that the kubelet shall have.
    fn given(&self) -> Fields {
        effective(if self.held_back.is_some() { &self.proven } else { &self.values })
    }
}

fn effective(values: &Values) -> Fields {
    let one = |(key, values): (&KubeletKey, &Ranked<KubeletField>)| {
        Some((key.clone(), values.effective()?.1.clone()))
    };
    values.iter().filter_map(one).collect()
}

/// The text of the image's list.
pub fn allowed() -> Outcome<String> {
    std::fs::read_to_string(KUBELET_FIELDS).explain(format_args!("read {KUBELET_FIELDS}"))
}

/// Whether the list permits the field.
pub fn permits(list: &str, key: &KubeletKey) -> bool {
    list.lines().map(str::trim).any(|line| line == key.field())
}
