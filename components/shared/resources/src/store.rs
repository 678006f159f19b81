//! The store.

use crate::history::{Change, History};
use crate::{Content, Cookie, Error, Key, Kind, Limit, Owner, Phase, Query, Resource, Version};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

/// How much the store holds. Sizes are those of [`Resource::size`].
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Resources.
    pub resources: usize,
    /// Kinds that have, or had, a resource. Each keeps its history.
    pub kinds: usize,
    /// Bytes of all resources.
    pub bytes: usize,
    /// Bytes of all histories, beyond the last change of each kind.
    pub history_bytes: usize,
}

/// Room for resources. Sizes are those of [`Resource::size`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Resources.
    pub resources: usize,
    /// Bytes of them.
    pub bytes: usize,
}

/// The state that an update expects of the resource that it replaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// The version that the writer has read.
    pub version: Option<Version>,
    /// The owner, which the writer claims to be.
    pub owner: Owner,
    /// The phase, if it matters.
    pub phase: Option<Phase>,
}

/// All resources, in memory.
#[derive(Debug)]
pub struct Store {
    pub(crate) cookie: Cookie,
    limits: Limits,
    collections: BTreeMap<Kind, Collection>,
    /// The room that is taken by the kinds without room of their own.
    taken: Room,
}

/// The resources of a kind by identifier, and their last changes.
#[derive(Debug, Default)]
struct Collection {
    resources: BTreeMap<String, Arc<Resource>>,
    history: History,
    own: Option<OwnRoom>,
}

/// Room that no other kind takes.
#[derive(Debug)]
struct OwnRoom {
    limit: Room,
    taken: Room,
}

impl Store {
    /// An empty store.
    pub fn new(cookie: Cookie, limits: Limits) -> Store {
        Store { cookie, limits, collections: BTreeMap::new(), taken: Room::default() }
    }

    /// Gives a kind that has no resources yet room of its own. From then on its resources take
    /// nothing of the store's limits for resources, kinds and bytes, and the other kinds take
    /// nothing of its room. Histories stay common.
    pub fn set_apart(&mut self, kind: Kind, limit: Room) {
        let collection = self.collections.entry(kind).or_default();
        assert!(collection.resources.is_empty(), "room is given before it is taken");
        collection.own = Some(OwnRoom { limit, taken: Room::default() });
    }

    /// The resource.
    pub fn get(&self, key: &Key) -> Result<Arc<Resource>, Error> {
        let collection = self.collections.get(key.kind());
        let resource = collection.and_then(|collection| collection.resources.get(key.id()));
        resource.cloned().ok_or_else(|| Error::NotFound(key.clone()))
    }

