//! The mounts that settings ask for. They are mounted again when another program unmounts them.

mod kernel;
pub mod place;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use osbuild_abi::paths::{MOUNT_TARGETS, WRITABLE_PATHS};
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_protocol::{
    MAX_MOUNTS, Mount, MountPath, MountSource, Observed, Refusal, RefusalCode, Setting, SettingName,
};
use osbuild_ranks::{Ranked, Source};

use self::kernel::Target;
use self::place::{Lists, Place};
use crate::mountinfo::Entry;

/// How long to wait before what has failed is tried again. The kernel reports most changes of
/// mounts, but not that a file was closed.
const INTERVAL: Duration = Duration::from_secs(5);

/// The mounts that have a value of any source, and those that are still to be unmounted.
#[derive(Default)]
pub struct MountSettings {
    held: BTreeMap<MountPath, Held>,
    /// When to try again what has failed, since boot.
    next: Option<Duration>,
    /// Lines for the console.
    lines: Vec<String>,
}

struct Held {
    values: Ranked<Mount>,
    place: Place,
    /// The mount that `init` has made there.
    mounted: Option<Mounted>,
    /// The mount that is there now, made by `init` or by the image.
    shown: Option<Mount>,
    /// Why that is not the mount in effect; empty if it is.
    error: String,
}

/// A mount that `init` has made.
#[derive(Clone)]
struct Mounted {
    id: u64,
    mount: Mount,
    /// Its options in the kernel's table.
    options: String,
}

impl MountSettings {
    /// When to try again what has failed, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.next
    }

    /// Gives a mount the value of `source`. The resulting mount is in [`Self::observe`].
    ///
    /// # Errors
    /// The lists do not allow it, it overlaps with another one, or there are too many.
    pub fn apply(
        &mut self,
        source: Source,
        mount: &Mount,
        lists: &Lists,
        now: Duration,
    ) -> Result<(), Refusal> {
        let (place, target) = (place::of(mount, lists)?, mount.target());
        let refuse = |reason| Err(Refusal::new(RefusalCode::Failed, reason));
        let others = self.held.keys().filter(|other| *other != target);
        if let Some(other) = others.clone().find(|other| other.overlaps(target)) {
            return refuse(format!("`{target}` overlaps with the mount at `{other}`"));
        }
        if others.count() >= MAX_MOUNTS {
            return refuse(format!("there are {MAX_MOUNTS} mounts already"));
        }
        let held = self.held.entry(target.clone()).or_insert_with(|| Held::new(place));
        held.values.set(source, Some(mount.clone()));
        self.follow(now);
        Ok(())
    }

    /// Withdraws the value of `source`, so that the next one is in effect.
    pub fn withdraw(&mut self, source: Source, target: &MountPath, now: Duration) {
        if let Some(held) = self.held.get_mut(target) {
            held.values.set(source, None);
            self.follow(now);
        }
    }

    /// Mounts, changes and unmounts what is not as it shall be. Returns lines for the console.
    pub fn hold(&mut self, now: Duration) -> Vec<String> {
        if !self.held.is_empty() {
            self.follow(now);
        }
        let lines = std::mem::take(&mut self.lines);
        let has_failed = self.held.values().any(|held| !held.error.is_empty());
        self.next = has_failed.then_some(now + INTERVAL);
        lines
    }

    fn follow(&mut self, now: Duration) {
        for (target, held) in &mut self.held {
            let before = std::mem::take(&mut held.error);
            match held.follow(target) {
                Ok(line) => self.lines.extend(line),
                Err(failure) => {
                    held.error = failure.to_string();
                    self.lines.extend((held.error != before).then(|| held.error.clone()));
                }
            }
        }
        self.held.retain(|_, held| held.effective().is_some() || held.mounted.is_some());
        // `hold` returns the lines for the console, and chooses when to retry.
        self.next = Some(now);
    }

    /// Each mount: the value that requests have set, and the one on the host.
    pub fn observe(&self) -> impl Iterator<Item = Observed> {
        self.held.iter().map(|(target, held)| Observed {
            name: SettingName::Mount(target.clone()),
            wanted: held.values.get(Source::Api).cloned().map(Setting::Mount),
            source: held.values.effective().map(|(source, _)| source),
            current: held
                .shown
                .clone()
                .map_or_else(String::new, |shown| Setting::Mount(shown).value()),
            error: held.error.clone(),
        })
    }

    /// The mounts with the values of a source.
    pub fn of(&self, source: Source) -> impl Iterator<Item = Mount> {
        self.held.values().filter_map(move |held| held.values.get(source).cloned())
    }
}

impl Held {
    fn new(place: Place) -> Held {
        let error = String::new();
        Held { values: Ranked::new(), place, mounted: None, shown: None, error }
    }

    fn effective(&self) -> Option<&Mount> {
        self.values.effective().map(|(_, mount)| mount)
    }

