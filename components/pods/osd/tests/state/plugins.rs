//! Plugins: what their grants permit, and what wakes their controllers.

use crate::osd::{ANY_TYPE, Osd, channel, code, metadata};
use osbuild_cosi::engine::Plugin;
use osbuild_cosi::engine::engine_client::EngineClient;
use osbuild_cosi::resource::state_client::StateClient;
use osbuild_cosi::resource::{
    CreateRequest, DestroyOptions, DestroyRequest, GetRequest, ListRequest, Metadata, Resource,
    Spec, TeardownRequest,
};
use osbuild_cosi::runtime::controller_adapter_client::ControllerAdapterClient;
use osbuild_cosi::runtime::controller_runtime_client::ControllerRuntimeClient;
use osbuild_cosi::runtime::{
    ControllerInput, ControllerInputKind, ControllerOutput, ControllerOutputKind,
    QueueReconcileRequest, ReconcileEventsRequest, ReconcileEventsResponse,
    RegisterControllerRequest, RuntimeAddFinalizerRequest, RuntimeCreateRequest,
    RuntimeDestroyRequest, RuntimeGetRequest, RuntimeListRequest, RuntimeRemoveFinalizerRequest,
    RuntimeTeardownRequest, RuntimeUpdateRequest, RuntimeWatchForRequest, StartRequest,
    StopRequest, UpdateInputsRequest,
};
use osbuild_cosi::v1::configuration_client::ConfigurationClient;
use osbuild_cosi::v1::{ApplyRequest, ListGenerationsRequest, RestoreGenerationRequest};
use std::fmt::Debug;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tonic::transport::Channel;
use tonic::{Code, Response, Status, Streaming};

const GRANT: &str = "
type: PluginGrant
id: greeter
spec:
  inputs:
  - {namespace: system, type: Hostnames.osbuild, kind: strong}
  - {namespace: system, type: Resolvers.osbuild, id: dns, kind: weak}
  outputs:
  - type: Greetings.example
    singular: Greeting
    kind: exclusive
    columns: [{name: Greeting, jsonPath: '{.greeting}'}]
  - {type: Letters.example, singular: Letter, kind: shared}
";
const HOSTNAMES: &str = "Hostnames.osbuild";
const GREETINGS: &str = "Greetings.example";
const PLUGINS: &str = "plugins";

/// An `osd` that serves plugins.
struct Node {
    osd: Osd,
    plugins: TempDir,
}

/// A plugin on a connection of its own.
#[derive(Clone)]
struct Connected {
    channel: Channel,
    token: String,
}

impl Node {
    async fn start() -> Node {
        Node::start_with(&[]).await
    }

    async fn start_with(more: &[&str]) -> Node {
        let plugins = tempfile::tempdir().unwrap();
        let folder = plugins.path().display().to_string();
        let osd = Osd::start_with(&[&["--plugins", &folder], more].concat());
        let node = Node { osd, plugins };
        node.osd.client().await;
        node
    }

    /// A node that has the grant.
    async fn granted() -> Node {
        let node = Node::start().await;
        node.apply(GRANT).await.unwrap();
        node
    }

    async fn apply(&self, documents: &str) -> Result<(), Status> {
        let request = ApplyRequest { documents: documents.to_owned(), dry_run: false };
        let mut client = ConfigurationClient::new(self.osd.channel().await);
        client.apply(request).await.map(drop)
    }

    fn socket(&self, plugin: &str) -> PathBuf {
        self.plugins.path().join(plugin).join("socket")
    }

    async fn connect(&self) -> Connected {
        Connected { channel: channel(&self.socket("greeter")).await, token: String::new() }
    }

    /// The plugin with its controller.
    async fn registered(&self) -> Connected {
        let mut plugin = self.connect().await;
        plugin.register("greeter", inputs(), outputs()).await.unwrap();
        plugin
    }

    async fn state(&self) -> StateClient<Channel> {
        self.osd.client().await
    }

