//! The limits for clients.

use crate::osd::{Client, Osd, all, code, create, create_as, metadata, thing, update, watch};
use crate::remote::RemoteOsd;
use osbuild_cosi::resource::{
    EventType, IdQuery, LabelQuery, LabelTerm, Resource, WatchOptions, WatchRequest,
};
use osbuild_cosi::v1::ApplyRequest;
use osbuild_cosi::v1::configuration_client::ConfigurationClient;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tonic::body::Body;
use tonic::codegen::http::Request;
use tonic::{Code, Status};
use tower::{Service, ServiceExt};

/// A kernel parameter of nearly the greatest size.
fn large(id: &str) -> Resource {
    let mut resource = thing(id);
    resource.spec.as_mut().unwrap().proto_spec = vec![0; 1_000_000];
    resource
}

/// Writes a resource so often that the history forgets the first change.
async fn overrun(client: &mut Client) {
    let mut resource = create(client, large("a")).await.unwrap();
    for _ in 0..101 {
        resource = update(client, resource).await.unwrap();
    }
}

#[tokio::test]
async fn a_message_above_a_mebibyte_is_refused() {
    let osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    create(client, large("a")).await.unwrap();
    let mut larger = large("b");
    larger.spec.as_mut().unwrap().proto_spec.extend([0; 100_000]);
    assert_eq!(code(create(client, larger).await), Code::ResourceExhausted);
}

#[tokio::test]
async fn the_refusal_of_a_call_repeats_a_part_of_a_long_name() {
    let remote = RemoteOsd::start(&[]);
    let mut channel = remote.channel(&remote.identity("carol", "reader")).await.unwrap();
    let request = Request::post("/".to_owned() + &"{".repeat(10_000)).body(Body::empty()).unwrap();
    let response = channel.ready().await.unwrap().call(request).await.unwrap();
    let status = Status::from_header_map(response.headers()).unwrap();
    assert_eq!(status.code(), Code::PermissionDenied);
    assert!(status.message().starts_with("{{{"), "{status}");
    assert!(response.headers()[Status::GRPC_MESSAGE].len() <= 8 << 10);
}

