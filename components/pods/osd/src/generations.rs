//! The generations of the settings: what they were after each change that is kept, and whose change
//! it was. There is no generation of what is only tried.

use crate::client_type::ClientType;
use crate::limits::{GENERATION_TIME, MAX_GENERATION_BYTES, MAX_GENERATIONS};
use osbuild_resources::{Content, Error, Expected, Key, Owner, Phase, Resource, Store};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

/// The settings after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Its number, which is never used again.
    pub number: u64,
    /// When its first change was made.
    pub time: SystemTime,
    /// The caller that made the changes.
    pub caller: String,
    /// All settings, without finalizers: these belong to controllers, which put them anew.
    pub settings: Vec<Arc<Resource>>,
}

/// The last generations, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Generations {
    all: VecDeque<Generation>,
    /// The number of the last one that there ever was.
    last: u64,
    /// Whether further writes can belong to the newest.
    is_open: bool,
}

/// A setting that two generations do not have in common, before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The resource.
    pub key: Key,
    /// Its content before, if there was one.
    pub before: Option<Content>,
    /// Its content after, if there is one.
    pub after: Option<Content>,
}

impl Generations {
    /// Those that another process has recorded, and the number of its last one.
    pub fn of_earlier(generations: Vec<Generation>, last: u64) -> Generations {
        let newest = generations.last().map_or(0, |newest| newest.number);
        Generations { all: generations.into(), last: last.max(newest), is_open: false }
    }

    /// The number of the last one that there ever was.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Records the settings as a generation, if they are others than those of the newest. No other
    /// generation makes room for one that does not fit by itself, so there is none of those.
    pub fn record(&mut self, caller: &str, now: SystemTime, settings: Vec<Arc<Resource>>) {
        let settings = without_finalizers(settings);
        if self.changes_with(&settings) && fit(&settings) {
            self.push(caller, now, settings);
            self.is_open = false;
        }
    }

    /// Records the settings after a write of one resource. The writes of a caller within a second
    /// are one generation, or none if the last of them undo the first.
    pub fn record_write(&mut self, caller: &str, now: SystemTime, settings: Vec<Arc<Resource>>) {
        let settings = without_finalizers(settings);
        if !self.changes_with(&settings) || !fit(&settings) {
            return;
        }
        let is_open = self.is_open;
        match self.all.back_mut().filter(|newest| is_open && newest.is_of(caller, now)) {
            Some(newest) => {
                newest.settings = settings;
                self.drop_oldest();
            }
            None => self.push(caller, now, settings),
        }
        self.is_open = true;
        if self.newest_changes_nothing() {
            self.all.pop_back();
            self.is_open = false;
        }
    }

    fn changes_with(&self, settings: &[Arc<Resource>]) -> bool {
        let newest = self.all.back();
        newest.is_none_or(|newest| !differences(&newest.settings, settings).is_empty())
    }

    fn newest_changes_nothing(&self) -> bool {
        let mut newest = self.all.iter().rev();
        match (newest.next(), newest.next()) {
            (Some(newest), Some(before)) => {
                differences(&before.settings, &newest.settings).is_empty()
            }
            _ => false,
        }
    }

    fn push(&mut self, caller: &str, time: SystemTime, settings: Vec<Arc<Resource>>) {
        self.last += 1;
        let number = self.last;
        self.all.push_back(Generation { number, time, caller: caller.to_owned(), settings });
        self.drop_oldest();
    }

    fn drop_oldest(&mut self) {
        while self.all.len() > MAX_GENERATIONS || self.bytes() > MAX_GENERATION_BYTES {
            self.all.pop_front();
        }
    }

    /// The generation with this number.
    pub fn get(&self, number: u64) -> Option<&Generation> {
        self.all.iter().find(|one| one.number == number)
    }

    /// All of them, the oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Generation> {
        self.all.iter()
    }

    /// All of them, the newest first, with what differs from the one before. Nothing is known to
    /// differ in the oldest.
    pub fn with_differences(&self) -> Vec<(&Generation, Vec<Difference>)> {
        let befores = std::iter::once(None).chain(self.all.iter().map(Some));
        let all = befores.zip(&self.all).map(|(before, generation)| {
            let differences = before
                .map(|before| differences(&before.settings, &generation.settings))
                .unwrap_or_default();
            (generation, differences)
        });
        let mut all: Vec<_> = all.collect();
        all.reverse();
        all
    }

    fn bytes(&self) -> usize {
        self.all.iter().map(|one| bytes(&one.settings)).sum()
    }
}

