//! The events of a watch: those at its beginning, and the changes after them.

use crate::history::{Change, History};
use crate::{Bookmark, Cookie, Error, Key, Kind, Query, Resource, Store};
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

/// The target of a watch.
#[derive(Clone, Debug)]
pub enum Target {
    /// One resource, which need not exist.
    Resource(Key),
    /// The resources of a kind that the query selects.
    Kind(Kind, Query),
}

impl Target {
    /// The kind whose changes are read.
    pub fn kind(&self) -> &Kind {
        match self {
            Target::Resource(key) => key.kind(),
            Target::Kind(kind, _) => kind,
        }
    }

    fn selects(&self, change: &Change) -> Option<Change> {
        match self {
            Target::Resource(key) => {
                (change.resource().content.key == *key).then(|| change.clone())
            }
            Target::Kind(_, query) => change.selected_by(query),
        }
    }
}

/// Where a watch begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// Now. The watch of one resource begins with its state.
    Now,
    /// Now, after all that the kind contains.
    Contents,
    /// With the last changes, as many as there are up to this number.
    Tail(NonZeroU32),
    /// After the change that had this bookmark.
    Bookmark(Bookmark),
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The resource is there when the watch begins.
    Present(Arc<Resource>),
    /// The watched resource does not exist when the watch begins.
    Absent(Key),
    /// All contents were reported; changes follow.
    Bootstrapped(Bookmark),
    /// The bookmark with which the watch begins.
    Begins(Bookmark),
    /// The resource changed.
    Changed(Change, Bookmark),
}

/// The place of a watch in the history of a kind.
#[derive(Debug)]
pub struct Cursor {
    target: Target,
    next: u64,
}

impl Cursor {
    /// The target of the watch.
    pub fn target(&self) -> &Target {
        &self.target
    }
}

/// A watch fell so far behind that the history has forgotten what it would read next.
#[derive(Debug, PartialEq, Eq)]
pub struct Overrun {
    kind: Kind,
    next: u64,
    end: u64,
}

impl fmt::Display for Overrun {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Overrun { kind, next, end } = self;
        write!(f, "buffer overrun: {kind} is at change {end}, and this watch at {next}")
    }
}

impl std::error::Error for Overrun {}

impl Store {
    /// Begins a watch: its first events, and the cursor with which to read those after. With
    /// `announced`, the watch of a kind also reports the bookmark with which it begins.
    pub fn watch(
        &self,
        target: Target,
        start: &Start,
        announced: bool,
    ) -> Result<(Vec<Event>, Cursor), Error> {
        let untouched = History::default();
        let history = self.history(target.kind()).unwrap_or(&untouched);
        let next = begin(self.cookie, history, &target, start)?;
        let bookmark = || Bookmark::new(self.cookie, next);
        let mut events = Vec::new();
        match (&target, start) {
            (Target::Resource(key), Start::Now) => events.push(match self.get(key) {
                Ok(resource) => Event::Present(resource),
                Err(_) => Event::Absent(key.clone()),
            }),
            (Target::Kind(kind, query), Start::Contents) => {
                events.extend(self.list(kind, query).map(Event::Present));
                events.push(Event::Bootstrapped(bookmark()));
            }
            _ => {}
        }
        if announced && matches!(target, Target::Kind(..)) {
            events.push(Event::Begins(bookmark()));
        }
        Ok((events, Cursor { target, next }))
    }

    /// The events that the watch has not read yet, up to about `max_bytes` of resources, but at
    /// least one if there is any.
    pub fn read(&self, cursor: &mut Cursor, max_bytes: usize) -> Result<Vec<Event>, Overrun> {
        let kind = cursor.target.kind();
        let Some(history) = self.history(kind) else { return Ok(Vec::new()) };
        let overrun = || Overrun { kind: kind.clone(), next: cursor.next, end: history.end() };
        let (mut events, mut bytes) = (Vec::new(), 0);
        let mut next = cursor.next;
        for (position, change) in history.since(next).ok_or_else(overrun)? {
            if bytes >= max_bytes {
                break;
            }
            next = position + 1;
            if let Some(change) = cursor.target.selects(change) {
                bytes += change.size();
                events.push(Event::Changed(change, Bookmark::new(self.cookie, next)));
            }
        }
        cursor.next = next;
        Ok(events)
    }
}

