//! The swap that settings ask for: compressed memory. Moving all pages of a swap back into memory
//! may take minutes, so a child turns it on and off. PID 1 decides when, from the kernel's table of
//! swap areas, and has the kubelet give pods their part of it.

#[cfg(test)]
mod tests;
mod zram;

use std::time::Duration;

use osbuild_failure::Outcome;
use osbuild_protocol::{Observed, Refusal, Setting, SettingName, Swap, SwapAmounts, SwapState};
use osbuild_ranks::{Ranked, Source};

pub use self::zram::{Active, DEVICE, SWAPS, Zram};
use super::kernel_modules;
use crate::boot::memory;

/// How long to wait before the swap is changed again that is not as it shall be.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long after a change the kubelet's configuration is written: a resource may change more.
const PAUSE: Duration = Duration::from_secs(1);
/// The unit of what the status has, so that it does not change all the time.
const MEBIBYTE: u64 = 1 << 20;

/// The swap with a value of any source, and the one that there is.
#[derive(Default)]
pub struct SwapSettings {
    zram: Zram,
    values: Ranked<Swap>,
    /// The swap at the last look.
    active: Option<Active>,
    /// The task of its child.
    task: Option<Task>,
    /// Why it is not as it shall be; empty if it is.
    error: String,
    /// When it may be changed again, since boot.
    due: Duration,
    /// When to look again, since boot.
    next: Option<Duration>,
    kubelet: KubeletPart,
    /// Lines for the console.
    lines: Vec<String>,
}

/// The work of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Makes swap of this size, in place of another.
    On(SwapAmounts),
    /// Removes it.
    Off,
}

/// The part of the swap that the kubelet gives to pods.
#[derive(Default)]
struct KubeletPart {
    /// Whether it is asked to, in the configuration that is being written.
    asked: Option<bool>,
    /// Whether it is, in the one that was written.
    written: bool,
    /// The size of the swap when it was started, or is about to be, which it shares out.
    size: u64,
    /// When to write its configuration, since boot.
    due: Option<Duration>,
}

impl SwapSettings {
    /// Gives the swap the value of `source`. Whether the kernel has such a device is in
    /// [`Self::observe`].
    ///
    /// # Errors
    /// The machine has too little memory for it.
    pub fn apply(&mut self, source: Source, swap: &Swap, now: Duration) -> Result<(), Refusal> {
        swap.amounts(memory::total_bytes())?;
        self.values.set(source, Some(*swap));
        self.on_change(now);
        Ok(())
    }

    /// Withdraws the value of `source`, so that the next one is in effect.
    pub fn withdraw(&mut self, source: Source, now: Duration) {
        self.values.set(source, None);
        self.on_change(now);
    }

    fn on_change(&mut self, now: Duration) {
        (self.due, self.next) = (now, Some(now));
        self.write_kubelet_at(now + PAUSE);
    }

