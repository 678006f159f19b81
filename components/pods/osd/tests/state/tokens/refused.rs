//! Tokens that do not count.

use super::signer::{self, Signer, Wanted};
use super::{accepting, get, with};
use crate::network::{MEMORY_LIMIT, WAIT, peak_memory};
use crate::osd::{Client, NAMESPACE, TYPE};
use crate::remote::RemoteOsd;
use futures_util::future::join_all;
use osbuild_cosi::resource::GetRequest;
use pod_osd::limits::MAX_STRANGERS;
use serde_json::{Value, json};
use tokio::time::timeout;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Status};

/// A token with one claim changed, or without it.
fn changed(pointer: &str, value: Value) -> Wanted {
    let mut wanted = signer::wanted("observer", "one", 600);
    *wanted.claims.pointer_mut(pointer).unwrap() = value;
    wanted
}

fn without(claim: &str) -> Wanted {
    let mut wanted = signer::wanted("observer", "one", 600);
    wanted.claims.as_object_mut().unwrap().remove(claim);
    wanted
}

/// The time of the token, and so many seconds.
fn later(seconds: i64) -> Value {
    let wanted = signer::wanted("observer", "one", 0);
    json!(wanted.claims["iat"].as_i64().unwrap() + seconds)
}

fn wrong_claims() -> Vec<(Wanted, &'static str)> {
    let node = "/kubernetes.io/node";
    let name = "/kubernetes.io/serviceaccount/name";
    let none = "none that Kubernetes binds";
    vec![
        (changed("/exp", later(-1)), "has expired"),
        (changed("/exp", later(3700)), "valid for 370"),
        (changed("/exp", json!("never")), none),
        (changed("/exp", json!(1e300)), none),
        (changed("/exp", json!(u64::MAX)), "after the year 9999"),
        (without("exp"), none),
        (without("iat"), none),
        (changed("/aud", json!(["https://kubernetes.default.svc"])), "not for the audience"),
        (changed("/aud", json!([])), "not for the audience"),
        (changed("/iss", json!("https://example.org")), "nobody knows its issuer"),
        (changed("/kubernetes.io/node/name", json!("edge-8")), "no pod on the node `edge-7`"),
        (changed(node, Value::Null), "no pod on the node `edge-7`"),
        (changed("/sub", json!("system:serviceaccount:fleet:chief")), "two ServiceAccounts"),
        (changed("/sub", json!("admin")), "two ServiceAccounts"),
        (changed(name, json!("chief")), "two ServiceAccounts"),
        (changed("/kubernetes.io/namespace", json!("kube-system")), "two ServiceAccounts"),
        (signer::wanted("nobody", "one", 600), "has no role here"),
        (without("kubernetes.io"), none),
        (changed("/kubernetes.io/pod/name", json!("a".repeat(254))), "Kubernetes does not give"),
    ]
}

fn wrong_signatures() -> Vec<(Wanted, &'static str)> {
    let good = || signer::wanted("observer", "one", 600);
    let header = |header| Wanted { header, ..good() };
    let algorithm = "neither RS256 nor ES256";
    vec![
        (Wanted { key: "other", ..good() }, "not by a key of its issuer"),
        (Wanted { key: "rsa", algorithm: "RS256", ..good() }, "not by a key of its issuer"),
        (Wanted { key: "rsa", algorithm: "PS256", ..good() }, algorithm),
        (Wanted { key: "rsa", algorithm: "RS384", ..good() }, algorithm),
        (Wanted { algorithm: "none", ..good() }, algorithm),
        (Wanted { algorithm: "HS256", ..good() }, algorithm),
        (header(json!({ "crit": ["exp"], "exp": 1 })), "needs extensions"),
    ]
}

#[tokio::test]
async fn a_token_with_wrong_claims_or_a_wrong_signature_is_refused() {
    let signer = Signer::start();
    let remote = accepting(&signer, &[("observer", "reader"), ("chief", "admin")]).await;
    let good = signer.sign(&signer::wanted("observer", "one", 600));
    get(&mut remote.stranger().await, &good).await.unwrap();
    for (wanted, reason) in wrong_claims().into_iter().chain(wrong_signatures()) {
        let token = signer.sign(&wanted);
        is_refused(&remote, &token, reason).await;
    }
    let [header, claims, signature] = good.split('.').collect::<Vec<_>>()[..] else { panic!() };
    let other = signer.sign(&signer::wanted("chief", "one", 600));
    let of_chief = other.split('.').nth(1).unwrap();
    for (token, reason) in [
        (format!("{header}.{of_chief}.{signature}"), "not by a key"),
        (format!("{header}.{claims}."), "not by a key"),
        (format!("{header}.{claims}.{signature}=="), "no JSON Web Token"),
        (format!("{header}.{claims}.{signature}.{signature}"), "no JSON Web Token"),
        (format!("{header}.{claims}"), "no JSON Web Token"),
        (String::new(), "no JSON Web Token"),
        (format!("{header}.{claims}.{}", "A".repeat(8 << 10)), "more than 8192 bytes"),
    ] {
        is_refused(&remote, &token, reason).await;
    }
}

