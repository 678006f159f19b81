//! The limits for plugins, and the calls that a plugin may make.

use super::connected::{Connected, answered, end, greeting, inputs, output, resource};
use super::node::{GREETINGS, HOSTNAMES, Node, PLUGINS};
use crate::osd::{ANY_TYPE, channel, code};
use osbuild_cosi::engine::Plugin;
use osbuild_cosi::engine::engine_client::EngineClient;
use osbuild_cosi::resource::GetRequest;
use osbuild_cosi::resource::state_client::StateClient;
use osbuild_cosi::runtime::controller_runtime_client::ControllerRuntimeClient;
use osbuild_cosi::runtime::{
    ControllerOutputKind, RuntimeAddFinalizerRequest, StartRequest, StopRequest,
};
use std::process::Command;
use std::time::Duration;
use tonic::Code;

#[tokio::test]
async fn there_are_few_plugins() {
    let node = Node::start().await;
    let grant = |number| format!("{{type: PluginGrant, id: p{number}, spec: {{}}}}");
    let grants: Vec<String> = (0..16).map(grant).collect();
    node.apply(&grants.join("\n---\n")).await.unwrap();
    node.apply(&grant(0)).await.unwrap();
    assert_eq!(code(node.apply(&grant(16)).await), Code::ResourceExhausted);
    let refused = node.apply("{type: PluginGrant, id: ../a, spec: {}}").await;
    assert_eq!(code(refused), Code::InvalidArgument);
}

#[tokio::test]
async fn a_plugin_that_writes_and_calls_without_end_is_refused() {
    let node = Node::granted().await;
    let plugin = node.registered().await;
    let mut large = greeting("large");
    large.spec.as_mut().unwrap().proto_spec = vec![0; 70_000];
    assert_eq!(code(plugin.create(large).await), Code::ResourceExhausted);
    for number in 0..512 {
        plugin.create(greeting(&number.to_string())).await.unwrap();
    }
    let refused = plugin.create(greeting("more")).await.unwrap_err();
    assert!(refused.message().contains("at most 512 resources"), "{refused}");
    let too_fast = loop {
        if let Err(status) = plugin.get(PLUGINS, GREETINGS, "0").await {
            break status;
        }
    };
    assert_eq!(too_fast.code(), Code::ResourceExhausted);
    assert!(too_fast.message().contains("too often"), "{too_fast}");
    assert_eq!(node.ids(PLUGINS, GREETINGS).await.len(), 512, "others are not refused");
}

#[tokio::test]
async fn a_plugin_at_its_limit_of_finalizers_may_put_those_that_it_has_again() {
    let node = Node::granted().await;
    let plugin = node.registered().await;
    node.apply("{type: Hostname, id: a, spec: {hostname: edge-7}}").await.unwrap();
    let add = async |finalizers: Vec<String>| {
        let request = RuntimeAddFinalizerRequest {
            controller_token: plugin.token.clone(),
            namespace: "system".to_owned(),
            r#type: HOSTNAMES.to_owned(),
            id: "a".to_owned(),
            finalizers,
        };
        plugin.adapter().add_finalizer(request).await.map(drop)
    };
    let all: Vec<String> = (0..256).map(|number| number.to_string()).collect();
    add(all.clone()).await.unwrap();
    add(all).await.unwrap();
    add(vec!["7".to_owned()]).await.unwrap();
    assert_eq!(code(add(vec!["256".to_owned()]).await), Code::ResourceExhausted);
}

#[tokio::test]
async fn a_plugin_has_few_connections() {
    let node = Node::granted().await;
    let mut open = Vec::new();
    for _ in 0..2 {
        let plugin = node.connect().await;
        plugin.runtime().start(StartRequest {}).await.unwrap();
        open.push(plugin);
    }
    let one_more = node.connect().await;
    assert!(end(one_more.runtime().start(StartRequest {})).await.is_some());
    drop(open);
    tokio::time::sleep(Duration::from_millis(100)).await;
    node.registered().await;
}

#[tokio::test]
async fn a_plugin_begins_ends_and_introduces_itself_once() {
    let node = Node::granted().await;
    let plugin = node.registered().await;
    let mut runtime = plugin.runtime();
    assert_eq!(answered(runtime.stop(StopRequest {}).await), Code::FailedPrecondition);
    assert_eq!(answered(runtime.start(StartRequest {}).await), Code::Ok);
    assert_eq!(answered(runtime.start(StartRequest {}).await), Code::FailedPrecondition);
    assert_eq!(answered(runtime.stop(StopRequest {}).await), Code::Ok);
    assert_eq!(code(plugin.list(PLUGINS, GREETINGS).await), Code::InvalidArgument);
    let mut engine = EngineClient::new(plugin.channel.clone());
    let name = |name: &str| Plugin { name: name.to_owned() };
    assert_eq!(answered(engine.register(name("other")).await), Code::PermissionDenied);
    assert_eq!(answered(engine.register(name("greeter")).await), Code::Ok);
    assert_eq!(answered(engine.register(name("greeter")).await), Code::AlreadyExists);
}

#[tokio::test]
async fn the_socket_of_a_plugin_has_no_other_service() {
    let node = Node::granted().await;
    let plugin = node.connect().await;
    let mut state = StateClient::new(plugin.channel.clone());
    let request = GetRequest {
        namespace: "system".to_owned(),
        r#type: HOSTNAMES.to_owned(),
        id: "a".to_owned(),
        options: None,
    };
    assert_eq!(answered(state.get(request).await), Code::Unimplemented);
    let mut runtime = ControllerRuntimeClient::new(node.osd.channel().await);
    assert_eq!(answered(runtime.start(StartRequest {}).await), Code::Unimplemented);
}

#[tokio::test]
async fn a_plugin_that_may_do_everything_has_to_be_asked_for() {
    let node = Node::start_with(&[ANY_TYPE, "--test-plugin", "test"]).await;
    let mut plugin =
        Connected { channel: channel(&node.socket("test")).await, token: String::new() };
    let any = vec![output(ControllerOutputKind::Exclusive, "any/type")];
    plugin.register("any", inputs(), any).await.unwrap();
    plugin.create(resource("default", "any/type", "a")).await.unwrap();
    let refused = Command::new(env!("CARGO_BIN_EXE_osd"))
        .args(["--socket", "/nonexistent/socket", "--plugins", "/nonexistent"])
        .args(["--test-plugin", "test"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
}
