//! The volumes that settings ask for: disks beside the node's own and folders of DATA, each mounted
//! for pods. PID 1 neither reads such a disk nor looks up a name on it, as it may never answer: a
//! child for each volume prepares, mounts and unmounts it. PID 1 decides when, from the kernel's
//! tables of mounts and of disks, which need no disk.

mod place;
mod report;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use osbuild_abi::paths::VOLUME_DISKS;
use osbuild_failure::{Explain, Outcome};
use osbuild_protocol::{
    MAX_VOLUMES, Observed, Refusal, RefusalCode, Setting, SettingName, Volume, VolumeBacking,
    VolumeName, VolumePhase, VolumeState,
};
use osbuild_ranks::{Ranked, Source};

use self::place::Place;
pub use self::place::path;
pub use self::report::Report;
use crate::mountinfo::{Entry, entries};

/// How long to wait before a volume is looked at again that is not as it shall be. The kernel
/// reports new disks, but not that a file was closed or a disk was erased.
const INTERVAL: Duration = Duration::from_secs(10);

/// The volumes that have a value of any source, and those that are still mounted.
#[derive(Default)]
pub struct VolumeSettings {
    held: BTreeMap<VolumeName, Held>,
    place: Option<Place>,
    /// The disks at the last look.
    disks: Vec<String>,
    /// When to look again, since boot.
    next: Option<Duration>,
    /// Lines for the console.
    lines: Vec<String>,
}

struct Held {
    values: Ranked<Volume>,
    /// The number of its child.
    number: u8,
    state: VolumeState,
    /// Why it is not as it shall be; empty if it is.
    error: String,
    /// The disk or the folder that is mounted.
    mounted: Option<Mounted>,
    /// The task of its child.
    task: Option<Task>,
    /// When it may be tried again, since boot.
    due: Duration,
}

struct Mounted {
    backing: VolumeBacking,
    /// The numbers of its device.
    device: String,
}

/// The work of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Task {
    Mount(VolumeBacking),
    Unmount,
}

/// A child to start.
#[derive(Debug, PartialEq, Eq)]
pub struct Start {
    /// The number of the volume.
    pub number: u8,
    /// Its arguments.
    pub arguments: Vec<String>,
}

