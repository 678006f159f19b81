//! The life of a grant, and of what its plugin has written.

use super::connected::{Connected, end, greeting, inputs, output, outputs, resource};
use super::node::{GRANT, GREETINGS, HOSTNAMES, Node, PLUGINS};
use crate::osd::{channel, code, metadata};
use osbuild_cosi::runtime::ControllerOutputKind;
use osbuild_cosi::v1::configuration_client::ConfigurationClient;
use osbuild_cosi::v1::{ListGenerationsRequest, RestoreGenerationRequest};
use std::time::Duration;
use tonic::Code;

#[tokio::test]
async fn what_a_plugin_writes_makes_no_generation_and_is_not_kept() {
    let kept = tempfile::tempdir().unwrap();
    let keep = kept.path().display().to_string();
    let mut node = Node::start_with(&["--keep", &keep]).await;
    node.apply(GRANT).await.unwrap();
    node.apply("{type: Hostname, id: a, spec: {hostname: edge-7}}").await.unwrap();
    let plugin = node.registered().await;
    plugin.add_finalizer(HOSTNAMES, "a").await.unwrap();
    plugin.create(greeting("a")).await.unwrap();
    node.apply("{type: Resolver, id: dns, spec: {search: local}}").await.unwrap();
    let mut configuration = ConfigurationClient::new(node.osd.channel().await);
    let found = configuration.list_generations(ListGenerationsRequest {}).await.unwrap();
    let newest = &found.into_inner().generations[0];
    let changed: Vec<_> = newest.changes.iter().map(|change| change.id.as_str()).collect();
    assert_eq!(changed, ["dns"]);

    let folder = node.plugins.path().display().to_string();
    node.osd.restart_with(&["--plugins", &folder, "--keep", &keep]);
    let plugin = node.registered().await;
    assert_eq!(plugin.list(PLUGINS, GREETINGS).await.unwrap(), 0);
    node.destroy(HOSTNAMES, "a").await.expect("its finalizer is not kept");
}

#[tokio::test]
async fn a_grant_comes_back_with_a_generation() {
    let node = Node::granted().await;
    let mut configuration = ConfigurationClient::new(node.osd.channel().await);
    node.destroy("PluginGrants.osbuild", "greeter").await.unwrap();
    let request = RestoreGenerationRequest { number: 2, dry_run: false };
    configuration.restore_generation(request).await.unwrap();
    node.registered().await;
}

#[tokio::test]
async fn the_end_of_a_grant_is_the_end_of_its_plugin() {
    let node = Node::granted().await;
    let plugin = node.registered().await;
    let mut events = plugin.events().await;
    plugin.create(greeting("a")).await.unwrap();
    node.apply("{type: Hostname, id: a, spec: {hostname: edge-7}}").await.unwrap();
    plugin.add_finalizer(HOSTNAMES, "a").await.unwrap();
    assert!(node.definitions().await.contains(&"greetings.example".to_owned()));
    node.destroy("PluginGrants.osbuild", "greeter").await.unwrap();
    while end(events.message()).await.is_none() {}
    assert!(end(plugin.list(PLUGINS, GREETINGS)).await.is_some());
    for _ in 0..100 {
        if !node.plugins.path().join("greeter").exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!node.plugins.path().join("greeter").exists());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(node.ids(PLUGINS, GREETINGS).await, [""; 0]);
    assert!(!node.definitions().await.contains(&"greetings.example".to_owned()));
    assert_eq!(node.ids("system", "ControllerStatuses.osbuild").await, [""; 0]);
    node.destroy(HOSTNAMES, "a").await.expect("its finalizer is gone");
}

