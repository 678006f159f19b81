//! Authorities that the node trusts as resources, with an `init` that sets all that it is asked
//! for.

use crate::network_settings::{apply, destroy, lines, start_init, status_when, until};
use crate::osd::{Osd, code};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use tonic::Code;

fn certificate(is_ca: IsCa) -> String {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, "Our CA");
    parameters.is_ca = is_ca;
    parameters.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
}

fn authority() -> String {
    certificate(IsCa::Ca(BasicConstraints::Unconstrained))
}

/// A resource whose certificates are indented.
fn document(id: &str, name: &str, pem: &str) -> String {
    let pem: String = pem.lines().map(|line| format!("    {line}\n")).collect();
    format!("type: TrustedRoot\nid: {id}\nspec:\n  name: {name}\n  certificates: |\n{pem}")
}

#[tokio::test]
async fn authorities_reach_init_have_a_status_and_go_with_their_resource() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    apply(&osd, &document("ours", "corporate", &(authority() + &authority()))).await.unwrap();
    let is_held = || match &lines(&held)[..] {
        [line] => line.starts_with("trusted-root corporate MII") && line.contains(",MII"),
        _ => false,
    };
    until("init holds them", is_held).await;

    let client = &mut osd.client().await;
    let status = status_when(client, "TrustedRootStatuses.osbuild", "ours", |yaml| {
        yaml.contains("set: true")
    })
    .await;
    assert!(status.starts_with("name: corporate\nsubject:\n- CN="), "{status}");
    assert!(status.ends_with("set: true\nsetBy: api\nversion: \"1\"\n"), "{status}");
    assert_eq!(status.matches("CN=Our CA").count(), 2, "{status}");

    destroy(client, "TrustedRoots.osbuild", "ours").await;
    until("init holds nothing", || lines(&held).is_empty()).await;
}

#[tokio::test]
async fn authorities_that_no_node_can_have_are_refused() {
    let osd = Osd::start_with(&[]);
    let pem = authority();
    let forged = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    let key = KeyPair::generate().unwrap().serialize_pem();
    let server = certificate(IsCa::ExplicitNoCa);
    for (name, pem) in [
        ("corporate", ""),
        ("corporate", "/etc/ca.crt\n"),
        ("corporate", forged),
        ("corporate", &key),
        ("corporate", &format!("{pem}{key}")),
        ("corporate", &server),
        ("corporate", &certificate(IsCa::NoCa)),
        ("corporate", &pem.repeat(5)),
        ("../corporate", &pem),
        ("Corporate", &pem),
    ] {
        let document = document("a", name, pem);
        assert_eq!(code(apply(&osd, &document).await), Code::InvalidArgument, "{document}");
    }
    let refused = apply(&osd, &document("a", "a", &server)).await.unwrap_err();
    assert!(refused.message().contains("is not the certificate of an authority"), "{refused}");
    let twice = format!("{}---\n{}", document("a", "a", &pem), document("b", "a", &pem));
    assert_eq!(code(apply(&osd, &twice).await), Code::InvalidArgument);
}
