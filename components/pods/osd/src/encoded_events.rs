//! The last changes as the bytes of their events. All watches that report a change send the same
//! bytes, so it is encoded once.

use osbuild_resources::{Bookmark, Change};
use prost::bytes::Bytes;
use std::collections::VecDeque;
use std::mem::discriminant;
use std::sync::Arc;

/// Events that are held at most: more than a kind's history, so that watches behind one another
/// find them all.
const MAX_EVENTS: usize = 128;
/// The bytes of events that are held at most.
const MAX_BYTES: usize = 256 << 10;

/// The last events, the newest at the end.
#[derive(Default)]
pub struct EncodedEvents {
    events: VecDeque<Encoded>,
    bytes: usize,
}

struct Encoded {
    change: Change,
    bookmark: Bookmark,
    bytes: Bytes,
}

impl Encoded {
    /// Each write makes a resource of its own, so it is not compared. A query turns an update into
    /// another change of the same resource.
    fn is_of(&self, change: &Change, bookmark: &Bookmark) -> bool {
        Arc::ptr_eq(self.change.resource(), change.resource())
            && discriminant(&self.change) == discriminant(change)
            && self.bookmark == *bookmark
    }
}

impl EncodedEvents {
    /// The bytes of the event of this change, which `encode` makes if they are not held.
    pub fn of(
        &mut self,
        change: &Change,
        bookmark: &Bookmark,
        encode: impl FnOnce() -> Bytes,
    ) -> Bytes {
        if let Some(held) = self.events.iter().rev().find(|one| one.is_of(change, bookmark)) {
            return held.bytes.clone();
        }
        let bytes = encode();
        self.bytes += bytes.len();
        let (change, bookmark) = (change.clone(), bookmark.clone());
        self.events.push_back(Encoded { change, bookmark, bytes: bytes.clone() });
        while self.events.len() > MAX_EVENTS || self.bytes > MAX_BYTES {
            self.bytes -= self.events.pop_front().map_or(0, |oldest| oldest.bytes.len());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::STORE;
    use osbuild_resources::{Content, Cookie, Key, Kind, Owner, Resource, Spec, Store};
    use std::time::SystemTime;

    fn resource() -> Arc<Resource> {
        let kind = Kind::new("system", "Things.example").unwrap();
        let content = Content::new(Key::new(kind, "one").unwrap(), Spec::default());
        let mut store = Store::new(Cookie([0; 8]), STORE);
        store.create(content, Owner::default(), SystemTime::UNIX_EPOCH).unwrap()
    }

    fn bookmark(position: u8) -> Bookmark {
        Bookmark::from_client(vec![position])
    }

    #[test]
    fn each_change_is_encoded_once() {
        let mut events = EncodedEvents::default();
        let (new, old) = (resource(), resource());
        let updated = Change::Updated { old, new: new.clone() };
        let places = [
            (updated.clone(), bookmark(1)),
            // A query sees the same update as another change.
            (Change::Created(new.clone()), bookmark(1)),
            (updated, bookmark(2)),
            (Change::Created(resource()), bookmark(1)),
        ];
        for (number, (change, bookmark)) in places.iter().enumerate() {
            let bytes = Bytes::from(number.to_string());
            assert_eq!(events.of(change, bookmark, || bytes.clone()), bytes);
        }
        for (number, (change, bookmark)) in places.iter().enumerate() {
            let held = events.of(change, bookmark, || panic!("it is encoded again"));
            assert_eq!(held, number.to_string());
        }
    }

    #[test]
    fn many_and_large_events_are_not_held() {
        let mut events = EncodedEvents::default();
        let change = Change::Created(resource());
        for position in 0..=u8::MAX {
            events.of(&change, &bookmark(position), || Bytes::from_static(b"a"));
        }
        assert_eq!((events.events.len(), events.bytes), (MAX_EVENTS, MAX_EVENTS));
        let large = Bytes::from(vec![0; MAX_BYTES + 1]);
        assert_eq!(events.of(&change, &bookmark(0), || large.clone()), large);
        assert_eq!((events.events.len(), events.bytes), (0, 0));
    }
}