#[tokio::test]
async fn what_a_plugin_has_written_is_not_held_beyond_its_grant() {
    let node = Node::granted().await;
    let plugin = node.registered().await;
    let mut held = greeting("a");
    metadata(&mut held).finalizers.push("greeter".to_owned());
    assert_eq!(code(plugin.create(held).await), Code::InvalidArgument);
    let mut created = plugin.create(greeting("a")).await.unwrap();
    metadata(&mut created).finalizers.push("greeter".to_owned());
    let mut updated = plugin.update(created).await.unwrap();
    assert_eq!(metadata(&mut updated).finalizers, [""; 0]);
    node.destroy("PluginGrants.osbuild", "greeter").await.unwrap();
    for _ in 0..100 {
        if node.ids(PLUGINS, GREETINGS).await.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the resources of the plugin are left");
}

#[tokio::test]
async fn a_changed_grant_ends_the_connection() {
    let node = Node::granted().await;
    let plugin = node.registered().await;
    let mut events = plugin.events().await;
    plugin.create(greeting("a")).await.unwrap();
    node.apply(&GRANT.replace("strong", "weak")).await.unwrap();
    while end(events.message()).await.is_none() {}
    let mut plugin = node.connect().await;
    assert_eq!(code(plugin.register("greeter", inputs(), outputs()).await), Code::PermissionDenied);
    plugin.register("greeter", vec![], outputs()).await.unwrap();
    assert_eq!(plugin.list(PLUGINS, GREETINGS).await.unwrap(), 1);
}

#[tokio::test]
async fn a_changed_grant_keeps_the_finalizers_of_its_strong_inputs() {
    let node = Node::granted().await;
    let plugin = node.registered().await;
    node.apply("{type: Hostname, id: a, spec: {hostname: edge-7}}").await.unwrap();
    plugin.add_finalizer(HOSTNAMES, "a").await.unwrap();
    let mut events = plugin.events().await;
    let shared = GRANT.replace("exclusive", "shared");
    node.apply(&shared).await.unwrap();
    while end(events.message()).await.is_none() {}
    assert_eq!(code(node.destroy(HOSTNAMES, "a").await), Code::FailedPrecondition);
    let mut plugin = node.connect().await;
    plugin.register("greeter", inputs(), vec![]).await.unwrap();
    let mut events = plugin.events().await;
    node.apply(&shared.replace("strong", "weak")).await.unwrap();
    while end(events.message()).await.is_none() {}
    node.destroy(HOSTNAMES, "a").await.expect("no right covers the finalizer any more");
}

#[tokio::test]
async fn a_setting_that_is_torn_down_takes_no_other_finalizer() {
    let node = Node::granted().await;
    let plugin = node.registered().await;
    node.apply("{type: Hostname, id: a, spec: {hostname: edge-7}}").await.unwrap();
    plugin.add_finalizer(HOSTNAMES, "a").await.unwrap();
    assert_eq!(code(node.destroy(HOSTNAMES, "a").await), Code::FailedPrecondition);
    node.tear_down(HOSTNAMES, "a").await.unwrap();
    plugin.add_finalizer(HOSTNAMES, "a").await.expect("it is there");
    plugin.remove_finalizer(HOSTNAMES, "a").await.unwrap();
    assert_eq!(code(plugin.add_finalizer(HOSTNAMES, "a").await), Code::FailedPrecondition);
}

#[tokio::test]
async fn types_of_two_grants_that_differ_only_in_case_leave_nothing_behind() {
    let node = Node::granted().await;
    let other = GRANT.replace("greeter", "other").replace("Greeting", "GreetIng");
    node.apply(&other).await.unwrap();
    let other_type = "GreetIngs.example";
    let mut plugin =
        Connected { channel: channel(&node.socket("other")).await, token: String::new() };
    let outputs = vec![output(ControllerOutputKind::Exclusive, other_type)];
    plugin.register("other", vec![], outputs).await.unwrap();
    plugin.create(resource(PLUGINS, other_type, "a")).await.unwrap();
    node.destroy("PluginGrants.osbuild", "other").await.unwrap();
    for _ in 0..100 {
        if node.ids(PLUGINS, other_type).await.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(node.ids(PLUGINS, other_type).await, [""; 0]);
    assert!(node.definitions().await.contains(&"greetings.example".to_owned()));
}
