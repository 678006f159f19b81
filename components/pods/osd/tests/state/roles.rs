//! Clients with roles that an administrator has defined.

use crate::kept::keep;
use crate::osd::{Client, NAMESPACE, all, code, create, metadata, thing, watch};
use crate::remote::{Identity, RemoteOsd};
use osbuild_cosi::resource::{
    DestroyRequest, GetRequest, ListRequest, Resource, Spec, UpdateRequest, WatchOptions,
    WatchRequest,
};
use osbuild_cosi::v1::configuration_client::ConfigurationClient;
use osbuild_cosi::v1::node_client::NodeClient;
use osbuild_cosi::v1::{
    ApplyRequest, BeginTryRequest, GetStatusRequest, ListGenerationsRequest,
    RestoreGenerationRequest,
};
use std::time::Duration;
use tokio::time::timeout;
use tonic::Code;
use tonic::transport::Channel;

const HELPDESK: &str = "{type: Role, id: helpdesk, spec: {resources: [\
    {verbs: [get, list, watch], types: [Resolvers.osbuild]}, \
    {verbs: [create, destroy], types: ['*']}], \
    calls: [osbuild.v1.Configuration/ListGenerations]}}";

fn resource(type_name: &str, yaml: &str) -> Resource {
    let mut sent = thing("a");
    metadata(&mut sent).r#type = type_name.into();
    Resource { spec: Some(Spec { proto_spec: vec![], yaml_spec: yaml.into() }), ..sent }
}

async fn apply(channel: Channel, documents: &str) -> Result<(), tonic::Status> {
    let request = ApplyRequest { documents: documents.into(), dry_run: false };
    ConfigurationClient::new(channel).apply(request).await.map(drop)
}

