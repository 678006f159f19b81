//! The kernel parameters that the `host` socket sets, of those that the image allows. They are set
//! again when another program changes them.

mod huge_pages;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use osbuild_abi::paths::KERNEL_PARAMETERS;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_protocol::{
    KernelParameter, MAX_PARAMETERS, Observed, ParameterKey, ParameterValue, Refusal, RefusalCode,
    Setting, SettingName, words,
};
use osbuild_ranks::{Ranked, Source};

use super::sysctl::{self, SETTINGS};
use crate::boot::memory;

/// A list that permits all of them.
pub const ALL: &str = "*";

/// How often to compare them with the kernel: nothing reports a change of a file in `/proc/sys`.
const INTERVAL: Duration = Duration::from_millis(500);

/// The parameters that have a value of a source.
pub struct KernelParameters {
    folder: PathBuf,
    held: BTreeMap<ParameterKey, Held>,
    /// When to compare them next, since boot.
    next: Option<Duration>,
}

struct Held {
    values: Ranked<String>,
    /// The value that the parameter had before, which it has again without those of sources.
    before: String,
    /// The value that was written last: the one in effect, or [a step](huge_pages::step) to it.
    written: String,
    /// The value that the kernel showed after that.
    shown: String,
    /// Why the parameter could not be read or set when that was tried last.
    failure: Option<String>,
}

impl Default for KernelParameters {
    fn default() -> Self {
        KernelParameters { folder: SETTINGS.into(), held: BTreeMap::new(), next: None }
    }
}

impl KernelParameters {
    /// When to compare them with the kernel, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.next
    }

    /// Sets a parameter from `source`, if `allowed`, the text of the image's list, permits it.
    ///
    /// # Errors
    /// The list does not permit it, there are too many, or the kernel does not take the value: then
    /// the parameter keeps the value that it had.
    pub fn apply(
        &mut self,
        source: Source,
        wanted: &KernelParameter,
        allowed: &str,
        now: Duration,
    ) -> Result<(), Refusal> {
        let KernelParameter { key, value } = wanted;
        if !permits(allowed, key) {
            let reason = format!("the image does not allow `{key}` to be set");
            return Err(Refusal::new(RefusalCode::NotAllowed, reason));
        }
        huge_pages::check(key, value, memory::total_bytes())?;
        let before = self.read(key)?;
        let mut held = match self.held.remove(key) {
            Some(held) => held,
            None if self.held.len() < MAX_PARAMETERS => Held::new(before.clone()),
            None => {
                let reason = format!("{MAX_PARAMETERS} kernel parameters are set already");
                return Err(Refusal::new(RefusalCode::Failed, reason));
            }
        };
        let former = held.values.set(source, Some(value.as_str().to_owned()));
        let set = self.write(key, &mut held);
        if set.is_err() {
            held.values.set(source, former);
            // A list of values may have been taken in part.
            let _ = self.set(key, &before);
            held.shown = self.read(key).unwrap_or(before);
        }
        self.keep(key, held, now);
        set.map_err(Refusal::from)
    }

    /// Withdraws the value of `source`, so that the next one is in effect. A parameter that is not
    /// set stays as it is.
    pub fn withdraw(&mut self, source: Source, key: &ParameterKey, now: Duration) -> Outcome {
        let Some(mut held) = self.held.remove(key) else { return Ok(()) };
        held.values.set(source, None);
        let set = self.write(key, &mut held);
        if let Err(failure) = &set {
            held.on_failed(failure);
        }
        self.keep(key, held, now);
        set
    }

    /// Keeps a parameter that has a value of a source, or does not have the one before again yet,
    /// and chooses when to look at it.
    fn keep(&mut self, key: &ParameterKey, held: Held, now: Duration) {
        let due = if held.is_on_its_way() { now } else { now + INTERVAL };
        if held.is_on_its_way() || held.has_source() {
            self.held.insert(key.clone(), held);
            self.next = Some(self.next.map_or(due, |next| next.min(due)));
        }
        if self.held.is_empty() {
            self.next = None;
        }
    }

    /// Sets those again that another program has changed, takes the next step to those that get
    /// theirs in steps, and tries those again that have failed. Returns lines for the console.
    pub fn hold(&mut self, now: Duration) -> Vec<String> {
        if self.next.is_none_or(|next| next > now) {
            return Vec::new();
        }
        self.next = None;
        let mut lines = Vec::new();
        let keys: Vec<ParameterKey> = self.held.keys().cloned().collect();
        for key in keys {
            // The others stay known: each is a link's own value, for the default of links.
            let Some(mut held) = self.held.remove(&key) else { continue };
            match self.hold_one(&key, &mut held) {
                Ok(None) => {}
                Ok(Some(line)) => lines.push(line),
                Err(failure) => {
                    let is_new = held.on_failed(&failure);
                    lines.extend(is_new.then(|| failure.to_string()));
                }
            }
            self.keep(&key, held, now);
        }
        lines
    }

    fn hold_one(&self, key: &ParameterKey, held: &mut Held) -> Outcome<Option<String>> {
        let found = self.read(key)?;
        if found == held.shown {
            if held.is_on_its_way() || held.failure.is_some() {
                self.write(key, held)?;
            }
            return Ok(None);
        }
        held.shown.clone_from(&found);
        self.write(key, held)?;
        let value = held.effective();
        Ok(Some(format!("another program set `{key}` to `{found}`, it is `{value}` again")))
    }

    /// Those that have a value of a source: what requests have set, and what the kernel has.
    pub fn observe(&self) -> impl Iterator<Item = Observed> {
        let held = self.held.iter().filter(|(_, held)| held.has_source());
        held.map(|(key, held)| Observed {
            name: SettingName::KernelParameter(key.clone()),
            wanted: held.of(key, Source::Api).map(Setting::KernelParameter),
            source: held.values.effective().map(|(source, _)| source),
            current: self.read(key).unwrap_or_default(),
            error: held.error(),
        })
    }

    /// The parameters with the values of a source.
    pub fn of(&self, source: Source) -> impl Iterator<Item = KernelParameter> {
        self.held.iter().filter_map(move |(key, held)| held.of(key, source))
    }

    fn path(&self, key: &ParameterKey) -> PathBuf {
        sysctl::path_of(&self.folder, key.as_str())
    }

    fn read(&self, key: &ParameterKey) -> Outcome<String> {
        let text = std::fs::read_to_string(self.path(key));
        text.map(|text| words(&text)).explain(format_args!("read the kernel parameter `{key}`"))
    }

    /// Has the kernel take the value in effect, or the next step to it.
    fn write(&self, key: &ParameterKey, held: &mut Held) -> Outcome {
        let value = huge_pages::step(key, &held.shown, held.effective());
        self.set(key, &value)?;
        (held.written, held.shown) = (value, self.read(key)?);
        held.failure = None;
        Ok(())
    }

    /// An empty value is that of an empty list: the kernel takes it only as an empty line. The
    /// default of links leaves those alone that have a parameter of their own.
    fn set(&self, key: &ParameterKey, value: &str) -> Outcome {
        let value = if value.is_empty() { "\n" } else { value };
        let is_own = |link: &Path| self.held.keys().any(|held| self.path(held) == link);
        sysctl::set_with_followers(&self.folder, key.as_str(), value, is_own)
    }
}