impl VolumeSettings {
    /// When to look at the volumes again, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.next
    }

    /// Gives a volume the disk or the folder of `source`, if `allowed`, the text of the image's
    /// list, permits it.
    ///
    /// # Errors
    /// The list does not permit it, another volume has the disk, or there are too many.
    pub fn apply(
        &mut self,
        source: Source,
        volume: &Volume,
        allowed: &str,
        now: Duration,
    ) -> Result<(), Refusal> {
        if !permits(allowed, volume.backing()) {
            let reason = format!("the image allows no volume on {}", volume.backing());
            return Err(Refusal::new(RefusalCode::NotAllowed, reason));
        }
        let others = || self.held.iter().filter(|(name, _)| *name != volume.name());
        let has_disk = |held: &Held| {
            let disk = held.effective().and_then(VolumeBacking::disk);
            disk.is_some() && disk == volume.backing().disk()
        };
        if let Some((other, _)) = others().find(|(_, held)| has_disk(held)) {
            let reason = format!("the volume `{other}` has {}", volume.backing());
            return Err(Refusal::new(RefusalCode::Failed, reason));
        }
        let is_free = |number: &u8| others().all(|(_, held)| held.number != *number);
        let Some(number) = (0..MAX_VOLUMES as u8).find(is_free) else {
            let reason = format!("there are {MAX_VOLUMES} volumes already");
            return Err(Refusal::new(RefusalCode::Failed, reason));
        };
        let held = self.held.entry(volume.name().clone()).or_insert_with(|| Held::new(number));
        held.values.set(source, Some(volume.clone()));
        held.due = now;
        self.next = Some(now);
        Ok(())
    }

    /// Withdraws the value of `source`, so that the next one is in effect.
    pub fn withdraw(&mut self, source: Source, name: &VolumeName, now: Duration) {
        if let Some(held) = self.held.get_mut(name) {
            held.values.set(source, None);
            held.due = now;
            self.next = Some(now);
        }
    }

    /// Compares the volumes with what the kernel has. Returns lines for the console.
    pub fn hold(&mut self, now: Duration) -> Vec<String> {
        if !self.held.is_empty() {
            match table() {
                Ok(table) => self.look(&table, disks(), now),
                Err(failure) => self.lines.push(failure.to_string()),
            }
        }
        std::mem::take(&mut self.lines)
    }

    /// Compares the volumes with these tables of mounts and of disks.
    fn look(&mut self, table: &[Entry], disks: Vec<String>, now: Duration) {
        let is_new = self.disks != disks;
        self.disks = disks;
        for (name, held) in &mut self.held {
            let point = path(name.as_str());
            let is_there = |mounted: &Mounted| {
                is_mounted(table, &point, &mounted.device) || held.task.is_some()
            };
            if let Some(lost) = held.mounted.take_if(|mounted| !is_there(mounted)) {
                (held.state, held.due) = (VolumeState::default(), now);
                if held.effective() == Some(&lost.backing) {
                    self.lines.push(format!("another program unmounted `{point}`"));
                }
            }
            let has_disk = |mounted: &Mounted| has_device(&mounted.device);
            if is_new && !held.mounted.as_ref().is_some_and(has_disk) {
                held.due = now;
            }
        }
        self.remove_gone();
        let awaited =
            self.held.values().filter(|held| held.task.is_none() && held.wants().is_some());
        self.next = awaited.map(|held| held.due.max(now)).min();
    }

    /// Forgets volumes that nothing asks for, once they are not mounted.
    fn remove_gone(&mut self) {
        let place = self.place.as_ref();
        self.held.retain(|name, held| {
            let is_needed =
                held.effective().is_some() || held.mounted.is_some() || held.task.is_some();
            if !is_needed && let Some(place) = place {
                place.remove(name.as_str());
            }
            is_needed
        });
    }

    /// The children that must be started now. Each ends with [`Self::on_report`].
    pub fn starts(&mut self, now: Duration) -> Vec<Start> {
        let mut starts = Vec::new();
        for (name, held) in &mut self.held {
            let Some(task) = held.wants().filter(|_| held.task.is_none() && held.due <= now) else {
                continue;
            };
            held.due = now + INTERVAL;
            if let Task::Mount(_) = task
                && let Err(failure) = make_place(&mut self.place, name.as_str())
            {
                held.state.phase = VolumePhase::Failed;
                self.lines.extend(held.set_error(failure.to_string()));
                continue;
            }
            starts.push(Start { number: held.number, arguments: task.arguments(name) });
            if held.error.is_empty() && held.mounted.is_none() {
                held.state.phase = VolumePhase::Preparing;
            }
            held.task = Some(task);
        }
        let waits = |held: &&Held| held.task.is_none() && held.wants().is_some();
        self.next = self.held.values().filter(waits).map(|held| held.due).min();
        starts
    }

    /// A child has ended, or could not be started. `report` is what it has written.
    pub fn on_report(&mut self, number: u8, report: &str, now: Duration) {
        let table = table().unwrap_or_default();
        let found = self.held.iter_mut().find(|(_, held)| held.number == number);
        if let Some((name, held)) = found {
            let lines = held.on_report(&path(name.as_str()), Report::parse(report), &table);
            let lines = lines.into_iter().map(|line| format!("volume `{name}`: {line}"));
            self.lines.extend(lines);
            if let (None, Some(place)) = (&held.mounted, &self.place) {
                place.remove(name.as_str());
            }
        }
        self.remove_gone();
        // `hold` returns the lines for the console, and chooses when to look again.
        self.next = Some(now);
    }

    /// A child does not end. It may wait for its disk for ever.
    pub fn on_late(&mut self, number: u8) {
        let found = self.held.iter_mut().find(|(_, held)| held.number == number);
        if let Some((name, held)) = found {
            held.state.phase = VolumePhase::Failed;
            let line = held.set_error("its disk does not answer".to_owned());
            self.lines.extend(line.map(|line| format!("volume `{name}`: {line}")));
        }
    }

    /// Each volume: the value that requests have set, and its state on the host.
    pub fn observe(&self) -> impl Iterator<Item = Observed> {
        self.held.iter().map(|(name, held)| Observed {
            name: SettingName::Volume(name.clone()),
            wanted: held.values.get(Source::Api).cloned().map(Setting::Volume),
            source: held.values.effective().map(|(source, _)| source),
            current: held.state.to_string(),
            error: held.shown_error(),
        })
    }

    /// The volumes with the values of a source.
    pub fn of(&self, source: Source) -> impl Iterator<Item = Volume> {
        self.held.values().filter_map(move |held| held.values.get(source).cloned())
    }
}

impl Held {
    fn new(number: u8) -> Held {
        Held {
            values: Ranked::new(),
            number,
            state: VolumeState::default(),
            error: String::new(),
            mounted: None,
            task: None,
            due: Duration::ZERO,
        }
    }

    fn effective(&self) -> Option<&VolumeBacking> {
        self.values.effective().map(|(_, volume)| volume.backing())
    }

    /// The next task, if there is one.
    fn wants(&self) -> Option<Task> {
        match (&self.mounted, self.effective()) {
            (None, Some(backing)) => Some(Task::Mount(backing.clone())),
            (Some(mounted), wanted)
                if wanted != Some(&mounted.backing) || !has_device(&mounted.device) =>
            {
                Some(Task::Unmount)
            }
            _ => None,
        }
    }