async fn is_refused(remote: &RemoteOsd, token: &str, reason: &str) {
    let refused = get(&mut remote.stranger().await, token).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
    assert!(refused.message().contains(reason), "{reason}: {refused}");
}

#[tokio::test]
async fn a_call_has_one_token_and_no_certificate_beside_it() {
    let signer = Signer::start();
    let remote = accepting(&signer, &[("observer", "reader")]).await;
    let token = signer.of_pod("observer", "one", 600);
    let alice = remote.identity("alice", "admin");
    let both = get(&mut remote.state(&alice).await, &token).await.unwrap_err();
    assert_eq!(both.code(), Code::Unauthenticated);
    assert!(both.message().contains("a certificate or a token, not both"), "{both}");
    remote.recorded("call: admin \"alice\": cosi.resource.State/Get: refused", 1).await;

    let mut twice = with(&token, request());
    let again = MetadataValue::try_from(format!("Bearer {token}")).unwrap();
    twice.metadata_mut().append("authorization", again);
    let mut basic = Request::new(request());
    basic.metadata_mut().insert("authorization", MetadataValue::from_static("Basic YTpi"));
    for (request, reason) in [
        (Request::new(request()), "shows a token with each call"),
        (twice, "two headers"),
        (basic, "not `Bearer`"),
    ] {
        let client = &mut remote.stranger().await;
        let refused = call(client, request).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
        assert!(refused.message().contains(reason), "{reason}: {refused}");
        get(client, &token).await.unwrap();
    }
}

fn request() -> GetRequest {
    let (namespace, r#type, id) = (NAMESPACE.into(), TYPE.into(), "a".into());
    GetRequest { namespace, r#type, id, options: None }
}

async fn call(client: &mut Client, request: Request<GetRequest>) -> Result<(), Status> {
    client.get(request).await.map(drop)
}

#[tokio::test]
async fn a_connection_has_three_tokens_that_do_not_count() {
    let signer = Signer::start();
    let remote = accepting(&signer, &[("observer", "reader")]).await;
    let (good, bad) = (signer.of_pod("observer", "one", 600), signer.of_pod("nobody", "one", 600));
    let client = &mut remote.stranger().await;
    for _ in 0..3 {
        get(client, &bad).await.unwrap_err();
    }
    let refused = get(client, &good).await.unwrap_err();
    assert!(refused.message().contains("connect again"), "{refused}");
    get(&mut remote.stranger().await, &good).await.unwrap();
}

#[tokio::test]
async fn a_pod_whose_connection_has_shown_too_many_bad_tokens_gets_the_reason_and_another_one() {
    let signer = Signer::start();
    let remote = accepting(&signer, &[("observer", "reader")]).await;
    let (good, bad) = (signer.of_pod("observer", "one", 600), signer.of_pod("nobody", "one", 600));
    let client = &mut remote.stranger().await;
    get(client, &good).await.unwrap();
    for _ in 0..3 {
        get(client, &bad).await.unwrap_err();
    }
    let refused = get(client, &good).await.unwrap_err();
    assert!(refused.message().contains("connect again"), "{refused}");
    remote.recorded("it has shown too many tokens that do not count", 1).await;
    let closed = get(client, &good).await.unwrap_err();
    assert_ne!(closed.code(), Code::Unauthenticated, "{closed}");
    get(&mut remote.stranger().await, &good).await.unwrap();
}

#[tokio::test]
async fn a_stranger_waits_while_sixteen_others_have_no_token_that_counts() {
    let signer = Signer::start();
    let remote = accepting(&signer, &[("observer", "reader")]).await;
    let good = signer.of_pod("observer", "one", 600);
    let mut strangers = Vec::new();
    for _ in 0..MAX_STRANGERS {
        let mut stranger = remote.stranger().await;
        get(&mut stranger, "none").await.unwrap_err();
        strangers.push(stranger);
    }
    let mut next = remote.stranger().await;
    assert!(timeout(WAIT, get(&mut next, &good)).await.is_err());
    let alice = remote.identity("alice", "admin");
    let answer = call(&mut remote.state(&alice).await, Request::new(request())).await;
    assert_eq!(answer.unwrap_err().code(), Code::NotFound);
    get(&mut strangers[0], &good).await.unwrap();
    get(&mut next, &good).await.unwrap();
}

#[tokio::test]
async fn strangers_without_tokens_do_not_fill_the_memory() {
    let signer = Signer::start();
    let mut remote = accepting(&signer, &[("observer", "reader")]).await;
    let mut strangers = Vec::new();
    for _ in 0..60 {
        strangers.push(remote.stranger().await);
    }
    let token = "A".repeat(8 << 10);
    // As many calls as HTTP/2 lets a connection have at a time.
    let calls = strangers.iter().flat_map(|client| std::iter::repeat_n(client, 100));
    let calls = calls.map(async |client| get(&mut client.clone(), &token).await);
    let answers = join_all(calls).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 6000);
    let memory = peak_memory(remote.osd.process().id());
    assert!(memory < MEMORY_LIMIT, "{memory} KiB");
}