    /// The YAML of a resource, as soon as there is one that has the text.
    async fn yaml(&self, type_name: &str, id: &str, text: &str) -> String {
        let mut state = self.state().await;
        let mut last = String::new();
        for _ in 0..500 {
            let request = GetRequest {
                namespace: "system".to_owned(),
                r#type: type_name.to_owned(),
                id: id.to_owned(),
                options: None,
            };
            last = match state.get(request).await {
                Ok(found) => found.into_inner().resource.unwrap().spec.unwrap().yaml_spec,
                Err(status) => status.to_string(),
            };
            if last.contains(text) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{text} is not in {last}");
    }

    async fn definitions(&self) -> Vec<String> {
        self.ids("meta", "ResourceDefinitions.meta.cosi.dev").await
    }

    async fn ids(&self, namespace: &str, type_name: &str) -> Vec<String> {
        let request = ListRequest {
            namespace: namespace.to_owned(),
            r#type: type_name.to_owned(),
            options: None,
        };
        let mut found = self.state().await.list(request).await.unwrap().into_inner();
        let mut ids = Vec::new();
        while let Some(message) = found.message().await.unwrap() {
            ids.push(message.resource.unwrap().metadata.unwrap().id);
        }
        ids
    }

    async fn destroy(&self, type_name: &str, id: &str) -> Result<(), Status> {
        let request = DestroyRequest {
            namespace: "system".to_owned(),
            r#type: type_name.to_owned(),
            id: id.to_owned(),
            options: Some(DestroyOptions::default()),
        };
        self.state().await.destroy(request).await.map(drop)
    }
}

impl Connected {
    fn adapter(&self) -> ControllerAdapterClient<Channel> {
        ControllerAdapterClient::new(self.channel.clone())
    }

    fn runtime(&self) -> ControllerRuntimeClient<Channel> {
        ControllerRuntimeClient::new(self.channel.clone())
    }

    async fn register(
        &mut self,
        name: &str,
        inputs: Vec<ControllerInput>,
        outputs: Vec<ControllerOutput>,
    ) -> Result<(), Status> {
        let controller_name = name.to_owned();
        let request = RegisterControllerRequest { controller_name, inputs, outputs };
        let registered = self.runtime().register_controller(request).await?;
        self.token = registered.into_inner().controller_token;
        Ok(())
    }

    async fn events(&self) -> Streaming<ReconcileEventsResponse> {
        let request = ReconcileEventsRequest { controller_token: self.token.clone() };
        let mut events = self.adapter().reconcile_events(request).await.unwrap().into_inner();
        assert!(is_woken(&mut events).await, "a message comes at once");
        events
    }

    async fn create(&self, resource: Resource) -> Result<Resource, Status> {
        let (controller_token, resource) = (self.token.clone(), Some(resource));
        let request = RuntimeCreateRequest { controller_token, resource };
        Ok(self.adapter().create(request).await?.into_inner().resource.unwrap())
    }

    async fn update(&self, resource: Resource) -> Result<Resource, Status> {
        let (controller_token, new_resource) = (self.token.clone(), Some(resource));
        let request = RuntimeUpdateRequest { controller_token, new_resource };
        Ok(self.adapter().update(request).await?.into_inner().resource.unwrap())
    }

    async fn get(&self, namespace: &str, type_name: &str, id: &str) -> Result<Resource, Status> {
        let request = RuntimeGetRequest {
            controller_token: self.token.clone(),
            namespace: namespace.to_owned(),
            r#type: type_name.to_owned(),
            id: id.to_owned(),
        };
        Ok(self.adapter().get(request).await?.into_inner().resource.unwrap())
    }