fn without_finalizers(settings: Vec<Arc<Resource>>) -> Vec<Arc<Resource>> {
    let without = |mut setting: Arc<Resource>| {
        if !setting.content.finalizers.is_empty() {
            Arc::make_mut(&mut setting).content.finalizers.clear();
        }
        setting
    };
    settings.into_iter().map(without).collect()
}

fn bytes(settings: &[Arc<Resource>]) -> usize {
    settings.iter().map(|setting| setting.size()).sum()
}

/// Whether there is room for a generation of these settings without any other.
fn fit(settings: &[Arc<Resource>]) -> bool {
    let fits = bytes(settings) <= MAX_GENERATION_BYTES;
    if !fits {
        eprintln!("note: there is no generation of settings above {MAX_GENERATION_BYTES} bytes");
    }
    fits
}

impl Generation {
    /// Whether a write by this caller can belong to it.
    fn is_of(&self, caller: &str, now: SystemTime) -> bool {
        let age = now.duration_since(self.time);
        self.caller == caller && age.is_ok_and(|age| age < GENERATION_TIME)
    }
}

/// Returns the differences between the settings before and after, in the order of their keys.
/// Versions, times and finalizers do not count: controllers own the finalizers, so a restored
/// generation keeps the current ones. Types that this release does not know do not count either: a
/// later release has recorded them, and the store keeps what it has of them.
pub fn differences(before: &[Arc<Resource>], after: &[Arc<Resource>]) -> Vec<Difference> {
    let mut all: BTreeMap<&Key, [Option<Content>; 2]> = BTreeMap::new();
    for (index, settings) in [before, after].into_iter().enumerate() {
        let known = settings.iter().filter(|one| is_setting(&one.content.key));
        for Resource { content, .. } in known.map(AsRef::as_ref) {
            let setting = Content { finalizers: BTreeSet::new(), ..content.clone() };
            all.entry(&content.key).or_default()[index] = Some(setting);
        }
    }
    let changed = all.into_iter().filter(|(_, [before, after])| before != after);
    let difference = |(key, [before, after]): (&Key, [Option<Content>; 2])| Difference {
        key: key.clone(),
        before,
        after,
    };
    changed.map(difference).collect()
}

/// The differences that restoring a generation makes. They leave alone what has an owner, now or in
/// the generation, and what is being torn down.
pub fn to_restore(
    store: &Store,
    now: &[Arc<Resource>],
    generation: &Generation,
) -> Vec<Difference> {
    let is_owned = |one: &Resource| one.owner != Owner::default();
    let of_owners: BTreeSet<&Key> = generation
        .settings
        .iter()
        .filter(|one| is_owned(one))
        .map(|one| &one.content.key)
        .collect();
    let mut differences = differences(now, &generation.settings);
    differences.retain(|Difference { key, .. }| {
        let found = store.get(key);
        let is_free =
            found.map_or(true, |found| !is_owned(&found) && found.content.phase == Phase::Running);
        is_free && !of_owners.contains(key)
    });
    differences
}

fn is_setting(key: &Key) -> bool {
    ClientType::of(key.kind()).is_some_and(ClientType::is_setting)
}

