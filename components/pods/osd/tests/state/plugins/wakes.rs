//! The changes that wake a controller.

use super::connected::{answered, input, is_woken};
use super::node::Node;
use futures_util::future::join_all;
use osbuild_cosi::runtime::{ControllerInputKind, QueueReconcileRequest, UpdateInputsRequest};
use tonic::Code;

/// Calls of a plugin at one time: fewer than it may have.
const CALLS: usize = 12;

#[tokio::test]
async fn changes_at_once_are_one_message_and_others_wake_nobody() {
    let node = Node::granted().await;
    let plugin = node.registered().await;
    let mut events = plugin.events().await;
    node.apply("{type: Resolver, id: dns, spec: {search: local}}").await.unwrap();
    assert!(!is_woken(&mut events).await);
    let requests = (0..CALLS).map(|_| {
        let (mut adapter, controller_token) = (plugin.adapter(), plugin.token.clone());
        async move { adapter.queue_reconcile(QueueReconcileRequest { controller_token }).await }
    });
    let replies = join_all(requests).await;
    assert!(replies.iter().all(Result::is_ok), "{replies:?}");
    let mut count = 0;
    while is_woken(&mut events).await {
        count += 1;
    }
    assert!((1..CALLS).contains(&count), "{count} messages");
}

#[tokio::test]
async fn new_inputs_wake_the_controller_and_are_followed() {
    let node = Node::granted().await;
    let plugin = node.registered().await;
    let mut events = plugin.events().await;
    let update = |id| UpdateInputsRequest {
        controller_token: plugin.token.clone(),
        inputs: vec![input(ControllerInputKind::Weak, "Resolvers.osbuild", id)],
    };
    let mut adapter = plugin.adapter();
    assert_eq!(answered(adapter.update_inputs(update(None)).await), Code::PermissionDenied);
    assert_eq!(answered(adapter.update_inputs(update(Some("dns"))).await), Code::Ok);
    assert!(is_woken(&mut events).await);
    adapter.update_inputs(update(Some("dns"))).await.unwrap();
    node.apply("{type: Hostname, id: a, spec: {hostname: edge-7}}").await.unwrap();
    assert!(!is_woken(&mut events).await, "the old input is none any more");
    node.apply("{type: Resolver, id: dns, spec: {search: local}}").await.unwrap();
    assert!(is_woken(&mut events).await);
}