impl Held {
    fn new(before: String) -> Held {
        let (written, shown) = (before.clone(), before.clone());
        Held { values: Ranked::new(), before, written, shown, failure: None }
    }

    fn effective(&self) -> &str {
        self.values.effective().map_or(&self.before, |(_, value)| value)
    }

    /// The parameter with the value of a source.
    fn of(&self, key: &ParameterKey, source: Source) -> Option<KernelParameter> {
        let value = ParameterValue::parse(self.values.get(source)?).ok()?;
        Some(KernelParameter { key: key.clone(), value })
    }

    /// Whether the kernel took the last step, and there is another one.
    fn is_on_its_way(&self) -> bool {
        self.written != self.effective() && self.shown == self.written
    }

    /// It could not be read or set. Takes no more steps at once: the next one would fail too,
    /// without an end. Returns whether the failure is another one than before.
    fn on_failed(&mut self, failure: &Failure) -> bool {
        self.written = self.effective().to_owned();
        let failure = Some(failure.to_string());
        let is_new = failure != self.failure;
        self.failure = failure;
        is_new
    }

    /// Why the parameter does not have the value in effect; empty if it has, or soon will.
    fn error(&self) -> String {
        if let Some(failure) = &self.failure {
            return failure.clone();
        }
        let is_short = self.written != self.effective() && self.shown != self.written;
        if is_short { huge_pages::shortage(&self.shown, self.effective()) } else { String::new() }
    }

    /// Whether a source has a value.
    fn has_source(&self) -> bool {
        self.values.effective().is_some()
    }
}

/// The text of the image's list.
pub fn allowed() -> Outcome<String> {
    std::fs::read_to_string(KERNEL_PARAMETERS).explain(format_args!("read {KERNEL_PARAMETERS}"))
}

/// Whether the list permits the parameter.
fn permits(list: &str, key: &ParameterKey) -> bool {
    let patterns = list.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    patterns.filter(|line| !line.is_empty()).any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => key.as_str().starts_with(start),
        None => key.as_str() == pattern,
    })
}