/// Changes exactly these settings, which belong to nobody. An error leaves some changed.
///
/// # Errors
/// A resource that has to go is held by finalizers, or there is no room for one.
pub fn carry_out(
    store: &mut Store,
    differences: &[Difference],
    now: SystemTime,
) -> Result<(), Error> {
    let nobody = Owner::default();
    for Difference { key, before, after } in differences {
        match (before, after) {
            (_, None) => store.destroy(key, &nobody)?,
            (None, Some(after)) => drop(store.create(after.clone(), nobody.clone(), now)?),
            (Some(_), Some(after)) => {
                let found = store.get(key)?;
                let finalizers = found.content.finalizers.clone();
                let (version, phase) = (Some(found.version), Some(Phase::Running));
                let expected = Expected { version, owner: nobody.clone(), phase };
                store.update(Content { finalizers, ..after.clone() }, expected, now)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_resources::{Kind, Spec, Version};
    use std::time::{Duration, UNIX_EPOCH};

    fn setting(id: &str, yaml: &str) -> Arc<Resource> {
        let key = Key::new(Kind::new("system", "Resolvers.osbuild").unwrap(), id).unwrap();
        let content = Content::new(key, Spec { yaml: yaml.to_owned(), ..Spec::default() });
        let (created, version) = (UNIX_EPOCH, Version::FIRST);
        Arc::new(Resource { content, version, owner: Owner::default(), created, updated: created })
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn numbers(generations: &Generations) -> Vec<u64> {
        generations.iter().map(|one| one.number).collect()
    }

    #[test]
    fn the_writes_of_one_caller_within_a_second_are_one_generation() {
        let mut generations = Generations::default();
        generations.record("osd", at(0), vec![]);
        generations.record_write("osd", at(0), vec![setting("a", "0")]);
        generations.record_write("alice", at(0), vec![setting("a", "1")]);
        generations.record_write("alice", at(0), vec![setting("a", "2")]);
        assert_eq!(numbers(&generations), [1, 2, 3]);
        generations.record_write("bob", at(0), vec![setting("a", "3")]);
        generations.record_write("bob", at(1), vec![setting("a", "4")]);
        assert_eq!(numbers(&generations), [1, 2, 3, 4, 5]);
        generations.record_write("bob", at(9), vec![setting("a", "4")]);
        assert_eq!(numbers(&generations).len(), 5, "nothing has changed");
        // The clock was set back.
        generations.record_write("bob", at(0), vec![]);
        assert_eq!(numbers(&generations).len(), 6);
        generations.record("bob", at(0), vec![setting("a", "5")]);
        generations.record("bob", at(0), vec![setting("a", "6")]);
        assert_eq!(numbers(&generations), [1, 2, 3, 4, 5, 6, 7, 8], "others are one each");
    }

    #[test]
    fn writes_that_undo_each_other_are_no_generation() {
        let mut generations = Generations::default();
        generations.record("osd", at(0), vec![]);
        generations.record_write("alice", at(0), vec![setting("a", "1")]);
        generations.record_write("alice", at(0), vec![]);
        assert_eq!(numbers(&generations), [1]);
        generations.record_write("alice", at(0), vec![setting("a", "1")]);
        generations.record_write("alice", at(5), vec![]);
        assert_eq!(numbers(&generations), [1, 3, 4]);
    }

    #[test]
    fn each_generation_knows_what_differs_from_the_one_before() {
        let mut generations = Generations::default();
        generations.record("osd", at(0), vec![setting("a", "1"), setting("b", "1")]);
        generations.record("osd", at(9), vec![setting("a", "2"), setting("c", "1")]);
        let all = generations.with_differences();
        let [(newest, differences), (oldest, none)] = &all[..] else { panic!("{all:?}") };
        assert_eq!((newest.number, oldest.number, none.len()), (2, 1, 0));
        let yaml = |content: &Option<Content>| content.as_ref().map(|one| one.spec.yaml.clone());
        let shown: Vec<_> = differences
            .iter()
            .map(|one| (one.key.id(), yaml(&one.before), yaml(&one.after)))
            .collect();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            shown,
            [("a", text("1"), text("2")), ("b", text("1"), None), ("c", None, text("1"))]
        );
    }

    #[test]
    fn the_oldest_generations_go() {
        let mut generations = Generations::default();
        for second in 0..30 {
            generations.record("osd", at(2 * second), vec![setting("a", &second.to_string())]);
        }
        assert_eq!(numbers(&generations), (11..=30).collect::<Vec<_>>());
        let large = "a".repeat(MAX_GENERATION_BYTES / 2);
        generations.record("osd", at(100), vec![setting("a", &large)]);
        generations.record("osd", at(200), vec![setting("b", &large)]);
        assert_eq!(numbers(&generations), [32]);
        let small = |id: &str| setting(id, &"a".repeat(MAX_GENERATION_BYTES / 8));
        generations.record_write("osd", at(300), vec![small("c")]);
        assert_eq!(numbers(&generations), [32, 33]);
        let grown = ["c", "d", "e", "f", "g"].map(small).to_vec();
        generations.record_write("osd", at(300), grown);
        assert_eq!(numbers(&generations), [33], "it has grown");
    }

    #[test]
    fn no_generation_goes_for_one_that_does_not_fit_by_itself() {
        let mut generations = Generations::default();
        generations.record("osd", at(0), vec![setting("a", "1")]);
        generations.record_write("osd", at(100), vec![setting("a", "2")]);
        let large = setting("b", &"a".repeat(MAX_GENERATION_BYTES));
        generations.record("osd", at(100), vec![large.clone()]);
        generations.record_write("osd", at(100), vec![large]);
        assert_eq!(numbers(&generations), [1, 2]);
        assert_eq!(generations.get(2).unwrap().settings, [setting("a", "2")]);
        generations.record("osd", at(400), vec![]);
        assert_eq!(numbers(&generations), [1, 2, 3]);
    }
}
