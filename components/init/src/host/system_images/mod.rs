//! The images that settings have the node keep. A child has containerd pull and pin them, and then
//! waits until one of them is not as it shall be. PID 1 decides when.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use osbuild_protocol::{
    MAX_REASON, MAX_SYSTEM_IMAGES, Observed, Refusal, RefusalCode, Setting, SettingName,
    SystemImage, SystemImageName, SystemImageState,
};
use osbuild_ranks::{Ranked, Source};

/// How long after a change the child starts: others may follow.
const PAUSE: Duration = Duration::from_millis(200);
/// How long to wait for the images that come with the node, which containerd has first.
const LOADING: Duration = Duration::from_secs(1);
/// How long to wait after a failure, and at most after many. A registry may be away for long.
const FIRST_RETRY: Duration = Duration::from_secs(10);
const MAX_RETRY: Duration = Duration::from_secs(300);
/// The least time between two children that pull, should another program remove an image again and
/// again.
const INTERVAL: Duration = Duration::from_secs(5);

/// The images with a value of any source, and those that containerd keeps.
#[derive(Default)]
pub struct SystemImages {
    values: BTreeMap<SystemImageName, Ranked<SystemImage>>,
    /// Those that it keeps, as the last child has reported.
    kept: BTreeMap<SystemImageName, SystemImageState>,
    /// Why it does not keep others.
    errors: BTreeMap<SystemImageName, String>,
    child: Option<Child>,
    /// Whether containerd may have other images than those that are wanted.
    is_stale: bool,
    /// When to start the next child, since boot.
    next: Option<Duration>,
    /// When the last one that pulls was started, since boot.
    asked_at: Duration,
    retry: Duration,
    /// Lines for the console.
    lines: Vec<String>,
}

/// The child that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Child {
    task: Task,
    /// Whether there was a change after its start, so that it has to end.
    is_outdated: bool,
}

/// The work of a child, which is its first argument. The names of images follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Has containerd keep these images and no others.
    Keep,
    /// Waits until it does not.
    Watch,
}

/// A line that a child has written about one image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// containerd had it, and keeps it.
    Kept(SystemImageName, SystemImageState),
    /// containerd has pulled it, and keeps it.
    Pulled(SystemImageName, SystemImageState),
    /// containerd does not have it, for this reason.
    Failed(SystemImageName, String),
    /// An image is not as it shall be any more.
    Changed,
}

impl SystemImages {
    /// Gives an image the value of `source`. `now` is the time since boot.
    ///
    /// # Errors
    /// There are too many.
    pub fn apply(
        &mut self,
        source: Source,
        image: &SystemImage,
        now: Duration,
    ) -> Result<(), Refusal> {
        let name = image.name();
        if !self.values.contains_key(name) && self.values.len() >= MAX_SYSTEM_IMAGES {
            let reason = format!("there are {MAX_SYSTEM_IMAGES} system images already");
            return Err(Refusal::new(RefusalCode::Failed, reason));
        }
        self.values.entry(name.clone()).or_default().set(source, Some(image.clone()));
        self.on_change(now);
        Ok(())
    }

    /// Withdraws the value of `source`. `now` is the time since boot.
    pub fn withdraw(&mut self, source: Source, name: &SystemImageName, now: Duration) {
        if let Some(values) = self.values.get_mut(name) {
            values.set(source, None);
        }
        self.values.retain(|_, values| values.effective().is_some());
        self.errors.retain(|name, _| self.values.contains_key(name));
        self.on_change(now);
    }

    fn on_change(&mut self, now: Duration) {
        self.child = self.child.map(|child| Child { is_outdated: true, ..child });
        (self.is_stale, self.retry) = (true, Duration::ZERO);
        self.next = Some(now + PAUSE);
    }

