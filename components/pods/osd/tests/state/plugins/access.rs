//! The resources that a plugin may read and write.

use super::connected::{answered, greeting, input, is_woken, output, outputs, resource};
use super::node::{GREETINGS, HOSTNAMES, Node, PLUGINS};
use crate::osd::{channel, code, metadata};
use osbuild_cosi::resource::{CreateRequest, TeardownRequest};
use osbuild_cosi::runtime::{
    ControllerInputKind, ControllerOutputKind, RuntimeDestroyRequest, RuntimeTeardownRequest,
};
use tonic::Code;

#[tokio::test]
async fn a_plugin_reads_its_inputs_and_writes_its_outputs() {
    let node = Node::granted().await;
    let plugin = node.registered().await;
    let mut events = plugin.events().await;
    assert!(!is_woken(&mut events).await);
    node.apply("{type: Hostname, id: a, spec: {hostname: edge-7}}").await.unwrap();
    assert!(is_woken(&mut events).await);
    assert_eq!(plugin.list("system", HOSTNAMES).await.unwrap(), 1);
    plugin.get("system", HOSTNAMES, "a").await.unwrap();
    let mut created = plugin.create(greeting("a")).await.unwrap();
    assert_eq!(metadata(&mut created).owner, "greeter");
    assert_eq!(code(plugin.create(greeting("a")).await), Code::AlreadyExists);
    let mut updated = plugin.update(created.clone()).await.unwrap();
    assert_eq!(metadata(&mut updated).version, "2");
    assert_eq!(code(plugin.update(created).await), Code::FailedPrecondition);
    assert_eq!(node.ids(PLUGINS, GREETINGS).await, ["a"]);
}

#[tokio::test]
async fn a_plugin_does_not_take_the_name_of_another_one() {
    let node = Node::granted().await;
    for id in ["net", "net-tools", "greeter-of-others"] {
        node.apply(&format!("{{type: PluginGrant, id: {id}, spec: {{}}}}")).await.unwrap();
        channel(&node.socket(id)).await;
    }
    let mut plugin = node.connect().await;
    for name in ["net", "net/links", "net-tools.ping", "greeter-of-others"] {
        let refused = plugin.register(name, vec![], vec![]).await;
        assert_eq!(code(refused), Code::PermissionDenied, "{name}");
    }
    for name in ["greeter", "greeter-of-all", "network", "any"] {
        plugin.register(name, vec![], vec![]).await.unwrap();
    }
}

#[tokio::test]
async fn a_plugin_may_do_no_more_than_its_grant_and_its_registration() {
    let node = Node::granted().await;
    let mut plugin = node.connect().await;
    let hosts = |kind| vec![input(kind, HOSTNAMES, None)];
    use ControllerInputKind::{Strong, Weak};
    use ControllerOutputKind::{Exclusive, Shared};
    for (inputs, outputs) in [
        (vec![input(Weak, "Resolvers.osbuild", None)], vec![]),
        (vec![input(Strong, "Resolvers.osbuild", Some("dns"))], vec![]),
        (vec![input(Weak, "KernelParameters.osbuild", None)], vec![]),
        (vec![], vec![output(Exclusive, "Letters.example")]),
        (vec![], vec![output(Shared, HOSTNAMES)]),
        (vec![], vec![output(Shared, "Others.example")]),
    ] {
        assert_eq!(code(plugin.register("a", inputs, outputs).await), Code::PermissionDenied);
    }
    let twice = [hosts(Weak), hosts(Strong)].concat();
    assert_eq!(code(plugin.register("a", twice, vec![]).await), Code::InvalidArgument);
    assert_eq!(code(plugin.register("osd", vec![], vec![]).await), Code::InvalidArgument);
    plugin.register("a", hosts(Weak), outputs()).await.unwrap();
    assert_eq!(code(plugin.register("a", vec![], vec![]).await), Code::AlreadyExists);
    assert_eq!(code(plugin.register("b", vec![], outputs()).await), Code::AlreadyExists);
    node.apply("{type: Hostname, id: a, spec: {hostname: edge-7}}").await.unwrap();
    assert_eq!(code(plugin.list("system", "Resolvers.osbuild").await), Code::PermissionDenied);
    assert_eq!(code(plugin.get("system", "PluginGrants.osbuild", "greeter").await), {
        Code::PermissionDenied
    });
    for refused in [
        resource("system", HOSTNAMES, "b"),
        resource(PLUGINS, "Letters.example", "a"),
        resource("system", GREETINGS, "a"),
    ] {
        assert_eq!(code(plugin.create(refused).await), Code::PermissionDenied);
    }
    assert_eq!(code(plugin.add_finalizer(HOSTNAMES, "a").await), Code::PermissionDenied);
}

#[tokio::test]
async fn a_token_is_valid_on_the_connection_that_got_it_alone() {
    let node = Node::granted().await;
    let plugin = node.registered().await;
    let mut other = node.connect().await;
    assert_eq!(code(other.list(PLUGINS, GREETINGS).await), Code::InvalidArgument);
    other.token.clone_from(&plugin.token);
    assert_eq!(code(other.list(PLUGINS, GREETINGS).await), Code::InvalidArgument);
    assert_eq!(plugin.list(PLUGINS, GREETINGS).await.unwrap(), 0);
    assert_ne!(node.osd.socket(), node.socket("greeter"));
}

#[tokio::test]
async fn a_connection_takes_its_registration_along_and_leaves_the_resources() {
    let node = Node::granted().await;
    let plugin = node.registered().await;
    let created = plugin.create(greeting("a")).await.unwrap();
    node.yaml("ControllerStatuses.osbuild", "greeter", "connected: true").await;
    drop(plugin);
    node.yaml("ControllerStatuses.osbuild", "greeter", "connected: false").await;
    let plugin = node.registered().await;
    plugin.update(created).await.unwrap();
    node.yaml("ControllerStatuses.osbuild", "greeter", "connected: true").await;
}

#[tokio::test]
async fn nobody_else_writes_what_a_plugin_owns() {
    let node = Node::granted().await;
    let plugin = node.registered().await;
    plugin.create(greeting("a")).await.unwrap();
    let mut state = node.state().await;
    let create = CreateRequest { resource: Some(greeting("b")), options: None };
    assert_eq!(answered(state.create(create).await), Code::PermissionDenied);
    let teardown = TeardownRequest {
        namespace: PLUGINS.to_owned(),
        r#type: GREETINGS.to_owned(),
        id: "a".to_owned(),
        options: None,
    };
    assert_eq!(answered(state.teardown(teardown).await), Code::PermissionDenied);
    let destroy = |owner: Option<&str>| RuntimeDestroyRequest {
        controller_token: plugin.token.clone(),
        namespace: PLUGINS.to_owned(),
        r#type: GREETINGS.to_owned(),
        id: "a".to_owned(),
        options: Some(osbuild_cosi::runtime::Options { owner: owner.map(str::to_owned) }),
    };
    let mut adapter = plugin.adapter();
    assert_eq!(answered(adapter.destroy(destroy(Some("other"))).await), Code::PermissionDenied);
    let teardown = RuntimeTeardownRequest {
        controller_token: plugin.token.clone(),
        namespace: PLUGINS.to_owned(),
        r#type: GREETINGS.to_owned(),
        id: "a".to_owned(),
        options: None,
    };
    assert!(adapter.teardown(teardown).await.unwrap().into_inner().ready);
    assert_eq!(code(plugin.update(greeting("a")).await), Code::FailedPrecondition);
    adapter.destroy(destroy(None)).await.unwrap();
    assert_eq!(answered(adapter.destroy(destroy(None)).await), Code::NotFound);
}