    /// Takes the report of the child. Returns lines for the console.
    fn on_report(&mut self, point: &str, report: Report, table: &[Entry]) -> Vec<String> {
        let Some(task) = self.task.take() else { return Vec::new() };
        let Report { state, error, notes: mut lines } = report;
        let entry = table.iter().rev().find(|entry| entry.point == Path::new(point));
        match (task, entry) {
            (Task::Mount(backing), Some(entry)) => {
                // A child that was killed may have mounted it, and its report is about that.
                let is_whole = state.phase == VolumePhase::Mounted;
                let bytes = if is_whole { state.bytes } else { 0 };
                self.state = mounted_state(&entry.device, bytes);
                lines.push(format!("{} is mounted at `{point}`", self.shown(&backing)));
                self.mounted = Some(Mounted { backing, device: entry.device.clone() });
                lines.extend(self.set_error(error));
            }
            (Task::Mount(_), None) => {
                self.state = state;
                lines.extend(self.set_error(error));
            }
            (Task::Unmount, None) => {
                let mounted = self.mounted.take();
                let shown = mounted.map(|mounted| self.shown(&mounted.backing));
                lines.push(format!("{} is unmounted", shown.unwrap_or_default()));
                self.error.clear();
                (self.state, self.due) = (VolumeState::default(), Duration::ZERO);
            }
            (Task::Unmount, Some(entry)) => {
                self.state.phase = VolumePhase::Leaving;
                let gone = if has_device(&entry.device) { "" } else { "its disk is gone; " };
                lines.extend(self.set_error(format!("{gone}{error}")));
            }
        }
        lines
    }

    /// The volume in a line for the console: the device of a disk, but not that of DATA, which
    /// stays mounted.
    fn shown(&self, backing: &VolumeBacking) -> String {
        match backing {
            VolumeBacking::Disk(_) => format!("`{}`", self.state.device),
            VolumeBacking::Folder => backing.to_string(),
        }
    }

    /// Takes an error, or none. Returns it for the console if it is new.
    fn set_error(&mut self, error: String) -> Option<String> {
        let is_new = self.error != error && !error.is_empty();
        self.error = error;
        is_new.then(|| self.error.clone())
    }

    /// The error, or that of the mounted file system, which the kernel counts.
    fn shown_error(&self) -> String {
        if self.error.is_empty() && self.mounted.is_some() {
            return errors_of(&self.state.device).unwrap_or_default();
        }
        self.error.clone()
    }
}

impl Task {
    fn arguments(&self, name: &VolumeName) -> Vec<String> {
        match self {
            Self::Mount(backing) => {
                vec!["mount".to_owned(), name.to_string(), backing.word()]
            }
            Self::Unmount => vec!["unmount".to_owned(), name.to_string()],
        }
    }
}

/// Makes the mount point of a volume.
fn make_place(place: &mut Option<Place>, name: &str) -> Outcome {
    let what = format!("make `{}`", path(name));
    if place.is_none() {
        *place = Some(Place::mount().explain(&what)?);
    }
    place.as_ref().map_or(Ok(()), |place| place.make(name).explain(&what))
}

/// The errors that the kernel has counted of an ext4 on this device, in words.
fn errors_of(device: &str) -> Option<String> {
    let count = std::fs::read_to_string(format!("/sys/fs/ext4/{device}/errors_count")).ok()?;
    let count: u64 = count.trim().parse().ok()?;
    (count > 0).then(|| {
        format!("its file system has had {count} errors; it is read-only since the first one")
    })
}

fn table() -> Outcome<Vec<Entry>> {
    let path = "/proc/thread-self/mountinfo";
    Ok(entries(&std::fs::read(path).explain(format_args!("read {path}"))?))
}

/// The names of the disks, each with the sequence number that no other disk gets.
fn disks() -> Vec<String> {
    let names = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut disks: Vec<String> = names
        .map(|entry| {
            let number = std::fs::read_to_string(entry.path().join("diskseq")).unwrap_or_default();
            format!("{} {}", entry.file_name().to_string_lossy(), number.trim())
        })
        .collect();
    disks.sort();
    disks
}

/// Whether the kernel still has the block device of these numbers. A file system without one has
/// the number 0.
fn has_device(numbers: &str) -> bool {
    numbers.starts_with("0:") || Path::new("/sys/dev/block").join(numbers).exists()
}

/// The state of a mounted volume.
fn mounted_state(numbers: &str, bytes: u64) -> VolumeState {
    let link = std::fs::read_link(Path::new("/sys/dev/block").join(numbers)).unwrap_or_default();
    let device = link.file_name().unwrap_or_default().to_string_lossy().into_owned();
    VolumeState { phase: VolumePhase::Mounted, device, bytes }
}

fn is_mounted(table: &[Entry], point: &str, device: &str) -> bool {
    table.iter().any(|entry| entry.point == Path::new(point) && entry.device == device)
}

/// Whether the list has it.
fn permits(list: &str, backing: &VolumeBacking) -> bool {
    let wanted = match backing {
        VolumeBacking::Disk(disk) => format!("{}={}", disk.key(), disk.text().as_str()),
        VolumeBacking::Folder => backing.word(),
    };
    let patterns = list.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    patterns.filter(|line| !line.is_empty()).any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => wanted.starts_with(start),
        None => wanted == pattern,
    })
}

/// Reads the signed root's list of disks. A list that is missing is empty.
pub fn allowed() -> Outcome<String> {
    match std::fs::read_to_string(VOLUME_DISKS) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        read => read.explain(format_args!("read {VOLUME_DISKS}")),
    }
}

#[cfg(test)]
mod tests;
