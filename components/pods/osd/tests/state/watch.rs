//! Watches.

use crate::osd::{Client, Osd, all, code, create, metadata, thing, update, watch};
use osbuild_cosi::resource::label_term::Operation;
use osbuild_cosi::resource::{LabelQuery, LabelTerm, WatchOptions, WatchRequest, WatchResponse};
use tonic::{Code, Streaming};

/// The next message in short, with the bookmark of its last event.
async fn next(stream: &mut Streaming<WatchResponse>) -> (Vec<String>, Option<Vec<u8>>) {
    let events = stream.message().await.unwrap().unwrap().events().unwrap();
    let bookmark = events.last().unwrap().bookmark.clone();
    let short = events.into_iter().map(|event| {
        let name = event.event_type().as_str_name();
        let resource = event.resource.unwrap_or_default();
        assert!(resource.spec.is_some() || name == "ERRORED", "clients refuse this");
        let metadata = resource.metadata.unwrap_or_default();
        format!("{name} {}@{}", metadata.id, metadata.version)
    });
    (short.collect(), bookmark)
}

fn one(id: &str) -> WatchRequest {
    WatchRequest { id: Some(id.into()), ..all(WatchOptions::default()) }
}

fn contents() -> WatchOptions {
    WatchOptions { bootstrap_contents: true, ..WatchOptions::default() }
}

async fn create_all(client: &mut Client, ids: &[&str]) {
    for id in ids {
        create(client, thing(id)).await.unwrap();
    }
}

#[tokio::test]
async fn the_watch_of_one_resource_begins_with_its_state() {
    let osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    let mut stream = watch(client, one("a")).await.unwrap();
    assert_eq!(next(&mut stream).await.0, ["DESTROYED a@undefined"]);
    create_all(client, &["b", "a"]).await;
    assert_eq!(next(&mut stream).await.0, ["CREATED a@1"]);
    let mut stream = watch(client, one("b")).await.unwrap();
    assert_eq!(next(&mut stream).await.0, ["CREATED b@1"]);
}

#[tokio::test]
async fn the_watch_of_one_resource_has_no_contents_and_no_labels() {
    let osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    let labels = WatchOptions { label_query: vec![LabelQuery::default()], ..Default::default() };
    for options in [contents(), labels] {
        let request = WatchRequest { options: Some(options), ..one("a") };
        assert_eq!(code(client.watch(request).await), Code::Unimplemented);
    }
}

#[tokio::test]
async fn contents_come_before_a_bookmark_and_in_one_message_if_asked() {
    let osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    create_all(client, &["b", "a"]).await;
    let mut stream = watch(client, all(contents())).await.unwrap();
    for expected in ["CREATED a@1", "CREATED b@1", "BOOTSTRAPPED @undefined"] {
        assert_eq!(next(&mut stream).await.0, [expected]);
    }
    let together = WatchOptions { aggregated: true, bootstrap_bookmark: true, ..contents() };
    let mut stream = watch(client, all(together)).await.unwrap();
    let (events, bookmark) = next(&mut stream).await;
    assert_eq!(
        events,
        ["CREATED a@1", "CREATED b@1", "BOOTSTRAPPED @undefined", "NOOP @undefined"]
    );
    create_all(client, &["c"]).await;
    let later = WatchOptions { start_from_bookmark: bookmark, ..WatchOptions::default() };
    let mut stream = watch(client, all(later)).await.unwrap();
    assert_eq!(next(&mut stream).await.0, ["CREATED c@1"]);
}

#[tokio::test]
async fn an_old_client_gets_only_the_events_that_it_knows() {
    let osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    create_all(client, &["a"]).await;
    let request = WatchRequest { api_version: 0, ..all(contents()) };
    let mut stream = watch(client, request).await.unwrap();
    assert_eq!(next(&mut stream).await.0, ["CREATED a@1"]);
    create_all(client, &["b"]).await;
    assert_eq!(next(&mut stream).await.0, ["CREATED b@1"]);
}

#[tokio::test]
async fn a_resource_that_leaves_the_query_is_destroyed_for_the_watch() {
    let osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    let term = LabelTerm { key: "on".into(), op: Operation::Exists.into(), ..Default::default() };
    let query = LabelQuery { terms: vec![term] };
    let options = WatchOptions { label_query: vec![query], ..WatchOptions::default() };
    let mut stream = watch(client, all(options)).await.unwrap();
    let mut resource = create(client, thing("a")).await.unwrap();
    metadata(&mut resource).labels.insert("on".into(), "".into());
    let mut resource = update(client, resource).await.unwrap();
    assert_eq!(next(&mut stream).await.0, ["CREATED a@2"]);
    metadata(&mut resource).labels.clear();
    update(client, resource).await.unwrap();
    assert_eq!(next(&mut stream).await.0, ["DESTROYED a@3"]);
}

#[tokio::test]
async fn a_bookmark_of_a_former_process_and_two_beginnings_are_refused() {
    let mut osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    let mut stream = watch(client, all(contents())).await.unwrap();
    let (_, start_from_bookmark) = next(&mut stream).await;
    let later = WatchOptions { start_from_bookmark, ..WatchOptions::default() };
    watch(client, all(later.clone())).await.unwrap();
    let both = WatchOptions { tail_events: 1, ..later.clone() };
    assert_eq!(code(client.watch(all(both)).await), Code::InvalidArgument);
    osd.restart();
    let client = &mut osd.client().await;
    assert_eq!(code(client.watch(all(later)).await), Code::FailedPrecondition);
}

#[tokio::test]
async fn past_changes_come_first_if_asked() {
    let osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    create_all(client, &["a", "b", "c"]).await;
    let tail = |tail_events| WatchOptions { tail_events, ..WatchOptions::default() };
    let mut stream = watch(client, all(tail(2))).await.unwrap();
    assert_eq!(next(&mut stream).await.0, ["CREATED b@1"]);
    assert_eq!(next(&mut stream).await.0, ["CREATED c@1"]);
    let request = WatchRequest { options: Some(tail(5)), ..one("a") };
    let mut stream = watch(client, request).await.unwrap();
    assert_eq!(next(&mut stream).await.0, ["CREATED a@1"]);
}