    /// When to look at the swap again, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.next
    }

    /// Compares the swap with what the kernel has. Returns lines for the console.
    pub fn hold(&mut self, now: Duration) -> Vec<String> {
        let is_used = self.values.effective().is_some() || self.active.is_some();
        self.next = None;
        // A child changes the device, and the kernel has readers wait for the end of that.
        if is_used && self.task.is_none() {
            self.look(self.zram.active(), now);
        }
        std::mem::take(&mut self.lines)
    }

    fn look(&mut self, active: Option<Active>, now: Duration) {
        if active.is_none() && self.active.is_some() && self.values.effective().is_some() {
            self.lines.push("another program turned the swap off".to_owned());
            self.due = now;
        }
        self.active = active;
        if self.wants().is_none() {
            self.error.clear();
        }
        self.next = self.wants().map(|_| self.due.max(now));
        // Another start of the child would end one that writes.
        let is_other = |active: Active| active.amounts.size != self.kubelet.size;
        if self.pods() && self.kubelet.asked.is_none() && active.is_some_and(is_other) {
            self.kubelet.due = Some(now);
        }
    }

    /// The task that is due, if any.
    fn wants(&self) -> Option<Task> {
        let wanted = self.values.effective();
        let wanted = wanted.and_then(|(_, swap)| swap.amounts(memory::total_bytes()).ok());
        match (wanted, self.active) {
            (None, None) => None,
            (None, Some(_)) => Some(Task::Off),
            (Some(wanted), Some(active)) if active.amounts == wanted => None,
            (Some(wanted), _) => Some(Task::On(wanted)),
        }
    }

    /// The arguments of the child that must be started now, if there is one. It ends with
    /// [`Self::on_report`].
    pub fn start(&mut self, now: Duration) -> Option<Vec<String>> {
        let task = self.wants().filter(|_| self.task.is_none() && self.due <= now)?;
        (self.due, self.next) = (now + INTERVAL, Some(now + INTERVAL));
        if !self.zram.exists() {
            let error = self.missing().unwrap_or_else(|failure| failure.to_string());
            self.set_error(error);
            return None;
        }
        (self.task, self.next) = (Some(task), None);
        Some(task.arguments())
    }

    /// Why the kernel does not have the device.
    fn missing(&self) -> Outcome<String> {
        let lacks = kernel_modules::lacks("zram", &kernel_modules::of_image()?);
        Ok(lacks.unwrap_or_else(|| format!("there is no {DEVICE}")))
    }

    /// The child has ended, or could not be started. `report` is what it has written.
    pub fn on_report(&mut self, succeeded: bool, report: &str, now: Duration) {
        let task = self.task.take();
        let active = self.zram.active();
        if succeeded {
            self.error.clear();
            self.lines.extend(report.lines().map(str::to_owned));
        } else {
            let ended = "its child was ended before it was done, perhaps for lack of memory";
            self.set_error(report.lines().last().unwrap_or(ended).to_owned());
        }
        // It was changed on purpose.
        if task.is_some() {
            self.active = active;
        }
        // `hold` returns the lines for the console, and chooses when to look again.
        self.next = Some(now);
    }

    fn set_error(&mut self, error: String) {
        if self.error != error && !error.is_empty() {
            self.lines.push(format!("swap: {error}"));
        }
        self.error = error;
    }

    /// The swap, if there is one or shall be one: what requests have set, and its state.
    pub fn observe(&self) -> Option<Observed> {
        let source = self.values.effective().map(|(source, _)| source);
        let active = if self.task.is_some() { self.active } else { self.zram.active() };
        if source.is_none() && self.active.is_none() {
            return None;
        }
        Some(Observed {
            name: SettingName::Swap,
            wanted: self.values.get(Source::Api).copied().map(Setting::Swap),
            source,
            current: active.map(|active| state(active).to_string()).unwrap_or_default(),
            error: self.error.clone(),
        })
    }

    /// The value of a source.
    pub fn of(&self, source: Source) -> Option<Swap> {
        self.values.get(source).copied()
    }

    /// Whether pods get a part of it.
    fn pods(&self) -> bool {
        self.values.effective().is_some_and(|(_, swap)| swap.pods())
    }

    fn write_kubelet_at(&mut self, due: Duration) {
        self.kubelet.due = (self.pods() != self.kubelet.written).then_some(due);
    }

    /// When to write the kubelet's configuration, since boot.
    pub fn kubelet_deadline(&self) -> Option<Duration> {
        self.kubelet.due
    }

    /// The kubelet's configuration is about to be written.
    pub fn on_kubelet_due(&mut self) {
        self.kubelet.due = None;
    }

    /// The argument of the child that writes the kubelet's configuration, which is started now: the
    /// value of requests. The child itself reads those of lower ranks.
    pub fn ask_kubelet(&mut self) -> Option<String> {
        self.on_kubelet_due();
        let asked = self.of(Source::Api);
        self.kubelet.asked = asked.map(|swap| swap.pods());
        asked.map(|swap| Setting::Swap(swap).line())
    }

    /// The child has written the configuration, and its document is known. Returns whether the
    /// kubelet has to start again: it shares out the swap that it finds at its start.
    pub fn on_kubelet_written(&mut self, now: Duration) -> bool {
        let read = self.of(Source::Document).or_else(|| self.of(Source::Image));
        let read = read.is_some_and(|swap| swap.pods());
        let written = self.kubelet.asked.take().unwrap_or(read);
        let has_changed = std::mem::replace(&mut self.kubelet.written, written) != written;
        self.write_kubelet_at(now);
        let size = self.active.map_or(self.kubelet.size, |active| active.amounts.size);
        has_changed || written && std::mem::replace(&mut self.kubelet.size, size) != size
    }

    /// The kubelet is started.
    pub fn on_kubelet_started(&mut self) {
        self.kubelet.size = self.active.map_or(0, |active| active.amounts.size);
    }
}

impl Task {
    fn arguments(self) -> Vec<String> {
        match self {
            Self::On(SwapAmounts { size, memory_limit }) => {
                vec!["on".to_owned(), size.to_string(), memory_limit.to_string()]
            }
            Self::Off => vec!["off".to_owned()],
        }
    }
}

fn state(active: Active) -> SwapState {
    let up = |bytes: u64| bytes.div_ceil(MEBIBYTE) * MEBIBYTE;
    SwapState {
        bytes: active.amounts.size,
        used_bytes: up(active.used_bytes),
        memory_bytes: up(active.memory_bytes),
    }
}
