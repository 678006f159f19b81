//! Pods that call with the tokens of their ServiceAccounts.

mod refused;
mod signer;

use crate::kept::keep;
use crate::osd::{Client, NAMESPACE, TYPE, all, code, create, metadata, thing};
use crate::remote::RemoteOsd;
use osbuild_cosi::resource::{
    CreateRequest, DestroyRequest, GetRequest, Resource, Spec, WatchOptions, WatchResponse,
};
use osbuild_cosi::v1::ApplyRequest;
use osbuild_cosi::v1::configuration_client::ConfigurationClient;
use serde_json::json;
use signer::{ISSUER, NODE, Signer};
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Status, Streaming};

/// How long a change may take to end a connection.
const SECOND: Duration = Duration::from_secs(1);

/// A node with the name of [`NODE`] in its cluster.
const OF_NODE: [&str; 2] = ["--node", NODE];

/// A request with a token.
pub fn with<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let value = MetadataValue::try_from(format!("Bearer {token}")).unwrap();
    request.metadata_mut().insert("authorization", value);
    request
}

/// A resource of the issuer of the tests, with these keys.
pub fn issuer(keys: &str, bindings: &[(&str, &str)]) -> Resource {
    let bindings: Vec<_> = bindings
        .iter()
        .map(|(account, role)| {
            json!({ "namespace": "fleet", "serviceAccount": account, "role": role })
        })
        .collect();
    let spec = json!({ "issuer": ISSUER, "publicKeys": keys, "bindings": bindings });
    let mut sent = thing("cluster");
    metadata(&mut sent).r#type = "TokenIssuers.osbuild".into();
    Resource { spec: Some(Spec { proto_spec: vec![], yaml_spec: spec.to_string() }), ..sent }
}

/// An `osd` that accepts tokens of these ServiceAccounts with these roles.
pub async fn accepting(signer: &Signer, bindings: &[(&str, &str)]) -> RemoteOsd {
    let remote = RemoteOsd::start(&OF_NODE);
    let issuer = issuer(&signer.pem("ec"), bindings);
    create(&mut remote.osd.client().await, issuer).await.unwrap();
    remote
}

pub async fn get(client: &mut Client, token: &str) -> Result<(), Status> {
    match client.get(with(token, get_request())).await {
        Err(status) if status.code() != Code::NotFound => Err(status),
        _ => Ok(()),
    }
}

async fn put(client: &mut Client, token: &str, resource: Resource) -> Result<(), Status> {
    let request = CreateRequest { resource: Some(resource), options: None };
    client.create(with(token, request)).await.map(drop)
}

