//! Mirrors of registries as resources, with an `init` that sets all that it is asked for.

use crate::network_settings::{apply, destroy, lines, start_init, status_when, until};
use crate::osd::{Osd, code};
use tonic::Code;

/// A resource whose certificate is indented.
fn document(id: &str, registry: &str, pem: &str) -> String {
    let pem: String = pem.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "type: RegistryMirror\nid: {id}\nspec:\n  registry: {registry}\n  mirrors:\n  - url: \
         https://mirror.example:5000\n  - url: https://public.example\n    capabilities: \
         [pull]\n  certificateAuthority: |\n{pem}"
    )
}

fn certificate() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["mirror.example".to_owned()]).unwrap();
    parameters.self_signed(&key).unwrap().pem()
}

#[tokio::test]
async fn mirrors_reach_init_have_a_status_and_go_with_their_resource() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    apply(&osd, &document("hub", "docker.io", &certificate())).await.unwrap();
    let start = "registry-mirror docker.io mirror=https://mirror.example:5000 \
                 pull=https://public.example ca=MII";
    until("init holds it", || matches!(&lines(&held)[..], [line] if line.starts_with(start))).await;

    let client = &mut osd.client().await;
    let expected = "registry: docker.io\nmirrors:\n- url: https://mirror.example:5000\n\
                    - url: https://public.example\n  capabilities:\n  - pull\nauthorities: 1\n\
                    set: true\nsetBy: api\nversion: \"1\"\n";
    let status = status_when(client, "RegistryMirrorStatuses.osbuild", "hub", |yaml| {
        yaml.contains("set: true")
    })
    .await;
    assert_eq!(status.replace("  - url", "- url").replace("    ", "  "), expected);

    destroy(client, "RegistryMirrors.osbuild", "hub").await;
    until("init holds nothing", || lines(&held).is_empty()).await;
}

#[tokio::test]
async fn mirrors_that_no_node_can_have_are_refused() {
    let osd = Osd::start_with(&[]);
    for spec in [
        "registry: docker.io",
        "registry: docker.io, mirrors: []",
        "mirrors: [{url: 'https://a'}]",
        "registry: _default, server: 'https://a'",
        "registry: ../a, server: 'https://a'",
        "registry: docker.io, server: 'http://a'",
        "registry: docker.io, server: 'https://u:p@a'",
        "registry: docker.io, mirrors: [{url: 'https://a'}, {url: 'https://a'}]",
        "registry: docker.io, mirrors: [{url: 'https://a', capabilities: [push]}]",
        "registry: docker.io, mirrors: [{url: 'https://a', skipVerify: true}]",
        "registry: docker.io, server: 'https://a', certificateAuthority: /etc/ca.crt",
    ] {
        let document = format!("{{type: RegistryMirror, id: a, spec: {{{spec}}}}}");
        assert_eq!(code(apply(&osd, &document).await), Code::InvalidArgument, "{document}");
    }
    let forged = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    let document_of = |id, pem: &str| document(id, "docker.io", pem);
    let refused = apply(&osd, &document_of("a", forged)).await;
    assert_eq!(code(refused), Code::InvalidArgument);
    let pem = certificate();
    let twice = format!("{}---\n{}", document_of("a", &pem), document_of("b", &pem));
    assert_eq!(code(apply(&osd, &twice).await), Code::InvalidArgument);
}