    /// The resources of a kind that the query selects, sorted by identifier.
    pub fn list<'a>(
        &'a self,
        kind: &Kind,
        query: &'a Query,
    ) -> impl Iterator<Item = Arc<Resource>> + use<'a> {
        let collection = self.collections.get(kind).into_iter();
        let resources = collection.flat_map(|collection| collection.resources.values());
        resources.filter(|resource| query.matches(resource)).cloned()
    }

    /// All resources, sorted by kind and identifier.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.collections.values().flat_map(|collection| collection.resources.values())
    }

    /// Puts back a resource that an earlier store held, as it was there.
    pub fn restore(&mut self, resource: Resource) -> Result<(), Error> {
        if self.get(&resource.content.key).is_ok() {
            return Err(Error::AlreadyExists(resource.content.key));
        }
        self.put(None, &Arc::new(resource))
    }

    /// Gives the resources of a kind the content again that they had when `before` was read, of all
    /// owners. Those that are not among them are destroyed, also with finalizers. The others are as
    /// [`Store::taken_back`] says.
    pub fn take_back(
        &mut self,
        kind: &Kind,
        before: &[Arc<Resource>],
        now: SystemTime,
    ) -> Result<(), Error> {
        let query = Query::default();
        let found: Vec<_> = self.list(kind, &query).collect();
        for found in &found {
            let key = &found.content.key;
            match before.iter().find(|before| before.content.key == *key) {
                Some(before) => {
                    let finalizers = found.content.finalizers.clone();
                    let content = Content { finalizers, ..before.content.clone() };
                    if content != found.content {
                        self.replace(found, content, now)?;
                    }
                }
                None => self.remove(found),
            }
        }
        let is_found = |key: &Key| found.iter().any(|found| found.content.key == *key);
        let missing = before.iter().filter(|before| !is_found(&before.content.key));
        let missing: Vec<_> = missing.filter_map(|before| self.taken_back(before)).collect();
        missing.iter().try_for_each(|before| self.put(None, before))
    }

    /// A resource of before as [`Store::take_back`] leaves it: with the finalizers that it has now,
    /// which belong to those who put them. One that is gone had to lose all of them first, so it
    /// has none. Nothing is left of one that was being torn down and is gone: its end had begun
    /// before.
    pub fn taken_back(&self, before: &Arc<Resource>) -> Option<Arc<Resource>> {
        let found = self.get(&before.content.key).ok();
        if found.is_none() && before.content.phase == Phase::TearingDown {
            return None;
        }
        let finalizers = found.map(|found| found.content.finalizers.clone()).unwrap_or_default();
        if finalizers == before.content.finalizers {
            return Some(before.clone());
        }
        let content = Content { finalizers, ..before.content.clone() };
        Some(Arc::new(Resource { content, ..Resource::clone(before) }))
    }

    /// Creates a resource, which belongs to `owner` from then on.
    pub fn create(
        &mut self,
        content: Content,
        owner: Owner,
        now: SystemTime,
    ) -> Result<Arc<Resource>, Error> {
        if self.get(&content.key).is_ok() {
            return Err(Error::AlreadyExists(content.key));
        }
        let version = Version::FIRST;
        let created = Arc::new(Resource { content, version, owner, created: now, updated: now });
        self.put(None, &created)?;
        Ok(created)
    }

    /// Replaces the content of a resource.
    pub fn update(
        &mut self,
        content: Content,
        expected: Expected,
        now: SystemTime,
    ) -> Result<Arc<Resource>, Error> {
        let old = self.owned(&content.key, &expected.owner)?;
        let key = content.key.clone();
        if expected.version != Some(old.version) {
            let (expected, actual) = (expected.version, old.version);
            return Err(Error::VersionConflict { key, expected, actual });
        }
        match expected.phase {
            Some(phase) if phase != old.content.phase => Err(Error::PhaseConflict(key, phase)),
            _ => self.replace(&old, content, now),
        }
    }

    /// Has controllers undo what they did for a resource. Returns whether they are done.
    pub fn tear_down(&mut self, key: &Key, owner: &Owner, now: SystemTime) -> Result<bool, Error> {
        let old = self.owned(key, owner)?;
        if old.content.phase == Phase::Running {
            let content = Content { phase: Phase::TearingDown, ..old.content.clone() };
            self.replace(&old, content, now)?;
        }
        Ok(old.content.finalizers.is_empty())
    }

    /// Destroys a resource, which must have no finalizers.
    pub fn destroy(&mut self, key: &Key, owner: &Owner) -> Result<(), Error> {
        let old = self.owned(key, owner)?;
        if !old.content.finalizers.is_empty() {
            return Err(Error::PendingFinalizers(key.clone(), old.content.finalizers.clone()));
        }
        self.remove(&old);
        Ok(())
    }

    /// Has controllers undo what they did for a resource, and destroys it if there is nothing to
    /// undo. Returns whether it is destroyed.
    pub fn tear_down_and_destroy(
        &mut self,
        key: &Key,
        owner: &Owner,
        now: SystemTime,
    ) -> Result<bool, Error> {
        let is_ready = self.tear_down(key, owner, now)?;
        if is_ready {
            self.destroy(key, owner)?;
        }
        Ok(is_ready)
    }

    /// Destroys a resource, or has controllers undo what they did for it: then a later call
    /// destroys it.
    pub fn withdraw(&mut self, key: &Key, owner: &Owner, now: SystemTime) -> Result<(), Error> {
        match self.destroy(key, owner) {
            Err(Error::PendingFinalizers(..)) => self.tear_down(key, owner, now).map(drop),
            other => other,
        }
    }

    pub(crate) fn history(&self, kind: &Kind) -> Option<&History> {
        self.collections.get(kind).map(|collection| &collection.history)
    }

    /// The resource, if it belongs to `owner`.
    fn owned(&self, key: &Key, owner: &Owner) -> Result<Arc<Resource>, Error> {
        let resource = self.get(key)?;
        if resource.owner == *owner {
            Ok(resource)
        } else {
            Err(Error::Owned(key.clone(), resource.owner.clone()))
        }
    }

    fn replace(
        &mut self,
        old: &Arc<Resource>,
        content: Content,
        now: SystemTime,
    ) -> Result<Arc<Resource>, Error> {
        let Resource { version, owner, created, .. } = Resource::clone(old);
        let version = version.next();
        let new = Arc::new(Resource { content, version, owner, created, updated: now });
        self.put(Some(old), &new)?;
        Ok(new)
    }

    fn remove(&mut self, old: &Arc<Resource>) {
        let key = &old.content.key;
        if let Some(collection) = self.collections.get_mut(key.kind()) {
            collection.resources.remove(key.id());
            collection.history.push(Change::Destroyed(old.clone()));
            let taken = collection.own.as_mut().map_or(&mut self.taken, |own| &mut own.taken);
            taken.resources -= 1;
            taken.bytes -= old.size();
        }
        self.trim_histories();
    }

    /// Puts a resource in the place of `old`, if there is room for it.
    fn put(&mut self, old: Option<&Arc<Resource>>, new: &Arc<Resource>) -> Result<(), Error> {
        let key = &new.content.key;
        let (taken, limit) = self.room(key.kind());
        let bytes = taken.bytes + new.size() - old.map_or(0, |old| old.size());
        let is_new_kind = !self.collections.contains_key(key.kind());
        let limit = match old {
            None if taken.resources >= limit.resources => Some(Limit::Resources(limit.resources)),
            _ if is_new_kind && self.kinds() >= self.limits.kinds => {
                Some(Limit::Kinds(self.limits.kinds))
            }
            _ if bytes > limit.bytes && bytes > taken.bytes => Some(Limit::Bytes(limit.bytes)),
            _ => None,
        };
        if let Some(limit) = limit {
            return Err(Error::Exhausted(limit));
        }
        let collection = self.collections.entry(key.kind().clone()).or_default();
        collection.resources.insert(key.id().to_owned(), new.clone());
        collection.history.push(match old {
            Some(old) => Change::Updated { old: old.clone(), new: new.clone() },
            None => Change::Created(new.clone()),
        });
        let taken = collection.own.as_mut().map_or(&mut self.taken, |own| &mut own.taken);
        taken.resources += usize::from(old.is_none());
        taken.bytes = bytes;
        self.trim_histories();
        Ok(())
    }

    /// The taken part of the room for a kind, and that room.
    fn room(&self, kind: &Kind) -> (Room, Room) {
        let own = self.collections.get(kind).and_then(|collection| collection.own.as_ref());
        let Limits { resources, bytes, .. } = self.limits;
        own.map_or((self.taken, Room { resources, bytes }), |own| (own.taken, own.limit))
    }

    /// The kinds without room of their own.
    fn kinds(&self) -> usize {
        self.collections.values().filter(|collection| collection.own.is_none()).count()
    }

    /// Forgets the oldest changes of the largest history until all fit, except each one's last.
    fn trim_histories(&mut self) {
        let histories = || self.collections.values().map(|collection| &collection.history);
        let mut total: usize = histories().map(History::bytes).sum();
        while total > self.limits.history_bytes {
            let histories = self.collections.values_mut().map(|found| &mut found.history);
            let longer = histories.filter(|history| history.len() > 1);
            let Some(largest) = longer.max_by_key(|history| history.bytes()) else { return };
            total -= largest.bytes();
            largest.forget_oldest();
            total += largest.bytes();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Spec;
    use proptest::prelude::*;
    use std::time::{Duration, UNIX_EPOCH};

    pub const NOW: SystemTime = UNIX_EPOCH;
    pub const LIMITS: Limits =
        Limits { resources: 1000, kinds: 10, bytes: 1 << 20, history_bytes: 1 << 20 };

    pub fn store() -> Store {
        Store::new(Cookie(*b"process1"), LIMITS)
    }

    pub fn kind() -> Kind {
        Kind::new("system", "Routes.osbuild").unwrap()
    }

    pub fn key(id: &str) -> Key {
        Key::new(kind(), id).unwrap()
    }

    pub fn content(id: &str) -> Content {
        Content::new(key(id), Spec::default())
    }

    pub fn resource(id: &str) -> Resource {
        store().create(content(id), Owner::default(), NOW).unwrap().as_ref().clone()
    }

    fn owner(name: &str) -> Owner {
        Owner(name.into())
    }

    fn later(seconds: u64) -> SystemTime {
        NOW + Duration::from_secs(seconds)
    }

    fn version(number: u64) -> Option<Version> {
        Version::parse(&number.to_string()).unwrap()
    }

    #[test]
    fn a_created_resource_has_the_first_version_and_both_times() {
        let mut store = store();
        let created = store.create(content("a"), owner("me"), later(1)).unwrap();
        assert_eq!(Some(created.version), version(1));
        assert_eq!((&created.owner, created.created), (&owner("me"), later(1)));
        assert_eq!(created.updated, later(1));
        assert_eq!(store.get(&key("a")), Ok(created));
        assert_eq!(
            store.create(content("a"), owner("me"), NOW),
            Err(Error::AlreadyExists(key("a")))
        );
    }

    #[test]
    fn an_update_changes_the_content_and_the_version_alone() {
        let mut store = store();
        store.create(content("a"), owner("me"), later(1)).unwrap();
        let mut new = content("a");
        new.spec.yaml = "value: 1".into();
        let expected = Expected { version: version(1), owner: owner("me"), phase: None };
        let updated = store.update(new.clone(), expected, later(2)).unwrap();
        assert_eq!((Some(updated.version), &updated.content), (version(2), &new));
        assert_eq!((&updated.owner, updated.created), (&owner("me"), later(1)));
        assert_eq!(updated.updated, later(2));
    }

    #[test]
    fn what_is_taken_back_is_as_it_was_and_watches_see_it() {
        let mut store = store();
        let with = |id: &str, yaml: &str| {
            let spec = Spec { yaml: yaml.into(), ..Spec::default() };
            Content { spec, ..content(id) }
        };
        for id in ["changed", "destroyed", "same"] {
            let mut created = with(id, "old");
            created.finalizers.extend((id == "destroyed").then(|| "other".to_owned()));
            store.create(created, owner("me"), NOW).unwrap();
        }
        let mut ended = with("ended", "old");
        ended.phase = Phase::TearingDown;
        store.create(ended, owner("me"), NOW).unwrap();
        let before: Vec<_> = store.list(&kind(), &Query::default()).collect();
        let expected = Expected { version: version(1), owner: owner("me"), phase: None };
        let mut changed = with("changed", "new");
        changed.finalizers.insert("other".into());
        store.update(changed, expected.clone(), later(1)).unwrap();
        store.update(with("destroyed", "old"), expected, later(1)).unwrap();
        for id in ["destroyed", "ended"] {
            store.destroy(&key(id), &owner("me")).unwrap();
        }
        let mut created = with("created", "new");
        created.finalizers.insert("other".into());
        store.create(created, owner("you"), later(1)).unwrap();
        store.take_back(&kind(), &before, later(2)).unwrap();
        let after: Vec<_> = store.list(&kind(), &Query::default()).collect();
        let contents = |list: &[Arc<Resource>]| -> Vec<Content> {
            list.iter().map(|found| found.content.clone()).collect()
        };
        let mut expected = contents(&before);
        expected[0].finalizers.insert("other".into());
        expected[1].finalizers.clear();
        expected.retain(|content| content.phase == Phase::Running);
        assert_eq!(contents(&after), expected);
        let versions =
            ["changed", "destroyed", "same"].map(|id| store.get(&key(id)).unwrap().version);
        assert_eq!(versions.map(Some), [version(3), version(1), version(1)]);
        assert_eq!(store.history(&kind()).unwrap().len(), 12);
    }

    #[test]
    fn an_update_is_refused_for_the_first_of_four_reasons() {
        let mut store = store();
        let mut update = |expected| store.update(content("a"), expected, NOW).map(|_| ());
        let mut expected =
            Expected { version: None, owner: owner("you"), phase: Some(Phase::TearingDown) };
        assert_eq!(update(expected.clone()), Err(Error::NotFound(key("a"))));
        store.create(content("a"), owner("me"), NOW).unwrap();
        let mut update = |expected| store.update(content("a"), expected, NOW).map(|_| ());
        assert_eq!(update(expected.clone()), Err(Error::Owned(key("a"), owner("me"))));
        expected.owner = owner("me");
        let (key, actual) = (key("a"), Version::FIRST);
        assert_eq!(
            update(expected.clone()),
            Err(Error::VersionConflict { key: key.clone(), expected: None, actual })
        );
        expected.version = Some(actual);
        assert_eq!(update(expected.clone()), Err(Error::PhaseConflict(key, Phase::TearingDown)));
        expected.phase = Some(Phase::Running);
        assert_eq!(update(expected), Ok(()));
    }

    #[test]
    fn only_the_owner_tears_down_and_destroys() {
        let mut store = store();
        store.create(content("a"), owner("me"), NOW).unwrap();
        let refused = Err(Error::Owned(key("a"), owner("me")));
        assert_eq!(store.tear_down(&key("a"), &Owner::default(), NOW).map(|_| ()), refused);
        assert_eq!(store.destroy(&key("a"), &owner("you")), refused);
        assert_eq!(store.destroy(&key("a"), &owner("me")), Ok(()));
        assert_eq!(store.destroy(&key("a"), &owner("me")), Err(Error::NotFound(key("a"))));
    }

    #[test]
    fn a_resource_with_finalizers_is_not_ready_and_not_destroyed() {
        let mut store = store();
        let mut held = content("a");
        held.finalizers.insert("network".into());
        store.create(held.clone(), Owner::default(), NOW).unwrap();
        assert_eq!(store.tear_down(&key("a"), &Owner::default(), NOW), Ok(false));
        let torn = store.get(&key("a")).unwrap();
        assert_eq!((torn.content.phase, Some(torn.version)), (Phase::TearingDown, version(2)));
        assert_eq!(store.tear_down(&key("a"), &Owner::default(), NOW), Ok(false));
        assert_eq!(Some(store.get(&key("a")).unwrap().version), version(2), "no second change");
        assert_eq!(
            store.destroy(&key("a"), &Owner::default()),
            Err(Error::PendingFinalizers(key("a"), held.finalizers.clone()))
        );
        let released = Content { finalizers: Default::default(), ..torn.content.clone() };
        let expected = Expected { version: version(2), ..Expected::default() };
        store.update(released, expected, NOW).unwrap();
        assert_eq!(store.tear_down(&key("a"), &Owner::default(), NOW), Ok(true));
        assert_eq!(store.destroy(&key("a"), &Owner::default()), Ok(()));
    }

    #[test]
    fn a_resource_that_nobody_holds_is_torn_down_and_destroyed_at_once() {
        let mut store = store();
        let mut held = content("held");
        held.finalizers.insert("network".into());
        for content in [content("free"), held] {
            store.create(content, Owner::default(), NOW).unwrap();
        }
        let nobody = Owner::default();
        assert_eq!(store.tear_down_and_destroy(&key("free"), &nobody, NOW), Ok(true));
        assert_eq!(store.get(&key("free")), Err(Error::NotFound(key("free"))));
        assert_eq!(store.tear_down_and_destroy(&key("held"), &nobody, NOW), Ok(false));
        assert_eq!(store.get(&key("held")).unwrap().content.phase, Phase::TearingDown);
    }

    #[test]
    fn a_list_is_sorted_and_an_unknown_kind_is_empty() {
        let mut store = store();
        for id in ["b", "/a", "a"] {
            store.create(content(id), Owner::default(), NOW).unwrap();
        }
        let ids = |kind: &Kind| -> Vec<String> {
            let query = Query::default();
            store.list(kind, &query).map(|found| found.content.key.id().to_owned()).collect()
        };
        assert_eq!(ids(&kind()), ["/a", "a", "b"]);
        assert_eq!(ids(&Kind::new("other", "Routes.osbuild").unwrap()), [""; 0]);
    }

    #[test]
    fn a_full_store_refuses_more_and_takes_less() {
        let size = resource("a").size();
        let limits = |resources, kinds, sizes| Limits {
            resources,
            kinds,
            bytes: sizes * size,
            history_bytes: 0,
        };
        let elsewhere = Content::new(
            Key::new(Kind::new("runtime", "Routes.osbuild").unwrap(), "b").unwrap(),
            Spec::default(),
        );
        for (limits, content, limit) in [
            (limits(1, 9, 9), content("b"), Limit::Resources(1)),
            (limits(9, 1, 9), elsewhere, Limit::Kinds(1)),
            (limits(9, 9, 1), content("b"), Limit::Bytes(size)),
        ] {
            let mut store = Store::new(Cookie(*b"process1"), limits);
            store.create(self::content("a"), Owner::default(), NOW).unwrap();
            let mut create = || store.create(content.clone(), Owner::default(), NOW).map(|_| ());
            assert_eq!(create(), Err(Error::Exhausted(limit)));
            store.tear_down(&key("a"), &Owner::default(), NOW).unwrap();
            store.destroy(&key("a"), &Owner::default()).unwrap();
            let again = store.create(self::content("b"), Owner::default(), NOW);
            assert!(again.is_ok(), "{again:?}");
        }
    }

    #[test]
    fn a_kind_set_apart_and_the_others_take_nothing_of_each_others_room() {
        let size = resource("a").size();
        let limits = Limits { resources: 1, kinds: 1, bytes: size, history_bytes: 0 };
        let apart = Kind::new("system", "Things.osbuild").unwrap();
        let thing = |id| Content::new(Key::new(apart.clone(), id).unwrap(), Spec::default());
        for is_first in [true, false] {
            let mut store = Store::new(Cookie(*b"process1"), limits);
            store.set_apart(apart.clone(), Room { resources: 2, bytes: 9 * size });
            let mut create = |content| store.create(content, Owner::default(), NOW).map(|_| ());
            let fill_apart = |create: &mut dyn FnMut(Content) -> Result<(), Error>| {
                assert_eq!([create(thing("a")), create(thing("b"))], [Ok(()), Ok(())]);
                let refused = Err(Error::Exhausted(Limit::Resources(2)));
                assert_eq!(create(thing("c")), refused);
            };
            if is_first {
                fill_apart(&mut create);
            }
            assert_eq!(create(content("a")), Ok(()));
            assert_eq!(create(content("b")), Err(Error::Exhausted(Limit::Resources(1))));
            if !is_first {
                fill_apart(&mut create);
            }
        }
    }

    /// A call of a client, which may be wrong.
    #[derive(Clone, Debug)]
    enum Call {
        Create(u8, bool),
        Update(u8, u64, bool),
        TearDown(u8),
        Destroy(u8),
    }

    fn calls() -> impl Strategy<Value = Vec<Call>> {
        let call = prop_oneof![
            (0..4u8, any::<bool>()).prop_map(|(id, held)| Call::Create(id, held)),
            (0..4u8, 1..5u64, any::<bool>()).prop_map(|(id, v, held)| Call::Update(id, v, held)),
            (0..4u8).prop_map(Call::TearDown),
            (0..4u8).prop_map(Call::Destroy),
        ];
        prop::collection::vec(call, 0..60)
    }

    fn apply(store: &mut Store, call: &Call) -> Result<(), Error> {
        let content = |id: &u8, held: &bool| {
            let mut content = content(&id.to_string());
            content.finalizers.extend(held.then(|| "held".to_owned()));
            content
        };
        match call {
            Call::Create(id, held) => {
                store.create(content(id, held), Owner::default(), NOW).map(|_| ())
            }
            Call::Update(id, number, held) => {
                let expected = Expected { version: version(*number), ..Expected::default() };
                store.update(content(id, held), expected, NOW).map(|_| ())
            }
            Call::TearDown(id) => {
                store.tear_down(&key(&id.to_string()), &Owner::default(), NOW).map(|_| ())
            }
            Call::Destroy(id) => store.destroy(&key(&id.to_string()), &Owner::default()),
        }
    }

    proptest! {
        #[test]
        fn a_watch_that_applies_every_change_has_what_the_store_has(
            calls in calls(),
            apart in any::<bool>(),
        ) {
            let mut store = store();
            if apart {
                store.set_apart(kind(), Room { resources: 1000, bytes: 1 << 20 });
            }
            let target = crate::Target::Kind(kind(), Query::default());
            let (_, mut cursor) = store.watch(target, &crate::Start::Now, false).unwrap();
            let mut mirror = BTreeMap::new();
            for call in &calls {
                let refused = apply(&mut store, call).is_err();
                let events = store.read(&mut cursor, usize::MAX).unwrap();
                prop_assert!(!refused || events.is_empty(), "a refused call changes nothing");
                for event in events {
                    let crate::Event::Changed(change, _) = event else { unreachable!() };
                    let resource = change.resource().clone();
                    let id = resource.content.key.id().to_owned();
                    match change {
                        Change::Destroyed(_) => mirror.remove(&id),
                        _ => mirror.insert(id, resource),
                    };
                }
            }
            let listed: Vec<_> = store.list(&kind(), &Query::default()).collect();
            let size: usize = listed.iter().map(|resource| resource.size()).sum();
            let taken = if apart { store.room(&kind()).0 } else { store.taken };
            prop_assert_eq!(taken, Room { resources: listed.len(), bytes: size });
            prop_assert!(!apart || store.taken == Room::default());
            prop_assert_eq!(listed, mirror.into_values().collect::<Vec<_>>());
        }
    }
}