/// The position at which a watch begins.
fn begin(cookie: Cookie, history: &History, target: &Target, start: &Start) -> Result<u64, Error> {
    let positions = history.oldest_start()..=history.end();
    match start {
        Start::Now | Start::Contents => Ok(history.end()),
        Start::Tail(count) => Ok(tail(history, target, count.get() as usize)),
        Start::Bookmark(bookmark) => bookmark
            .position(cookie)
            .filter(|position| positions.contains(position))
            .ok_or(Error::InvalidBookmark),
    }
}

/// The position of the last changes: of the one resource, or of the whole kind, whatever the query
/// selects of them.
fn tail(history: &History, target: &Target, count: usize) -> u64 {
    let changes = history.since(history.oldest_start()).into_iter().flatten().rev();
    let counted = changes.filter(|(_, change)| match target {
        Target::Resource(_) => target.selects(change).is_some(),
        Target::Kind(..) => true,
    });
    counted.take(count).last().map_or(history.end(), |(position, _)| position)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::{LIMITS, NOW, content, key, kind, store};
    use crate::{IdQuery, Limits, Owner, Version};

    const ALL: usize = usize::MAX;

    fn all() -> Target {
        Target::Kind(kind(), Query::default())
    }

    fn create(store: &mut Store, id: &str) {
        store.create(content(id), Owner::default(), NOW).unwrap();
    }

    /// The events in short, and their last bookmark.
    fn short(events: &[Event]) -> (Vec<String>, Option<Bookmark>) {
        let name = |resource: &Resource| resource.content.key.id().to_owned();
        let mut last = None;
        let mut texts = Vec::new();
        for event in events {
            let (text, bookmark) = match event {
                Event::Present(resource) => (format!("={}", name(resource)), None),
                Event::Absent(key) => (format!("!{}", key.id()), None),
                Event::Bootstrapped(bookmark) => ("bootstrapped".into(), Some(bookmark)),
                Event::Begins(bookmark) => ("begins".into(), Some(bookmark)),
                Event::Changed(Change::Created(new), bookmark) => {
                    (format!("+{}", name(new)), Some(bookmark))
                }
                Event::Changed(Change::Updated { new, .. }, bookmark) => {
                    (format!("~{}", name(new)), Some(bookmark))
                }
                Event::Changed(Change::Destroyed(old), bookmark) => {
                    (format!("-{}", name(old)), Some(bookmark))
                }
            };
            last = bookmark.cloned().or(last);
            texts.push(text);
        }
        (texts, last)
    }

    /// Everything that a watch reports until it waits.
    fn seen(store: &Store, target: Target, start: Start) -> Vec<String> {
        let (mut events, mut cursor) = store.watch(target, &start, false).unwrap();
        events.extend(store.read(&mut cursor, ALL).unwrap());
        short(&events).0
    }

    #[test]
    fn the_watch_of_a_resource_begins_with_its_state() {
        let mut store = store();
        create(&mut store, "a");
        assert_eq!(seen(&store, Target::Resource(key("a")), Start::Now), ["=a"]);
        assert_eq!(seen(&store, Target::Resource(key("b")), Start::Now), ["!b"]);
        assert_eq!(seen(&store, all(), Start::Now), [""; 0]);
    }

    #[test]
    fn the_contents_of_a_kind_are_sorted_and_end_with_a_bookmark() {
        let mut store = store();
        for id in ["b", "c", "a"] {
            create(&mut store, id);
        }
        let (events, mut cursor) = store.watch(all(), &Start::Contents, true).unwrap();
        let (texts, bookmark) = short(&events);
        assert_eq!(texts, ["=a", "=b", "=c", "bootstrapped", "begins"]);
        create(&mut store, "d");
        assert_eq!(short(&store.read(&mut cursor, ALL).unwrap()).0, ["+d"]);
        assert_eq!(seen(&store, all(), Start::Bookmark(bookmark.unwrap())), ["+d"]);
    }

    #[test]
    fn a_bookmark_leads_behind_its_own_change() {
        let mut store = store();
        let (events, mut cursor) = store.watch(all(), &Start::Now, true).unwrap();
        let begins = short(&events).1.unwrap();
        create(&mut store, "a");
        let created = short(&store.read(&mut cursor, ALL).unwrap()).1.unwrap();
        store.destroy(&key("a"), &Owner::default()).unwrap();
        assert_eq!(seen(&store, all(), Start::Bookmark(begins)), ["+a", "-a"]);
        assert_eq!(seen(&store, all(), Start::Bookmark(created)), ["-a"]);
    }

    #[test]
    fn a_bookmark_from_the_future_or_of_another_process_is_invalid() {
        let mut store = store();
        create(&mut store, "a");
        let ours = Bookmark::new(store.cookie, 2);
        let theirs = Bookmark::new(Cookie(*b"another1"), 1);
        for bookmark in [ours, theirs, Bookmark::from_client(vec![])] {
            let refused = store.watch(all(), &Start::Bookmark(bookmark), false).unwrap_err();
            assert_eq!(refused, Error::InvalidBookmark);
        }
    }

    #[test]
    fn the_tail_of_a_resource_skips_the_others() {
        let mut store = store();
        for id in ["a", "b", "c"] {
            create(&mut store, id);
        }
        store.destroy(&key("a"), &Owner::default()).unwrap();
        let tail = |count| Start::Tail(NonZeroU32::new(count).unwrap());
        assert_eq!(seen(&store, Target::Resource(key("a")), tail(1)), ["-a"]);
        assert_eq!(seen(&store, Target::Resource(key("a")), tail(9)), ["+a", "-a"]);
        assert_eq!(seen(&store, all(), tail(2)), ["+c", "-a"]);
        let only_a = Query { id: Some(IdQuery::new("a").unwrap()), labels: vec![] };
        assert_eq!(seen(&store, Target::Kind(kind(), only_a), tail(2)), ["-a"]);
    }

    #[test]
    fn a_watch_that_is_too_slow_loses_its_place() {
        let mut store = store();
        let (_, mut cursor) = store.watch(all(), &Start::Now, false).unwrap();
        create(&mut store, "a");
        let mut version = Version::FIRST;
        for _ in 0..100 {
            let expected = crate::Expected { version: Some(version), ..Default::default() };
            version = store.update(content("a"), expected, NOW).unwrap().version;
        }
        let overrun = store.read(&mut cursor, ALL).unwrap_err();
        assert_eq!(
            overrun.to_string(),
            "buffer overrun: Routes.osbuild(system) is at change 101, and this watch at 0"
        );
    }

    #[test]
    fn a_read_stops_at_its_bytes_and_goes_on_from_there() {
        let mut store = store();
        let (_, mut cursor) = store.watch(all(), &Start::Now, false).unwrap();
        for id in ["a", "b", "c"] {
            create(&mut store, id);
        }
        assert_eq!(short(&store.read(&mut cursor, 1).unwrap()).0, ["+a"]);
        assert_eq!(short(&store.read(&mut cursor, ALL).unwrap()).0, ["+b", "+c"]);
        assert_eq!(store.read(&mut cursor, ALL), Ok(vec![]));
    }

    #[test]
    fn histories_stay_within_their_bytes_and_keep_the_newest_change() {
        let limits = Limits { history_bytes: 1, ..LIMITS };
        let mut store = Store::new(Cookie(*b"process1"), limits);
        let (_, mut cursor) = store.watch(all(), &Start::Now, false).unwrap();
        create(&mut store, "a");
        assert_eq!(short(&store.read(&mut cursor, ALL).unwrap()).0, ["+a"]);
        create(&mut store, "b");
        create(&mut store, "c");
        assert!(store.read(&mut cursor, ALL).is_err());
    }
}