    /// When to start a child or print lines, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.next
    }

    /// The lines for the console.
    pub fn hold(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    /// Whether the child that runs has to end.
    pub fn has_to_end(&self) -> bool {
        self.child.is_some_and(|child| child.is_outdated)
    }

    /// The arguments of the child that must be started now, if there is one. It ends with
    /// [`Self::on_report`]. `has_own` says whether containerd has the node's own images.
    pub fn start(&mut self, has_own: bool, now: Duration) -> Option<Vec<String>> {
        self.next.filter(|next| *next <= now)?;
        // Another one starts when it has ended.
        self.next = None;
        if self.child.is_some() {
            return None;
        }
        if !has_own {
            self.next = Some(now + LOADING);
            return None;
        }
        let task = match self.is_stale {
            true => Task::Keep,
            false if self.values.is_empty() => return None,
            false => Task::Watch,
        };
        if task == Task::Keep {
            self.asked_at = now;
        }
        self.child = Some(Child { task, is_outdated: false });
        let names = self.values.keys().map(ToString::to_string);
        Some(std::iter::once(task.word().to_owned()).chain(names).collect())
    }

    /// The child has ended with this text, or could not be started. `now` is the time since boot.
    pub fn on_report(&mut self, succeeded: bool, text: &str, now: Duration) {
        let Some(child) = self.child.take() else { return };
        let lines: Vec<Line> = text.lines().filter_map(Line::parse).collect();
        match child.task {
            Task::Keep => self.on_kept(child, lines, succeeded, text),
            Task::Watch => self.is_stale |= !succeeded || lines.contains(&Line::Changed),
        }
        self.next = Some(match (child.is_outdated, self.retry) {
            (true, _) => now,
            (false, Duration::ZERO) if self.is_stale => now.max(self.asked_at + INTERVAL),
            (false, retry) => now + retry,
        });
    }

    fn on_kept(&mut self, child: Child, lines: Vec<Line>, succeeded: bool, text: &str) {
        let before = std::mem::take(&mut self.kept);
        let reported: BTreeSet<_> = lines.iter().filter_map(Line::name).cloned().collect();
        for line in lines {
            self.on_line(line, &before);
        }
        if child.is_outdated {
            return;
        }
        let reason = match (succeeded, text.lines().last()) {
            (false, Some(last)) if Line::parse(last).is_none() => last,
            _ => "its child was ended before it was done",
        };
        let missing: Vec<_> =
            self.values.keys().filter(|name| !reported.contains(name)).cloned().collect();
        missing.into_iter().for_each(|name| self.set_error(name, reason.to_owned()));
        let has_failed = !succeeded || !self.errors.is_empty();
        self.is_stale = has_failed;
        self.retry = match has_failed {
            true => (self.retry * 2).clamp(FIRST_RETRY, MAX_RETRY),
            false => Duration::ZERO,
        };
    }

    fn on_line(&mut self, line: Line, before: &BTreeMap<SystemImageName, SystemImageState>) {
        match line {
            Line::Pulled(name, state) => {
                self.lines.push(match before.contains_key(&name) {
                    true => {
                        format!("another program removed the image `{name}`, it is there again")
                    }
                    false => format!("pulled the image `{name}`"),
                });
                self.on_line(Line::Kept(name, state), before);
            }
            Line::Kept(name, state) => {
                self.errors.remove(&name);
                self.kept.insert(name, state);
            }
            Line::Failed(name, error) => self.set_error(name, error),
            Line::Changed => {}
        }
    }

    fn set_error(&mut self, name: SystemImageName, error: String) {
        if self.values.contains_key(&name) && self.errors.get(&name) != Some(&error) {
            self.lines.push(format!("the image `{name}` is not kept: {error}"));
            self.errors.insert(name, error);
        }
    }

    /// The images: what requests have set, and what containerd has.
    pub fn observe(&self) -> impl Iterator<Item = Observed> {
        self.values.iter().map(|(name, values)| Observed {
            name: SettingName::SystemImage(name.clone()),
            wanted: values.get(Source::Api).cloned().map(Setting::SystemImage),
            source: values.effective().map(|(source, _)| source),
            current: self.kept.get(name).map(ToString::to_string).unwrap_or_default(),
            error: self.errors.get(name).cloned().unwrap_or_default(),
        })
    }

    /// The images with the values of a source.
    pub fn of(&self, source: Source) -> impl Iterator<Item = SystemImage> {
        self.values.values().filter_map(move |values| values.get(source).cloned())
    }
}

impl Task {
    /// The task with this word.
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Keep, Self::Watch].into_iter().find(|task| task.word() == word)
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Watch => "watch",
        }
    }
}

impl Line {
    /// The line, without its end.
    pub fn encode(&self) -> String {
        match self {
            Self::Kept(name, state) => format!("kept {name} {state}"),
            Self::Pulled(name, state) => format!("pulled {name} {state}"),
            Self::Failed(name, error) => format!("failed {name} {}", error.replace('\n', " ")),
            Self::Changed => "changed".to_owned(),
        }
    }

    fn name(&self) -> Option<&SystemImageName> {
        match self {
            Self::Kept(name, _) | Self::Pulled(name, _) | Self::Failed(name, _) => Some(name),
            Self::Changed => None,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        if word == "changed" {
            return Some(Self::Changed);
        }
        let (name, rest) = rest.split_once(' ')?;
        let name = SystemImageName::parse(name).ok()?;
        match word {
            "kept" => Some(Self::Kept(name, SystemImageState::parse(rest)?)),
            "pulled" => Some(Self::Pulled(name, SystemImageState::parse(rest)?)),
            "failed" => {
                // A registry chooses parts of the text.
                let letters = rest.chars().filter(|one| (' '..='~').contains(one));
                Some(Self::Failed(name, letters.take(MAX_REASON).collect()))
            }
            _ => None,
        }
    }
}
