//! The last changes of a kind.

use crate::{Query, Resource};
use std::collections::VecDeque;
use std::sync::Arc;

/// Changes that a history holds at most.
const CAPACITY: usize = 100;

/// Changes at the old end of a full history that no watch may begin with: it would lose its place
/// before it has read them.
const GAP: u64 = 5;

/// Something that happened to a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was created.
    Created(Arc<Resource>),
    /// It was written.
    Updated {
        /// The resource before.
        old: Arc<Resource>,
        /// The resource now.
        new: Arc<Resource>,
    },
    /// It was destroyed, and this was its last state.
    Destroyed(Arc<Resource>),
}

impl Change {
    /// The resource after the change.
    pub fn resource(&self) -> &Arc<Resource> {
        match self {
            Change::Created(resource) | Change::Destroyed(resource) => resource,
            Change::Updated { new, .. } => new,
        }
    }

    /// The memory of the resources in it, roughly.
    pub fn size(&self) -> usize {
        match self {
            Change::Created(resource) | Change::Destroyed(resource) => resource.size(),
            Change::Updated { old, new } => old.size() + new.size(),
        }
    }

    /// The change as a client sees it that knows only what the query selects: a resource that comes
    /// to match is created, one that ceases to match is destroyed.
    pub(crate) fn selected_by(&self, query: &Query) -> Option<Change> {
        let Change::Updated { old, new } = self else {
            return query.matches(self.resource()).then(|| self.clone());
        };
        match (query.matches(old), query.matches(new)) {
            (true, true) => Some(self.clone()),
            (true, false) => Some(Change::Destroyed(new.clone())),
            (false, true) => Some(Change::Created(new.clone())),
            (false, false) => None,
        }
    }
}

/// The last changes of a kind, each at a position. Positions begin with 0 and count all changes.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Position of the oldest change that is held.
    first: u64,
    changes: VecDeque<Change>,
    bytes: usize,
}

impl History {
    pub fn push(&mut self, change: Change) {
        if self.changes.len() == CAPACITY {
            self.forget_oldest();
        }
        self.bytes += change.size();
        self.changes.push_back(change);
    }

    pub fn forget_oldest(&mut self) {
        if let Some(change) = self.changes.pop_front() {
            self.bytes -= change.size();
            self.first += 1;
        }
    }

    /// The position of the next change.
    pub fn end(&self) -> u64 {
        self.first + self.changes.len() as u64
    }

    /// The oldest position at which a watch may begin.
    pub fn oldest_start(&self) -> u64 {
        if self.first == 0 { 0 } else { self.end().min(self.first + GAP) }
    }

    /// The changes from the position on, or `None` if some of them were forgotten.
    pub fn since(&self, position: u64) -> Option<impl DoubleEndedIterator<Item = (u64, &Change)>> {
        let skipped = usize::try_from(position.checked_sub(self.first)?).ok()?;
        let changes = self.changes.range(skipped.min(self.changes.len())..);
        Some(changes.enumerate().map(move |(index, change)| (position + index as u64, change)))
    }

    /// How many changes are held.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// The memory that they take, roughly.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::resource;
    use crate::{IdQuery, LabelQuery, LabelTerm, Test};

    fn created(id: &str) -> Change {
        Change::Created(Arc::new(resource(id)))
    }

    #[test]
    fn the_last_hundred_changes_keep_their_positions() {
        let mut history = History::default();
        for number in 0..=CAPACITY {
            history.push(created(&number.to_string()));
        }
        assert_eq!((history.len(), history.end(), history.oldest_start()), (100, 101, 6));
        assert!(history.since(0).is_none());
        let (position, change) = history.since(1).unwrap().next().unwrap();
        assert_eq!((position, change.resource().content.key.id()), (1, "1"));
        assert_eq!(history.since(101).unwrap().count(), 0);
    }

    #[test]
    fn the_bytes_of_a_history_are_those_of_its_changes() {
        let mut history = History::default();
        for _ in 0..150 {
            history.push(created("a"));
        }
        assert_eq!(history.bytes(), 100 * created("a").size());
        (0..100).for_each(|_| history.forget_oldest());
        assert_eq!((history.bytes(), history.end(), history.oldest_start()), (0, 150, 150));
    }

    #[test]
    fn a_resource_that_comes_to_match_is_created_and_one_that_ceases_is_destroyed() {
        let term = LabelTerm { key: "on".into(), test: Test::Exists, invert: false };
        let query = Query { id: None, labels: vec![LabelQuery(vec![term])] };
        let (off, mut on) = (resource("a"), resource("a"));
        on.content.labels.insert("on".into(), "".into());
        let (off, on) = (Arc::new(off), Arc::new(on));
        let seen = |old: &Arc<Resource>, new: &Arc<Resource>| {
            Change::Updated { old: old.clone(), new: new.clone() }.selected_by(&query)
        };
        assert_eq!(seen(&off, &on), Some(Change::Created(on.clone())));
        assert_eq!(seen(&on, &off), Some(Change::Destroyed(off.clone())));
        assert_eq!(seen(&off, &off), None);
        assert_eq!(seen(&on, &on), Some(Change::Updated { old: on.clone(), new: on }));
    }

    #[test]
    fn a_creation_outside_of_the_query_is_not_seen() {
        let query = Query { id: Some(IdQuery::new("^b").unwrap()), labels: vec![] };
        assert_eq!(created("a").selected_by(&query), None);
        assert_eq!(created("b").selected_by(&query), Some(created("b")));
    }
}
