//! Finalizers of plugins.

use super::node::{HOSTNAMES, Node};
use crate::kept::get_of;
use crate::osd::{code, metadata, update};
use osbuild_cosi::runtime::{RuntimeAddFinalizerRequest, RuntimeWatchForRequest};
use std::time::Duration;
use tonic::Code;

#[tokio::test]
async fn a_finalizer_holds_a_setting_until_its_plugin_lets_go() {
    let node = Node::granted().await;
    let plugin = node.registered().await;
    node.apply("{type: Hostname, id: a, spec: {hostname: edge-7}}").await.unwrap();
    plugin.add_finalizer(HOSTNAMES, "a").await.unwrap();
    assert_eq!(code(node.destroy(HOSTNAMES, "a").await), Code::FailedPrecondition);
    let wait = RuntimeWatchForRequest {
        controller_token: plugin.token.clone(),
        namespace: "system".to_owned(),
        r#type: HOSTNAMES.to_owned(),
        id: "a".to_owned(),
        finalizers_empty: Some(Default::default()),
    };
    let mut adapter = plugin.adapter();
    let waiting = tokio::spawn(async move { adapter.watch_for(wait).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished());
    plugin.remove_finalizer(HOSTNAMES, "a").await.unwrap();
    waiting.await.unwrap().unwrap();
    node.destroy(HOSTNAMES, "a").await.unwrap();
    plugin.remove_finalizer(HOSTNAMES, "a").await.unwrap();
    assert_eq!(code(plugin.add_finalizer(HOSTNAMES, "a").await), Code::NotFound);
}

#[tokio::test]
async fn finalizers_keep_no_setting_as_it_is() {
    let node = Node::granted().await;
    let plugin = node.registered().await;
    node.apply("{type: Hostname, id: a, spec: {hostname: edge-7}}").await.unwrap();
    let add = async |finalizer: String| {
        let request = RuntimeAddFinalizerRequest {
            controller_token: plugin.token.clone(),
            namespace: "system".to_owned(),
            r#type: HOSTNAMES.to_owned(),
            id: "a".to_owned(),
            finalizers: vec![finalizer],
        };
        plugin.adapter().add_finalizer(request).await
    };
    for number in 0..64 {
        add(format!("{number:0>128}")).await.unwrap();
    }
    assert_eq!(code(add("b".to_owned()).await), Code::ResourceExhausted);
    let labelled = "{type: Hostname, id: a, labels: {rack: '7'}, spec: {hostname: edge-8}}";
    node.apply(labelled).await.unwrap();
    let state = &mut node.state().await;
    let mut found = get_of(state, HOSTNAMES, "a").await.unwrap();
    metadata(&mut found).labels.insert("row".to_owned(), "1".to_owned());
    update(state, found).await.unwrap();
}