fn get_request() -> GetRequest {
    GetRequest { namespace: NAMESPACE.into(), r#type: TYPE.into(), id: "a".into(), options: None }
}

/// Whether a client without a certificate gets a call with this token through.
async fn is_let_in(remote: &RemoteOsd, token: &str) -> bool {
    // In TLS 1.3 the client is done before the node asks for a certificate.
    let Ok(channel) = remote.channel_of(None).await else { return false };
    get(&mut Client::new(channel), token).await.is_ok()
}

async fn destroy_issuer(client: &mut Client) {
    let (namespace, r#type) = (NAMESPACE.into(), "TokenIssuers.osbuild".into());
    let request = DestroyRequest { namespace, r#type, id: "cluster".into(), options: None };
    client.destroy(request).await.unwrap();
}

fn resolver() -> Resource {
    let mut sent = thing("a");
    metadata(&mut sent).r#type = "Resolvers.osbuild".into();
    Resource { spec: Some(Spec { proto_spec: vec![], yaml_spec: "search: local".into() }), ..sent }
}

#[tokio::test]
async fn a_pod_may_do_what_its_binding_says_and_no_more() {
    let signer = Signer::start();
    let bindings = [("observer", "reader"), ("fixer", "operator"), ("chief", "admin")];
    let remote = accepting(&signer, &bindings).await;
    for (account, [may_resolve, may_all]) in
        [("observer", [false, false]), ("fixer", [true, false]), ("chief", [true, true])]
    {
        let (client, token) = (&mut remote.stranger().await, signer.of_pod(account, "one", 600));
        get(client, &token).await.unwrap();
        let is_permitted = |done: Result<(), Status>| match done {
            Err(status) => status.code() != Code::PermissionDenied,
            Ok(()) => true,
        };
        assert_eq!(is_permitted(put(client, &token, resolver()).await), may_resolve, "{account}");
        assert_eq!(is_permitted(put(client, &token, thing(account)).await), may_all, "{account}");
    }
    let who = "reader \"system:serviceaccount:fleet:observer\" in pod \"one\" (one-5b0f9f7e) on \
               node \"edge-7\" (0c1d2e3f-1111-4222-8333-444455556666)";
    let record = remote.recorded(&format!("connection: {who} from 127.0.0.1:"), 1).await;
    assert!(record.contains(&format!("with a token of {ISSUER}")), "{record}");
    remote.recorded(&format!("call: {who}: cosi.resource.State/Get: "), 1).await;
    let line = format!("call: {who}: cosi.resource.State/Create: refused: ");
    let record = remote.recorded(&line, 2).await;
    assert!(!record.contains("eyJ"), "a token is in the record: {record}");
}

#[tokio::test]
async fn an_administrators_role_binds_pods_once_it_exists() {
    let signer = Signer::start();
    let remote = accepting(&signer, &[("desk", "helpdesk")]).await;
    let token = signer.of_pod("desk", "one", 600);
    let refused = get(&mut remote.stranger().await, &token).await.unwrap_err();
    assert!(refused.message().contains("its role does not exist"), "{refused}");
    let documents = "{type: Role, id: helpdesk, spec: {resources: [\
                     {verbs: [get], types: [Things.example]}]}}";
    let request = ApplyRequest { documents: documents.into(), dry_run: false };
    let mut local = ConfigurationClient::new(remote.osd.channel().await);
    local.apply(request).await.unwrap();
    let client = &mut remote.stranger().await;
    get(client, &token).await.unwrap();
    assert_eq!(code(put(client, &token, resolver()).await), Code::PermissionDenied);
}

#[tokio::test]
async fn both_kinds_of_keys_in_both_forms_verify_and_a_cluster_may_change_its_key() {
    let signer = Signer::start();
    let both = [signer.pem("rsa"), signer.pem("ec")].concat();
    let bindings = [("observer", "reader")];
    for (keys, of_rsa, of_ec) in [
        (signer.pem("rsa"), true, false),
        (signer.key_set("rsa"), true, false),
        (signer.pem("ec"), false, true),
        (signer.key_set("ec"), false, true),
        (both, true, true),
    ] {
        let remote = RemoteOsd::start(&OF_NODE);
        create(&mut remote.osd.client().await, issuer(&keys, &bindings)).await.unwrap();
        for (key, algorithm, counts) in [("rsa", "RS256", of_rsa), ("ec", "ES256", of_ec)] {
            let wanted = signer::wanted("observer", "one", 600);
            let wanted = signer::Wanted { key, algorithm, ..wanted };
            let got = get(&mut remote.stranger().await, &signer.sign(&wanted)).await;
            assert_eq!(got.is_ok(), counts, "{keys} {key}: {got:?}");
        }
    }
}

#[tokio::test]
async fn a_client_needs_a_certificate_where_no_tokens_count() {
    let (signer, remote) = (Signer::start(), RemoteOsd::start(&OF_NODE));
    let token = signer.of_pod("observer", "one", 600);
    assert!(!is_let_in(&remote, &token).await);
    remote.recorded("connection: refused: ", 1).await;
    let local = &mut remote.osd.client().await;
    create(local, issuer(&signer.pem("ec"), &[("observer", "reader")])).await.unwrap();
    let client = &mut remote.stranger().await;
    get(client, &token).await.unwrap();
    let alice = remote.identity("alice", "reader");
    assert!(remote.lets_in(&alice).await, "certificates go on to work");
    destroy_issuer(local).await;
    assert!(get(client, &token).await.is_err(), "the connection is closed");
    remote.recorded("its token does not count any more", 1).await;
    assert!(!is_let_in(&remote, &token).await);
}

/// Waits for what follows the empty message with which a watch begins.
async fn until_end(mut events: Streaming<WatchResponse>) -> Result<Option<WatchResponse>, Status> {
    events.message().await?;
    events.message().await
}

#[tokio::test]
async fn a_watch_ends_with_its_token_and_goes_on_with_the_next_one() {
    let signer = Signer::start();
    let remote = accepting(&signer, &[("observer", "reader")]).await;
    let token = |seconds| signer.of_pod("observer", "one", seconds);
    let mut short = remote.stranger().await;
    let ends = short.watch(with(&token(2), all(WatchOptions::default()))).await.unwrap();
    let mut renewed = remote.stranger().await;
    let goes_on = renewed.watch(with(&token(2), all(WatchOptions::default()))).await.unwrap();
    get(&mut renewed, &token(600)).await.unwrap();
    let ended = timeout(5 * SECOND, until_end(ends.into_inner())).await.expect("it goes on");
    assert!(ended.is_err(), "{ended:?}");
    remote.recorded("its token has expired", 1).await;
    let waits = timeout(SECOND, until_end(goes_on.into_inner())).await;
    assert!(waits.is_err(), "{waits:?}");
}

#[tokio::test]
async fn a_connection_belongs_to_the_pod_that_has_called_first() {
    let signer = Signer::start();
    let remote = accepting(&signer, &[("observer", "reader"), ("chief", "admin")]).await;
    let client = &mut remote.stranger().await;
    get(client, &signer.of_pod("observer", "one", 600)).await.unwrap();
    for other in [signer.of_pod("observer", "two", 600), signer.of_pod("chief", "one", 600)] {
        let refused = get(client, &other).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
    }
    get(client, &signer.of_pod("observer", "one", 601)).await.unwrap();
}

#[tokio::test]
async fn a_revoked_service_account_and_a_changed_binding_are_out_at_once() {
    let signer = Signer::start();
    let bindings = [("observer", "reader"), ("fixer", "operator"), ("chief", "admin")];
    let remote = accepting(&signer, &bindings).await;
    let [observer, fixer, chief] = bindings.map(|(account, _)| signer.of_pod(account, "one", 600));
    let mut first = remote.stranger().await;
    let mut events =
        first.watch(with(&observer, all(WatchOptions::default()))).await.unwrap().into_inner();
    events.message().await.unwrap();
    let revocation = |user: &str| {
        let documents = format!("{{type: Revocation, id: a, spec: {{user: '{user}'}}}}");
        ApplyRequest { documents, dry_run: false }
    };
    let mut admin = ConfigurationClient::new(remote.channel_of(None).await.unwrap());
    let own = with(&chief, revocation("system:serviceaccount:fleet:chief"));
    assert_eq!(code(admin.apply(own).await), Code::FailedPrecondition);
    let other = with(&chief, revocation("system:serviceaccount:fleet:observer"));
    admin.apply(other).await.unwrap();
    let ended = timeout(SECOND, events.message()).await.expect("the watch goes on");
    assert!(ended.is_err(), "{ended:?}");
    let refused = get(&mut remote.stranger().await, &observer).await.unwrap_err();
    assert!(refused.message().contains("revoked"), "{refused}");

    let mut second = remote.stranger().await;
    get(&mut second, &fixer).await.unwrap();
    let less = issuer(&signer.pem("ec"), &[("fixer", "reader")]).spec.unwrap().yaml_spec;
    let documents = format!("{{type: TokenIssuer, id: cluster, spec: {less}}}");
    let mut local = ConfigurationClient::new(remote.osd.channel().await);
    local.apply(ApplyRequest { documents, dry_run: false }).await.unwrap();
    remote.recorded("its role has changed", 1).await;
    assert!(get(&mut second, &fixer).await.is_err(), "the connection is closed");
    let client = &mut remote.stranger().await;
    get(client, &fixer).await.unwrap();
    assert_eq!(code(put(client, &fixer, resolver()).await), Code::PermissionDenied);
}

#[tokio::test]
async fn an_admin_alone_says_whose_tokens_count_and_no_generation_takes_it_back() {
    let (signer, folder) = (Signer::start(), tempfile::tempdir().unwrap());
    let [flag, value] = keep(folder.path());
    let arguments = [&OF_NODE[..], &[flag.as_str(), value.as_str()]].concat();
    let mut remote = RemoteOsd::start(&arguments);
    let [operator, admin] = ["operator", "admin"].map(|role| remote.identity("alice", role));
    let wanted = || issuer(&signer.pem("ec"), &[("observer", "reader")]);
    let refused = create(&mut remote.state(&operator).await, wanted()).await;
    assert_eq!(code(refused), Code::PermissionDenied);
    create(&mut remote.state(&admin).await, wanted()).await.unwrap();
    let mut second = wanted();
    metadata(&mut second).id = "again".into();
    assert_eq!(code(create(&mut remote.state(&admin).await, second).await), Code::InvalidArgument);
    let token = signer.of_pod("observer", "one", 600);
    std::fs::write(folder.path().join("resources"), [0xff; 9]).unwrap();
    remote.restart(&arguments);
    get(&mut remote.stranger().await, &token).await.unwrap();
    std::fs::write(folder.path().join("access"), [0xff; 9]).unwrap();
    remote.restart(&arguments);
    assert!(!is_let_in(&remote, &token).await, "a lost file lets nobody in");
}

#[tokio::test]
async fn a_stranger_has_ten_seconds_to_show_a_token_and_little_room_in_the_record() {
    let signer = Signer::start();
    let remote = accepting(&signer, &[("observer", "reader")]).await;
    let began = Instant::now();
    let mut client = remote.stranger().await;
    let mut refused = 0;
    let last = loop {
        let status = client.get(get_request()).await.unwrap_err();
        if status.code() != Code::Unauthenticated {
            break status;
        }
        refused += 1;
        // Fewer calls than HTTP/2 lets a server reset: a connection ends with 1024 of them.
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(began.elapsed() < 20 * SECOND, "the connection stays open");
    };
    let after = began.elapsed();
    assert!(after > 9 * SECOND, "it was closed after {after:?} and {refused} calls: {last}");
    assert!(refused > 20, "{refused}");
    let lines = remote.record().lines().filter(|line| line.contains("refused")).count();
    assert!(lines <= 14, "{lines} lines for {refused} calls");
}
