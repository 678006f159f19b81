//! Plugins that fail: one that hangs, one that takes no messages, and one that crashes again and
//! again.

use super::connected::{Connected, greeting, input, inputs, is_woken, outputs};
use super::node::{GREETINGS, HOSTNAMES, Node, PLUGINS};
use crate::kept::get_of;
use crate::network::{MEMORY_LIMIT, WAIT, peak_memory};
use crate::osd::{Client, channel, metadata};
use osbuild_cosi::resource::TeardownAndDestroyRequest;
use osbuild_cosi::runtime::{ControllerInputKind, ReconcileEventsResponse};
use std::time::Duration;
use tokio::time::timeout;
use tonic::{Status, Streaming};

const HOSTNAME: &str = "{type: Hostname, id: a, spec: {hostname: edge-7}}";

/// Another plugin, which works and learns of host names.
async fn other(node: &Node) -> (Connected, Streaming<ReconcileEventsResponse>) {
    let grant = "{type: PluginGrant, id: other, spec: {inputs: [{namespace: system, \
                 type: Hostnames.osbuild, kind: weak}]}}";
    node.apply(grant).await.unwrap();
    let mut other =
        Connected { channel: channel(&node.socket("other")).await, token: String::new() };
    let inputs = vec![input(ControllerInputKind::Weak, HOSTNAMES, None)];
    other.register("other", inputs, vec![]).await.unwrap();
    let events = other.events().await;
    (other, events)
}

/// Deletes the host name once nothing holds it.
async fn delete_hostname(mut state: Client) {
    let request = TeardownAndDestroyRequest {
        namespace: "system".to_owned(),
        r#type: HOSTNAMES.to_owned(),
        id: "a".to_owned(),
        options: None,
    };
    let deletion = timeout(Duration::from_secs(10), state.teardown_and_destroy(request));
    deletion.await.expect("something holds it").unwrap();
}

#[tokio::test]
async fn a_plugin_that_hangs_holds_a_setting_until_an_admin_deletes_its_grant() {
    let node = Node::granted().await;
    let plugin = node.registered().await;
    let _untaken = plugin.events().await;
    node.apply(HOSTNAME).await.unwrap();
    plugin.add_finalizer(HOSTNAMES, "a").await.unwrap();
    let deletion = tokio::spawn(delete_hostname(node.state().await));
    tokio::time::sleep(WAIT).await;
    assert!(!deletion.is_finished());
    node.apply("{type: Resolver, id: dns, spec: {search: local}}").await.unwrap();
    node.destroy("PluginGrants.osbuild", "greeter").await.unwrap();
    deletion.await.unwrap();
    assert_eq!(node.ids("system", HOSTNAMES).await, [""; 0]);
}

#[tokio::test]
async fn a_plugin_that_takes_no_messages_delays_nobody_and_fills_no_memory() {
    let mut node = Node::granted().await;
    let plugin = node.registered().await;
    let mut untaken = plugin.events().await;
    let (_other, mut events) = other(&node).await;
    for number in 0..100 {
        let hostname = format!("{{type: Hostname, id: a, spec: {{hostname: edge-{number}}}}}");
        node.apply(&hostname).await.unwrap();
        assert!(is_woken(&mut events).await, "{number}");
    }
    plugin.get("system", HOSTNAMES, "a").await.unwrap();
    let memory = peak_memory(node.osd.process().id());
    assert!(memory < MEMORY_LIMIT, "{memory} KiB");
    assert!(is_woken(&mut untaken).await);
}

/// A plugin that has started again, whose old connections may not be closed yet.
async fn restarted(node: &Node, controller: &str) -> Connected {
    let start = async || -> Result<Connected, Status> {
        let mut plugin = node.connect().await;
        plugin.register(controller, vec![], vec![]).await?;
        plugin.register("greeter", inputs(), outputs()).await?;
        Ok(plugin)
    };
    for _ in 0..500 {
        if let Ok(plugin) = start().await {
            return plugin;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the plugin cannot register");
}

#[tokio::test]
async fn a_plugin_that_crashes_again_and_again_disturbs_nobody() {
    let node = Node::granted().await;
    let (_other, mut events) = other(&node).await;
    for round in 0..30 {
        let plugin = restarted(&node, &format!("greeter.{round}")).await;
        let hostname = format!("{{type: Hostname, id: a, spec: {{hostname: edge-{round}}}}}");
        node.apply(&hostname).await.unwrap();
        assert!(is_woken(&mut events).await, "{round}");
        plugin.add_finalizer(HOSTNAMES, "a").await.unwrap();
        let written = match plugin.get(PLUGINS, GREETINGS, "a").await {
            Ok(found) => plugin.update(found).await,
            Err(_) => plugin.create(greeting("a")).await,
        };
        written.unwrap();
    }
    assert_eq!(node.ids(PLUGINS, GREETINGS).await, ["a"]);
    let mut held = get_of(&mut node.state().await, HOSTNAMES, "a").await.unwrap();
    assert_eq!(metadata(&mut held).finalizers, ["greeter"]);
    let statuses = node.ids("system", "ControllerStatuses.osbuild").await;
    assert!(statuses.len() <= 1 + 8, "{statuses:?}");
    node.destroy("PluginGrants.osbuild", "greeter").await.unwrap();
    delete_hostname(node.state().await).await;
}
