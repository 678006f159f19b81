//! The streams of `Watch`.

use crate::access::{Caller, Verb};
use crate::limits::MAX_MESSAGE;
use crate::shared::SharedStore;
use crate::watch::Watch;
use crate::wire;
use futures_util::stream::unfold;
use osbuild_cosi::resource as proto;
use osbuild_resources::{Bookmark, Change, Event, Kind, Overrun, Start, Target};
use prost::Message as _;
use prost::bytes::Bytes;
use proto::{EventType, WatchOptions, WatchRequest, WatchResponse};
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use tokio_stream::Stream;
use tonic::Status;

/// The messages of a watch.
pub type Messages = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

/// The first version of the API whose clients know the events `BOOTSTRAPPED` and `ERRORED`.
const KNOWS_ALL_EVENTS: i32 = 1;

/// Bytes of the resources that a watch takes from the history at a time, roughly, if each of its
/// messages has one event.
const MAX_TAKEN: usize = 64 << 10;

/// Begins a watch. Its messages are made when the client takes them. Until then it keeps the events
/// that it has taken from the history, and their resources, in memory. A slow client loses its
/// place in the history for those after them.
pub fn open(
    store: &Arc<SharedStore>,
    caller: &Caller,
    request: WatchRequest,
) -> Result<Messages, Status> {
    let options = request.options.unwrap_or_default();
    let kind = wire::kind(&request.namespace, &request.r#type)?;
    caller.may(Verb::Watch, &kind)?;
    let start = start(&options)?;
    let (aggregated, announced) = (options.aggregated, options.bootstrap_bookmark);
    let target = match &request.id {
        Some(id) => {
            refuse_for_one(&options)?;
            Target::Resource(wire::key(&request.namespace, &request.r#type, id)?)
        }
        None => Target::Kind(kind.clone(), wire::query(options.label_query, options.id_query)?),
    };
    let (events, watch) = store.watch(caller, target, &start, announced)?;
    let knows_all_events = request.api_version >= KNOWS_ALL_EVENTS;
    let pending = events.into();
    let feed = Feed { kind, watch, pending, aggregated, knows_all_events };
    Ok(Box::pin(unfold(Next::Ready(feed), Next::message)))
}

/// The status of a watch that ends because its client was too slow.
pub fn lost(overrun: &Overrun) -> Status {
    Status::aborted(overrun.to_string())
}

/// Where the options have the watch begin.
fn start(options: &WatchOptions) -> Result<Start, Status> {
    let tail = u32::try_from(options.tail_events).ok().and_then(NonZeroU32::new);
    match (options.bootstrap_contents, tail, options.start_from_bookmark.clone()) {
        (false, None, None) => Ok(Start::Now),
        (true, None, None) => Ok(Start::Contents),
        (false, Some(count), None) => Ok(Start::Tail(count)),
        (false, None, Some(bytes)) => Ok(Start::Bookmark(Bookmark::from_client(bytes))),
        _ => Err(Status::invalid_argument(
            "a watch has at most one of bootstrap_contents, tail_events and start_from_bookmark",
        )),
    }
}

/// Refuses what only the watch of a kind does.
fn refuse_for_one(options: &WatchOptions) -> Result<(), Status> {
    let refused = match options {
        WatchOptions { bootstrap_contents: true, .. } => "bootstrap_contents",
        WatchOptions { label_query, .. } if !label_query.is_empty() => "label_query",
        _ => return Ok(()),
    };
    Err(Status::unimplemented(format!("the watch of one resource has no {refused}")))
}

/// The next message of a stream.
enum Next {
    /// An empty message: from here on no change is missed.
    Ready(Feed),
    /// Events.
    Events(Feed),
    /// Nothing more.
    End,
}

type Message = Result<WatchResponse, Status>;

impl Next {
    async fn message(self) -> Option<(Message, Next)> {
        match self {
            Next::Ready(feed) => Some((Ok(WatchResponse::default()), Next::Events(feed))),
            Next::Events(mut feed) => match feed.message().await {
                Ok(message) => Some((Ok(message), Next::Events(feed))),
                Err(overrun) => Some((feed.last_message(&overrun), Next::End)),
            },
            Next::End => None,
        }
    }
}

/// The events of a watch.
struct Feed {
    kind: Kind,
    watch: Watch,
    pending: VecDeque<Event>,
    aggregated: bool,
    knows_all_events: bool,
}

impl Feed {
    /// Waits for events, and returns the next message.
    async fn message(&mut self) -> Result<WatchResponse, Overrun> {
        loop {
            let message = self.pending_message();
            if !message.event.is_empty() {
                return Ok(message);
            }
            let max_bytes = if self.aggregated { MAX_MESSAGE } else { MAX_TAKEN };
            self.pending = self.watch.next(max_bytes).await?.into();
        }
    }

    /// A message with the first pending event, or with as many as fit if the client aggregates.
    fn pending_message(&mut self) -> WatchResponse {
        let mut message = WatchResponse::default();
        let mut bytes = 0;
        while let Some(event) = self.pending.pop_front() {
            bytes += size(&event);
            if self.knows_all_events || !matches!(event, Event::Bootstrapped(_)) {
                message.event.push(self.event(event));
            }
            if !message.event.is_empty() && (!self.aggregated || bytes >= MAX_MESSAGE) {
                break;
            }
        }
        message
    }

    /// The bytes of an event.
    fn event(&self, event: Event) -> Bytes {
        let marker = || wire::tombstone(&self.kind, "");
        let (event_type, resource, bookmark) = match event {
            Event::Changed(change, bookmark) => {
                return self.watch.encoded(&change, &bookmark, || changed(&change, &bookmark));
            }
            Event::Present(found) => (EventType::Created, wire::resource(&found), None),
            Event::Absent(key) => {
                (EventType::Destroyed, wire::tombstone(key.kind(), key.id()), None)
            }
            Event::Bootstrapped(bookmark) => (EventType::Bootstrapped, marker(), Some(bookmark)),
            Event::Begins(bookmark) => (EventType::Noop, marker(), Some(bookmark)),
        };
        encode(&proto::Event {
            resource: Some(resource),
            event_type: event_type.into(),
            bookmark: bookmark.map(Bookmark::into_bytes),
            ..proto::Event::default()
        })
    }

    /// The end of a watch whose client was too slow.
    fn last_message(&self, overrun: &Overrun) -> Message {
        if !self.knows_all_events {
            return Err(lost(overrun));
        }
        let event = proto::Event {
            event_type: EventType::Errored.into(),
            error: Some(overrun.to_string()),
            ..proto::Event::default()
        };
        Ok(WatchResponse { event: vec![encode(&event)] })
    }
}

/// The bytes of the event of a change.
fn changed(change: &Change, bookmark: &Bookmark) -> Bytes {
    let (event_type, old) = match change {
        Change::Created(_) => (EventType::Created, None),
        Change::Updated { old, .. } => (EventType::Updated, Some(wire::resource(old))),
        Change::Destroyed(_) => (EventType::Destroyed, None),
    };
    encode(&proto::Event {
        resource: Some(wire::resource(change.resource())),
        event_type: event_type.into(),
        old,
        bookmark: Some(bookmark.clone().into_bytes()),
        error: None,
    })
}

fn encode(event: &proto::Event) -> Bytes {
    event.encode_to_vec().into()
}

/// The bytes of the resources in an event, roughly.
fn size(event: &Event) -> usize {
    match event {
        Event::Present(found) => found.size(),
        Event::Changed(change, _) => change.size(),
        Event::Absent(_) | Event::Bootstrapped(_) | Event::Begins(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_resources::{Content, Key, Owner, Query, Spec};
    use std::time::UNIX_EPOCH;

    #[tokio::test]
    async fn a_watch_takes_a_few_events_at_a_time_unless_its_messages_have_many() {
        let store = Arc::new(SharedStore::new().unwrap());
        let kind = Kind::new("system", "Things.example").unwrap();
        let feed = |aggregated| {
            let target = Target::Kind(kind.clone(), Query::default());
            let begun = store.watch(&Caller::local(), target, &Start::Now, false);
            let (kind, (events, watch)) = (kind.clone(), begun.unwrap());
            Feed { kind, watch, pending: events.into(), aggregated, knows_all_events: true }
        };
        let mut feeds = [feed(false), feed(true)];
        for id in 0..10 {
            let spec = Spec { proto: vec![0; MAX_TAKEN / 2], ..Spec::default() };
            let content = Content::new(Key::new(kind.clone(), &id.to_string()).unwrap(), spec);
            let created =
                store.write(&kind, |store| store.create(content, Owner::default(), UNIX_EPOCH));
            created.unwrap();
        }
        let mut found = Vec::new();
        for feed in &mut feeds {
            found.push((feed.message().await.unwrap().event.len(), feed.pending.len()));
        }
        assert_eq!(found, [(1, 1), (10, 0)]);
    }
}