    /// Has the host follow. Returns a line for the console if another program has changed it.
    fn follow(&mut self, target: &MountPath) -> Outcome<Option<String>> {
        let table = kernel::table()?;
        let wanted = self.effective().cloned();
        let top = top(&table, target.as_str());
        let Place::Below { base, parts } = &self.place else {
            let is_there = top.is_some_and(|entry| entry.kind == "tmpfs");
            self.shown = wanted.filter(|_| is_there);
            let reason = format!("`{target}` is no longer mounted by the image");
            return is_there.then_some(None).ok_or_else(|| Failure::new(reason));
        };
        let change = Change::of(self.mounted.as_ref(), wanted.as_ref(), &table, target)?;
        let failed = || format!("mount at `{target}`");
        let open = || {
            let is_memory = self::top(&table, base).is_some_and(|entry| entry.kind == "tmpfs");
            is_memory.then_some(()).ok_or(io::ErrorKind::NotFound)?;
            Target::open(base, parts)
        };
        if change.is_lost {
            (self.mounted, self.shown) = (None, None);
        }
        if change.unmounts {
            open().and_then(|target| target.unmount()).explain(format!("unmount `{target}`"))?;
            (self.mounted, self.shown) = (None, None);
        }
        match (&mut self.mounted, wanted) {
            (None, Some(mount)) => {
                check_source(&table, &mount).explain(failed())?;
                let id = open().and_then(|target| target.mount(&mount)).explain(failed())?;
                self.shown = Some(mount.clone());
                self.mounted = Some(Mounted { id, mount, options: options(id) });
            }
            (Some(mounted), Some(mount)) if change.changes => {
                open().and_then(|target| target.change(mounted.id, &mount)).explain(failed())?;
                self.shown = Some(mount.clone());
                *mounted = Mounted { id: mounted.id, mount, options: options(mounted.id) };
            }
            _ => {}
        }
        Ok(change.line)
    }
}

/// The difference between a mount in the kernel's table and its setting.
#[derive(Debug, Default, PartialEq, Eq)]
struct Change {
    /// Another program has unmounted it.
    is_lost: bool,
    /// It must be unmounted, perhaps to mount another one.
    unmounts: bool,
    /// Its options or its size must be set.
    changes: bool,
    /// The line for the console about what another program has done.
    line: Option<String>,
}

impl Change {
    /// Compares what `init` has mounted, and what shall be, with the kernel's table.
    fn of(
        mounted: Option<&Mounted>,
        wanted: Option<&Mount>,
        table: &[Entry],
        target: &MountPath,
    ) -> Outcome<Change> {
        let mut change = Change::default();
        let is_ours = |entry: &&Entry, ours: &Mounted| {
            entry.id == ours.id && entry.point == Path::new(target.as_str())
        };
        let found = mounted.map(|ours| (ours, table.iter().find(|entry| is_ours(entry, ours))));
        let is_covered = |ours: u64| top(table, target.as_str()).is_some_and(|top| top.id != ours);
        match found {
            None if is_covered(0) => {
                return Err(Failure::new(format!("another program has mounted at `{target}`")));
            }
            None => {}
            Some((_, None)) => {
                let line = format!("another program unmounted `{target}`, it is mounted again");
                (change.is_lost, change.line) = (true, wanted.map(|_| line));
            }
            Some((ours, Some(_))) if is_covered(ours.id) => {
                return Err(Failure::new(format!("another program has mounted over `{target}`")));
            }
            Some((ours, Some(entry))) => {
                change.unmounts = wanted.is_none_or(|wanted| !is_changed_in_place(ours, wanted));
                let is_foreign = entry.options != ours.options;
                change.changes = is_foreign || wanted != Some(&ours.mount);
                let (found, options) = (&entry.options, &ours.options);
                let line = format!(
                    "another program changed `{target}` to `{found}`, it is `{options}` again"
                );
                change.line = (is_foreign && wanted == Some(&ours.mount)).then_some(line);
            }
        }
        Ok(change)
    }
}

/// Whether a mount becomes the other one without losing its contents.
fn is_changed_in_place(ours: &Mounted, wanted: &Mount) -> bool {
    match (ours.mount.source(), wanted.source()) {
        (MountSource::Tmpfs { name, .. }, MountSource::Tmpfs { name: other, .. }) => name == other,
        (one, other) => one == other,
    }
}

/// The mount that is on top at a path.
fn top<'a>(table: &'a [Entry], path: &str) -> Option<&'a Entry> {
    table.iter().rev().find(|entry| entry.point == Path::new(path))
}

/// The options in the kernel's table of the mount with this number. There are none if it is gone
/// already: the next comparison finds that.
fn options(id: u64) -> String {
    let table = kernel::table().unwrap_or_default();
    table.into_iter().find(|entry| entry.id == id).map(|entry| entry.options).unwrap_or_default()
}

/// Checks that nobody has mounted the file system of another machine over the folder to be shown,
/// so that looking it up waits for nobody.
fn check_source(table: &[Entry], mount: &Mount) -> Result<(), String> {
    let MountSource::Bind(source) = mount.source() else { return Ok(()) };
    let kind = top(table, source.as_str()).map(|entry| entry.kind.as_str());
    match kind {
        Some("ext4" | "tmpfs") => Ok(()),
        _ => Err(format!("`{source}` is not mounted by the image")),
    }
}

/// Reads the signed root's lists of paths for mounts. A list that is missing is empty.
pub fn lists() -> Outcome<Lists> {
    let read = |path: &str| match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read.explain(format_args!("read {path}")),
    };
    Ok(Lists { allowed: read(MOUNT_TARGETS)?, declared: read(WRITABLE_PATHS)? })
}

#[cfg(test)]
mod tests;