async fn list(client: &mut Client, namespace: &str, type_name: &str) -> Result<(), tonic::Status> {
    let (namespace, r#type) = (namespace.into(), type_name.into());
    client.list(ListRequest { namespace, r#type, options: None }).await.map(drop)
}

async fn destroy(client: &mut Client, type_name: &str, id: &str) -> Result<(), tonic::Status> {
    let (namespace, r#type, id) = (NAMESPACE.into(), type_name.into(), id.into());
    client.destroy(DestroyRequest { namespace, r#type, id, options: None }).await.map(drop)
}

/// Whether the client has any role.
async fn is_let_in(remote: &RemoteOsd, client: &Identity) -> bool {
    let Ok(channel) = remote.channel(client).await else { return false };
    list(&mut Client::new(channel), "meta", "Namespaces.meta.cosi.dev").await.is_ok()
}

fn of_type(type_name: &str) -> WatchRequest {
    WatchRequest { r#type: type_name.into(), ..all(WatchOptions::default()) }
}

#[tokio::test]
async fn a_role_of_ones_own_gives_what_it_names_and_no_more() {
    let remote = RemoteOsd::start(&[]);
    let [alice, bob] =
        [("alice", "admin"), ("bob", "helpdesk")].map(|(name, role)| remote.identity(name, role));
    assert!(!is_let_in(&remote, &bob).await, "there is no such role");
    remote.recorded("the certificate names no role", 1).await;
    apply(remote.channel(&alice).await.unwrap(), HELPDESK).await.unwrap();
    let client = &mut remote.state(&bob).await;
    create(client, resource("Resolvers.osbuild", "search: local\n")).await.unwrap();
    create(client, resource("KernelParameters.osbuild", "{key: vm.swappiness, value: 1}"))
        .await
        .unwrap();
    list(client, NAMESPACE, "Resolvers.osbuild").await.unwrap();
    list(client, "meta", "ResourceDefinitions.meta.cosi.dev").await.unwrap();
    watch(client, of_type("Resolvers.osbuild")).await.unwrap();
    let denied = Code::PermissionDenied;
    let hosts = "KernelParameters.osbuild";
    let (namespace, r#type, id) = (NAMESPACE.into(), hosts.into(), "a".into());
    let get = GetRequest { namespace, r#type, id, options: None };
    assert_eq!(code(client.get(get).await), denied);
    assert_eq!(code(list(client, NAMESPACE, hosts).await), denied);
    assert_eq!(code(client.watch(of_type(hosts)).await), denied);
    let resolver = "{type: Resolver, id: a, spec: {search: example.org}}";
    let channel = remote.channel(&bob).await.unwrap();
    assert_eq!(code(apply(channel.clone(), resolver).await), denied, "it has no `update`");
    apply(channel.clone(), "{type: Hostname, id: a, spec: {hostname: b}}").await.unwrap();
    destroy(client, hosts, "a").await.unwrap();
    let mut configuration = ConfigurationClient::new(channel.clone());
    configuration.list_generations(ListGenerationsRequest {}).await.unwrap();
    let begin = configuration.begin_try(BeginTryRequest { timeout_seconds: 9 }).await;
    assert_eq!(code(begin), denied);
    let status = NodeClient::new(channel.clone()).get_status(GetStatusRequest {}).await;
    assert_eq!(code(status), denied);
    remote.recorded("call: helpdesk \"bob\": osbuild.v1.Node/GetStatus: refused", 1).await;
}

#[tokio::test]
async fn a_role_that_may_update_and_not_destroy_cannot_tear_down() {
    let remote = RemoteOsd::start(&[]);
    let [alice, bob] =
        [("alice", "admin"), ("bob", "helpdesk")].map(|(name, role)| remote.identity(name, role));
    let documents = "{type: Role, id: helpdesk, spec: {resources: [\
                     {verbs: [get, update], types: ['*']}]}}\n---\n\
                     {type: Resolver, id: a, spec: {search: example.org}}";
    apply(remote.channel(&alice).await.unwrap(), documents).await.unwrap();
    let client = &mut remote.state(&bob).await;
    let (namespace, r#type, id) = (NAMESPACE.into(), "Resolvers.osbuild".into(), "a".into());
    let get = GetRequest { namespace, r#type, id, options: None };
    let found = client.get(get).await.unwrap().into_inner().resource.unwrap();
    for (phase, is_allowed) in [("tearingDown", false), ("running", true)] {
        let mut changed = found.clone();
        metadata(&mut changed).phase = phase.into();
        let request = UpdateRequest { new_resource: Some(changed), options: None };
        let updated = client.update(request).await;
        let is_denied = |refused: &tonic::Status| refused.code() == Code::PermissionDenied;
        assert_eq!(updated.is_ok(), is_allowed, "{phase}: {updated:?}");
        assert!(is_allowed || updated.as_ref().is_err_and(is_denied), "{phase}: {updated:?}");
    }
}

#[tokio::test]
async fn a_role_that_may_write_everything_gives_nobody_rights() {
    let remote = RemoteOsd::start(&[]);
    let [alice, bob] =
        [("alice", "admin"), ("bob", "helpdesk")].map(|(name, role)| remote.identity(name, role));
    apply(remote.channel(&alice).await.unwrap(), HELPDESK).await.unwrap();
    let channel = remote.channel(&bob).await.unwrap();
    for document in [
        "{type: Role, id: mine, spec: {resources: [{verbs: [get], types: ['*']}]}}",
        "{type: Revocation, id: a, spec: {user: alice}}",
        "{type: PluginGrant, id: a, spec: {}}",
    ] {
        assert_eq!(code(apply(channel.clone(), document).await), Code::PermissionDenied);
    }
    let gone = destroy(&mut Client::new(channel), "Roles.osbuild", "helpdesk").await;
    assert_eq!(code(gone), Code::PermissionDenied);
    let operator = remote.channel(&remote.identity("carol", "operator")).await.unwrap();
    assert_eq!(code(apply(operator, HELPDESK).await), Code::PermissionDenied);
    let admin = remote.channel(&alice).await.unwrap();
    for document in [
        "{type: Role, id: admin, spec: {}}",
        "{type: Role, id: a, spec: {calls: [osbuild.v1.Node/Explode]}}",
        "{type: Role, id: a, spec: {resources: [{verbs: [update], types: [Roles.osbuild]}]}}",
    ] {
        assert_eq!(code(apply(admin.clone(), document).await), Code::InvalidArgument, "{document}");
    }
}

#[tokio::test]
async fn a_changed_role_ends_connections_and_no_generation_brings_it_back() {
    let folder = tempfile::tempdir().unwrap();
    let [flag, value] = keep(folder.path());
    let arguments = [flag.as_str(), value.as_str()];
    let mut remote = RemoteOsd::start(&arguments);
    let [alice, bob] =
        [("alice", "admin"), ("bob", "helpdesk")].map(|(name, role)| remote.identity(name, role));
    let admin = remote.channel(&alice).await.unwrap();
    apply(admin.clone(), HELPDESK).await.unwrap();
    let mut before = remote.state(&bob).await;
    let mut events = watch(&mut before, of_type("Resolvers.osbuild")).await.unwrap();
    let narrower = "{type: Role, id: helpdesk, spec: {resources: [\
                    {verbs: [get], types: [Resolvers.osbuild]}]}}";
    apply(admin.clone(), narrower).await.unwrap();
    assert!(list(&mut before, NAMESPACE, "Resolvers.osbuild").await.is_err());
    let ended = timeout(Duration::from_secs(1), events.message()).await;
    assert!(ended.expect("the watch goes on").is_err());
    remote.recorded("its role has changed", 1).await;
    remote.restart(&arguments);
    let after = &mut remote.state(&bob).await;
    assert!(is_let_in(&remote, &bob).await);
    let refused = list(after, NAMESPACE, "Resolvers.osbuild").await;
    assert_eq!(code(refused), Code::PermissionDenied);

    let admin = remote.channel(&alice).await.unwrap();
    apply(admin.clone(), "{type: Hostname, id: a, spec: {hostname: b}}").await.unwrap();
    destroy(&mut Client::new(admin.clone()), "Roles.osbuild", "helpdesk").await.unwrap();
    let mut client = ConfigurationClient::new(admin);
    let all = client.list_generations(ListGenerationsRequest {}).await.unwrap().into_inner();
    let number = all.generations[1].number;
    let request = RestoreGenerationRequest { number, dry_run: false };
    client.restore_generation(request).await.unwrap();
    assert!(!is_let_in(&remote, &bob).await);
    remote.restart(&arguments);
    assert!(!is_let_in(&remote, &bob).await);
}