#[tokio::test]
async fn one_connection_too_many_is_closed_at_once() {
    let osd = Osd::of_any_type();
    drop(osd.client().await);
    let mut open = Vec::new();
    let refused = loop {
        let mut stream = UnixStream::connect(osd.socket()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // A server of HTTP/2 sends its settings first.
        match stream.read(&mut [0; 64]) {
            Ok(0) | Err(_) => break open.len(),
            Ok(_) => open.push(stream),
        }
    };
    assert!((63..=64).contains(&refused), "{refused}: that of the client may not be closed yet");
    open.pop();
    // The server has to notice first that a connection is closed.
    for _ in 0..500 {
        if create(&mut osd.client().await, thing("a")).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no place is free again");
}

/// The memory limit of the pod's manifest.
pub const MEMORY_LIMIT: u64 = 64 << 20;

/// The most memory that the process has had, in bytes.
pub fn peak(osd: &mut Osd) -> u64 {
    let status = format!("/proc/{}/status", osd.process().id());
    let status = std::fs::read_to_string(status).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// The clients of the watches read nothing.
#[tokio::test]
async fn many_resources_and_watches_stay_within_the_memory_of_the_pod() {
    let mut osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    let mut resource = create(client, thing("0")).await.unwrap();
    for id in 1..10_000 {
        create(client, thing(&id.to_string())).await.unwrap();
    }
    let mut watches = Vec::new();
    for _ in 0..10 {
        let client = &mut osd.client().await;
        for _ in 0..100 {
            watches.push(watch(client, all(WatchOptions::default())).await.unwrap());
        }
    }
    for _ in 0..500 {
        resource = update(client, resource).await.unwrap();
    }
    let peak = peak(&mut osd);
    assert!(peak < MEMORY_LIMIT, "{} MiB", peak >> 20);
}

#[tokio::test]
async fn a_full_store_refuses_more() {
    let osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    let mut stored = 0;
    let refused = loop {
        match create(client, large(&stored.to_string())).await {
            Ok(_) => stored += 1,
            Err(status) => break status,
        }
    };
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(stored, 25, "24 MiB");
}

#[tokio::test]
async fn large_contents_come_in_messages_that_any_client_accepts() {
    let osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    for id in 0..8 {
        create(client, large(&id.to_string())).await.unwrap();
    }
    let together =
        WatchOptions { bootstrap_contents: true, aggregated: true, ..WatchOptions::default() };
    let mut stream = watch(client, all(together)).await.unwrap();
    let mut found = 0;
    loop {
        let events = stream.message().await.unwrap().unwrap().events().unwrap();
        if events.iter().any(|event| event.event_type() == EventType::Bootstrapped) {
            break;
        }
        found += events.len();
    }
    assert_eq!(found, 8);
}

#[tokio::test]
async fn a_slow_client_gets_an_error_event() {
    let osd = Osd::of_any_type();
    let mut stream = watch(&mut osd.client().await, all(WatchOptions::default())).await.unwrap();
    overrun(&mut osd.client().await).await;
    let mut last = None;
    while let Some(message) = stream.message().await.unwrap() {
        last = message.events().unwrap().pop();
    }
    let last = last.unwrap();
    assert_eq!(last.event_type(), EventType::Errored);
    assert!(last.error.unwrap().starts_with("buffer overrun: Things.example(system)"));
}

#[tokio::test]
async fn a_slow_client_that_knows_no_error_event_gets_a_status() {
    let osd = Osd::of_any_type();
    let old = WatchRequest { api_version: 0, ..all(WatchOptions::default()) };
    let mut stream = watch(&mut osd.client().await, old).await.unwrap();
    overrun(&mut osd.client().await).await;
    let status = loop {
        if let Err(status) = stream.message().await {
            break status;
        }
    };
    assert_eq!(status.code(), Code::Aborted);
}

#[tokio::test]
async fn a_watch_too_many_is_refused_until_another_ends() {
    let osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    let mut watches = Vec::new();
    for _ in 0..1024 {
        watches.push(watch(client, all(WatchOptions::default())).await.unwrap());
    }
    let refused = client.watch(all(WatchOptions::default())).await;
    assert_eq!(code(refused), Code::ResourceExhausted);
    watches.pop();
    while watch(client, all(WatchOptions::default())).await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_watch_keeps_no_long_text() {
    let osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    let pattern = Some(IdQuery { regexp: "(a|b)".repeat(1000) });
    let pattern = all(WatchOptions { id_query: pattern, ..WatchOptions::default() });
    assert_eq!(code(client.watch(pattern).await), Code::ResourceExhausted);
    let terms = |count| {
        let term = LabelTerm { key: "on".into(), ..LabelTerm::default() };
        let label_query = vec![LabelQuery { terms: vec![term; count] }];
        all(WatchOptions { label_query, ..WatchOptions::default() })
    };
    assert!(client.watch(terms(50)).await.is_ok());
    assert_eq!(code(client.watch(terms(100)).await), Code::ResourceExhausted);
    let named = WatchRequest { namespace: "a".repeat(2000), ..all(WatchOptions::default()) };
    assert_eq!(code(client.watch(named).await), Code::InvalidArgument);
}

#[tokio::test]
async fn a_huge_regular_expression_is_refused() {
    let osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    let query = |regexp: &str| {
        let id_query = Some(IdQuery { regexp: regexp.into() });
        all(WatchOptions { id_query, ..WatchOptions::default() })
    };
    assert_eq!(code(client.watch(query(r"\w{1000}")).await), Code::ResourceExhausted);
    let mut stream = watch(client, query("^b")).await.unwrap();
    create(client, thing("a")).await.unwrap();
    create(client, thing("b")).await.unwrap();
    let mut event = stream.message().await.unwrap().unwrap().events().unwrap().remove(0);
    assert_eq!(metadata(event.resource.as_mut().unwrap()).id, "b");
}

#[tokio::test]
async fn an_owner_has_a_short_name() {
    let osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    create_as(client, thing("a"), &"o".repeat(128)).await.unwrap();
    let refused = create_as(client, thing("b"), &"o".repeat(129)).await;
    assert_eq!(code(refused), Code::InvalidArgument);
}

#[tokio::test]
async fn a_resource_has_little_metadata() {
    let osd = Osd::of_any_type();
    let client = &mut osd.client().await;
    let annotated = |id: &str, length: usize| {
        let mut resource = thing(id);
        metadata(&mut resource).annotations = [("a".to_owned(), "b".repeat(length))].into();
        resource
    };
    let mut resource = create(client, annotated("a", 8191)).await.unwrap();
    assert_eq!(code(create(client, annotated("b", 8192)).await), Code::InvalidArgument);
    metadata(&mut resource).labels = [("c".to_owned(), String::new())].into();
    assert_eq!(code(update(client, resource).await), Code::InvalidArgument);
    let client = &mut ConfigurationClient::new(osd.channel().await);
    let mut apply = async |metadata: &str| {
        let documents =
            format!("{{type: Hostname, id: a, {metadata}, spec: {{hostname: edge-7}}}}");
        client.apply(ApplyRequest { documents, dry_run: false }).await
    };
    let long = "b".repeat(5000);
    apply(&format!("labels: {{a: {long}}}")).await.unwrap();
    let refused = apply(&format!("annotations: {{a: {long}}}")).await;
    assert_eq!(code(refused), Code::InvalidArgument, "the labels stay");
}
