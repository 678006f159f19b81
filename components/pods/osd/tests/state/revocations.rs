//! Clients whose certificates are revoked.

use crate::kept::keep;
use crate::osd::{Client, NAMESPACE, TYPE, all, code, metadata, thing, watch};
use crate::remote::{Identity, RemoteOsd};
use osbuild_cosi::resource::{
    CreateRequest, DestroyRequest, GetRequest, Resource, Spec, WatchOptions,
};
use osbuild_cosi::v1::configuration_client::ConfigurationClient;
use osbuild_cosi::v1::{ApplyRequest, ListGenerationsRequest, RestoreGenerationRequest};
use std::time::Duration;
use tokio::time::timeout;
use tonic::{Code, Status};

/// How long a revocation may take.
const SECOND: Duration = Duration::from_secs(1);

fn revocation(id: &str, yaml: &str) -> Resource {
    let mut sent = thing(id);
    metadata(&mut sent).r#type = "Revocations.osbuild".into();
    Resource { spec: Some(Spec { proto_spec: vec![], yaml_spec: yaml.into() }), ..sent }
}

async fn revoke(client: &mut Client, id: &str, yaml: &str) -> Result<(), Status> {
    let resource = Some(revocation(id, yaml));
    client.create(CreateRequest { resource, options: None }).await.map(drop)
}