    async fn list(&self, namespace: &str, type_name: &str) -> Result<usize, Status> {
        let request = RuntimeListRequest {
            controller_token: self.token.clone(),
            namespace: namespace.to_owned(),
            r#type: type_name.to_owned(),
            options: None,
        };
        let mut found = self.adapter().list(request).await?.into_inner();
        let mut count = 0;
        while found.message().await?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    async fn add_finalizer(&self, type_name: &str, id: &str) -> Result<(), Status> {
        let request = RuntimeAddFinalizerRequest {
            controller_token: self.token.clone(),
            namespace: "system".to_owned(),
            r#type: type_name.to_owned(),
            id: id.to_owned(),
            finalizers: vec!["greeter".to_owned()],
        };
        self.adapter().add_finalizer(request).await.map(drop)
    }

    async fn remove_finalizer(&self, type_name: &str, id: &str) -> Result<(), Status> {
        let request = RuntimeRemoveFinalizerRequest {
            controller_token: self.token.clone(),
            namespace: "system".to_owned(),
            r#type: type_name.to_owned(),
            id: id.to_owned(),
            finalizers: vec!["greeter".to_owned()],
        };
        self.adapter().remove_finalizer(request).await.map(drop)
    }
}

fn input(kind: ControllerInputKind, type_name: &str, id: Option<&str>) -> ControllerInput {
    ControllerInput {
        kind: kind.into(),
        namespace: "system".to_owned(),
        r#type: type_name.to_owned(),
        id: id.map(str::to_owned),
    }
}

fn inputs() -> Vec<ControllerInput> {
    vec![input(ControllerInputKind::Strong, HOSTNAMES, None)]
}

fn output(kind: ControllerOutputKind, type_name: &str) -> ControllerOutput {
    ControllerOutput { r#type: type_name.to_owned(), kind: kind.into() }
}

fn outputs() -> Vec<ControllerOutput> {
    vec![output(ControllerOutputKind::Exclusive, GREETINGS)]
}

fn resource(namespace: &str, type_name: &str, id: &str) -> Resource {
    let metadata = Metadata {
        namespace: namespace.to_owned(),
        r#type: type_name.to_owned(),
        id: id.to_owned(),
        version: "undefined".to_owned(),
        phase: "running".to_owned(),
        ..Metadata::default()
    };
    let spec = Spec { proto_spec: vec![], yaml_spec: "greeting: hello\n".to_owned() };
    Resource { metadata: Some(metadata), spec: Some(spec) }
}

fn greeting(id: &str) -> Resource {
    resource(PLUGINS, GREETINGS, id)
}

/// Whether a message comes in time.
async fn is_woken(events: &mut Streaming<ReconcileEventsResponse>) -> bool {
    let message = tokio::time::timeout(Duration::from_millis(500), events.message()).await;
    message.is_ok_and(|message| message.is_ok_and(|message| message.is_some()))
}

/// The end of what a connection has sent.
async fn end<T: Debug>(outcome: impl Future<Output = Result<T, Status>>) -> Option<Status> {
    tokio::time::timeout(Duration::from_secs(10), outcome).await.expect("it does not end").err()
}

fn answered<T>(outcome: Result<Response<T>, Status>) -> Code {
    outcome.err().map_or(Code::Ok, |status| status.code())
}

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
async fn changes_at_once_are_one_message_and_others_wake_nobody() {
    let node = Node::granted().await;
    let plugin = node.registered().await;
    let mut events = plugin.events().await;
    node.apply("{type: Resolver, id: dns, spec: {search: local}}").await.unwrap();
    assert!(!is_woken(&mut events).await);
    let mut adapter = plugin.adapter();
    for _ in 0..5 {
        let controller_token = plugin.token.clone();
        adapter.queue_reconcile(QueueReconcileRequest { controller_token }).await.unwrap();
    }
    let mut count = 0;
    while is_woken(&mut events).await {
        count += 1;
    }
    assert!((1..=4).contains(&count), "{count} messages");
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

/// The page for authors of plugins has the plugin, the grant and the commands that the check
/// `state API` runs.
#[test]
fn the_example_of_the_documentation_is_the_one_that_is_tested() {
    let page = include_str!("../../../../../builder/docs/plugins.md");
    for (language, example) in
        [("python", include_str!("../full_name.py")), ("yaml", include_str!("../full_name.yaml"))]
    {
        assert!(page.contains(&format!("```{language}\n{example}```\n")), "{language}");
    }
    let lines = include_str!("../full_name.py").lines().count();
    assert!(lines <= 50, "the example has {lines} lines");
}

#[test]
fn the_documentation_has_the_limits_of_plugins() {
    use pod_osd::plugins::limits;
    let page = include_str!("../../../../../builder/docs/plugins.md");
    for row in [
        format!("| {} plugins", limits::MAX_PLUGINS),
        format!("| {} inputs, {} outputs", limits::MAX_GRANTED_INPUTS, limits::MAX_GRANTED_OUTPUTS),
        format!("| {} connections of a plugin", limits::MAX_CONNECTIONS),
        format!("| {} calls at a time", limits::MAX_STREAMS),
        format!("| {} controllers of a plugin", limits::MAX_CONTROLLERS),
        format!("| {} KiB for a message", limits::MAX_MESSAGE >> 10),
        format!(
            "| {} resources of a plugin, {} KiB",
            limits::MAX_RESOURCES,
            limits::MAX_BYTES >> 10
        ),
        format!("| {} finalizers of a plugin", limits::MAX_FINALIZERS),
        format!("| {} calls a second", 1000 / limits::CALL_INTERVAL.as_millis()),
    ] {
        assert!(page.contains(&row), "{row}");
    }
}