async fn get(client: &mut Client) -> Result<(), Status> {
    let (namespace, r#type, id) = (NAMESPACE.into(), TYPE.into(), "a".into());
    match client.get(GetRequest { namespace, r#type, id, options: None }).await {
        Err(status) if status.code() != Code::NotFound => Err(status),
        _ => Ok(()),
    }
}

async fn lets_in(remote: &RemoteOsd, all: &[&Identity]) -> Vec<bool> {
    let mut found = Vec::new();
    for one in all {
        found.push(remote.lets_in(one).await);
    }
    found
}

#[tokio::test]
async fn a_revoked_certificate_is_out_at_once_also_over_an_open_connection() {
    let remote = RemoteOsd::start(&[]);
    let [alice, stolen, other] = [("alice", "admin"), ("bob", "admin"), ("bob", "admin")]
        .map(|(name, role)| remote.identity(name, role));
    let mut thief = remote.state(&stolen).await;
    let mut events = watch(&mut thief, all(WatchOptions::default())).await.unwrap();
    let admin = &mut remote.state(&alice).await;
    revoke(admin, "a", &format!("certificate: {}", stolen.fingerprint())).await.unwrap();
    assert!(get(&mut thief).await.is_err());
    let ended = timeout(SECOND, events.message()).await.expect("the watch goes on");
    assert!(ended.is_err(), "{ended:?}");
    assert_eq!(lets_in(&remote, &[&alice, &stolen, &other]).await, [true, false, true]);
    remote.recorded("closed: admin \"bob\" from 127.0.0.1:", 1).await;
    let record = remote.recorded("the certificate is revoked", 1).await;
    assert!(record.contains(&format!("with {}", stolen.fingerprint())), "{record}");
}

#[tokio::test]
async fn a_user_is_revoked_with_all_certificates_issued_before_a_day() {
    let remote = RemoteOsd::start(&[]);
    // Certificates of rcgen begin in 1975.
    let [alice, bob] = ["alice", "bob"].map(|name| remote.identity(name, "admin"));
    let admin = &mut remote.state(&alice).await;
    revoke(admin, "early", "{user: bob, issuedBefore: 1970-01-01}").await.unwrap();
    assert_eq!(lets_in(&remote, &[&alice, &bob]).await, [true, true]);
    revoke(admin, "late", "{user: bob, issuedBefore: 2026-11-26}").await.unwrap();
    assert_eq!(lets_in(&remote, &[&alice, &bob]).await, [true, false]);
    let (namespace, r#type) = (NAMESPACE.into(), "Revocations.osbuild".into());
    let request = DestroyRequest { namespace, r#type, id: "late".into(), options: None };
    admin.destroy(request).await.unwrap();
    assert_eq!(lets_in(&remote, &[&bob]).await, [true]);
}

#[tokio::test]
async fn only_an_admin_revokes_and_nobody_their_own_certificate() {
    let remote = RemoteOsd::start(&[]);
    let [admin, operator] = ["admin", "operator"].map(|role| remote.identity("alice", role));
    let refused = revoke(&mut remote.state(&operator).await, "a", "user: bob").await;
    assert_eq!(code(refused), Code::PermissionDenied);
    let client = &mut remote.state(&admin).await;
    let own = format!("certificate: {}", admin.fingerprint());
    for yaml in ["user: alice", &own] {
        let refused = revoke(client, "a", yaml).await;
        assert_eq!(code(refused), Code::FailedPrecondition, "{yaml}");
        let documents = format!("{{type: Revocation, id: a, spec: {{{yaml}}}}}");
        let request = ApplyRequest { documents, dry_run: false };
        let mut configuration = ConfigurationClient::new(remote.channel(&admin).await.unwrap());
        assert_eq!(code(configuration.apply(request).await), Code::FailedPrecondition);
    }
    revoke(client, "a", "{user: alice, issuedBefore: 1970-01-01}").await.unwrap();
    for yaml in ["{}", "user: bob\ncertificate: sha256:00", "user: bob\nissuedBefore: today"] {
        assert_eq!(code(revoke(client, "b", yaml).await), Code::InvalidArgument, "{yaml}");
    }
    // A program on the node has no certificate to lose.
    revoke(&mut remote.osd.client().await, "b", "user: alice").await.unwrap();
    assert_eq!(lets_in(&remote, &[&admin, &operator]).await, [false, false]);
}

#[tokio::test]
async fn no_generation_and_no_restart_lets_a_revoked_certificate_in() {
    let folder = tempfile::tempdir().unwrap();
    let [flag, value] = keep(folder.path());
    let arguments = [flag.as_str(), value.as_str()];
    let mut remote = RemoteOsd::start(&arguments);
    let [alice, bob] = ["alice", "bob"].map(|name| remote.identity(name, "admin"));
    let mut client = ConfigurationClient::new(remote.channel(&alice).await.unwrap());
    let both = "{type: Hostname, id: a, spec: {hostname: edge-7}}\n---\n\
                {type: Revocation, id: a, spec: {user: bob}}";
    client.apply(ApplyRequest { documents: both.into(), dry_run: false }).await.unwrap();
    let request = ListGenerationsRequest {};
    let all = client.list_generations(request).await.unwrap().into_inner().generations;
    let changed: Vec<_> = all[0].changes.iter().map(|one| one.r#type.as_str()).collect();
    assert_eq!(changed, ["Hostnames.osbuild"]);
    let number = all[1].number;
    let request = RestoreGenerationRequest { number, dry_run: false };
    let restored = client.restore_generation(request).await.unwrap().into_inner().resources;
    assert_eq!(restored.len(), 1);
    assert_eq!(lets_in(&remote, &[&alice, &bob]).await, [true, false]);
    remote.restart(&arguments);
    assert_eq!(lets_in(&remote, &[&alice, &bob]).await, [true, false]);
    // Damage to the settings.
    std::fs::write(folder.path().join("resources"), [0xff; 9]).unwrap();
    remote.restart(&arguments);
    assert_eq!(lets_in(&remote, &[&alice, &bob]).await, [true, false]);
}

#[tokio::test]
async fn lost_revocations_let_nobody_in_until_a_client_on_the_node_writes_one() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("access"), [0xff; 9]).unwrap();
    let [flag, value] = keep(folder.path());
    let arguments = [flag.as_str(), value.as_str()];
    let mut remote = RemoteOsd::start(&arguments);
    let [alice, bob] = ["alice", "bob"].map(|name| remote.identity(name, "admin"));
    assert_eq!(lets_in(&remote, &[&alice]).await, [false]);
    remote.restart(&arguments);
    assert_eq!(lets_in(&remote, &[&alice]).await, [false]);
    revoke(&mut remote.osd.client().await, "a", "user: bob").await.unwrap();
    assert_eq!(lets_in(&remote, &[&alice, &bob]).await, [true, false]);
    remote.restart(&arguments);
    assert_eq!(lets_in(&remote, &[&alice, &bob]).await, [true, false]);
}

#[tokio::test]
async fn lost_revocations_let_nobody_in_whatever_else_a_client_on_the_node_writes() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("access"), [0xff; 9]).unwrap();
    let [flag, value] = keep(folder.path());
    let arguments = [flag.as_str(), value.as_str()];
    let mut remote = RemoteOsd::start(&arguments);
    let [alice, bob] = ["alice", "bob"].map(|name| remote.identity(name, "admin"));
    for documents in [
        "{type: Hostname, id: a, spec: {hostname: edge-7}}",
        "{type: Role, id: helpdesk, spec: {resources: [{verbs: [get], types: ['*']}]}}",
    ] {
        let mut client = ConfigurationClient::new(remote.osd.channel().await);
        client.apply(ApplyRequest { documents: documents.into(), dry_run: false }).await.unwrap();
        assert_eq!(lets_in(&remote, &[&alice]).await, [false], "{documents}");
        remote.restart(&arguments);
        assert_eq!(lets_in(&remote, &[&alice]).await, [false], "{documents}, and a restart");
    }
    let mut client = ConfigurationClient::new(remote.osd.channel().await);
    let request = RestoreGenerationRequest { number: 1, dry_run: false };
    client.restore_generation(request).await.unwrap();
    assert_eq!(lets_in(&remote, &[&alice]).await, [false]);
    revoke(&mut remote.osd.client().await, "a", "user: bob").await.unwrap();
    remote.restart(&arguments);
    assert_eq!(lets_in(&remote, &[&alice, &bob]).await, [true, false]);
}
