//! The cluster that the node joins as a resource, with an `init` that sets all that it is asked
//! for. The token is a planted text, which is looked for in the bytes of all that `osd` sends.

use crate::kept::{get_of, keep};
use crate::network_settings::{ATTEMPTS, Held, PAUSE, apply, lines, start_init, until};
use crate::osd::{Client, NAMESPACE, Osd, code};
use osbuild_cosi::resource::TeardownAndDestroyRequest;
use osbuild_protocol::Setting;
use prost::Message;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use tonic::Code;

const TYPE: &str = "ClusterJoins.osbuild";
const STATUSES: &str = "ClusterJoinStatuses.osbuild";

const PLANTED: &str = "pl4nted0s3cret00";
const OTHER: &str = "an0ther0s3cret00";

fn certificate(is_ca: IsCa) -> String {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = is_ca;
    parameters.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
}

fn authority() -> String {
    certificate(IsCa::Ca(BasicConstraints::Unconstrained))
}

fn document(server: &str, pem: &str, token: &str) -> String {
    let pem: String = pem.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "type: ClusterJoin\nid: node\nspec:\n  server: {server}\n  certificateAuthority: |\n{pem}  \
         token: {token}\n  dns: [10.96.0.10]\n"
    )
}

/// The YAML of the only status, without a secret.
async fn status(client: &mut Client) -> String {
    let found = get_of(client, STATUSES, "node").await;
    found.map(|found| found.spec.unwrap().yaml_spec).unwrap_or_default()
}

/// The lines that `init` holds, with their secrets.
fn held_lines(held: &Held) -> Vec<String> {
    held.lock().unwrap().iter().map(Setting::line).collect()
}

fn holds(held: &Held, server: &str, token: &str) -> bool {
    match &held_lines(held)[..] {
        [line] => {
            line.starts_with(&format!("cluster-join server={server} ca=MII"))
                && line.ends_with(&format!(" token=abcdef.{token} dns=10.96.0.10"))
        }
        _ => false,
    }
}

#[tokio::test]
async fn a_cluster_reaches_init_has_a_status_and_goes_with_its_resource() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    let pem = authority();
    let server = "https://api.example.org:6443";
    apply(&osd, &document(server, &pem, &format!("abcdef.{PLANTED}"))).await.unwrap();
    until("init holds it", || holds(&held, server, PLANTED)).await;
    assert!(lines(&held)[0].contains(" token=(hidden) "), "{:?}", lines(&held));

    let client = &mut osd.client().await;
    let expected = "server: https://api.example.org:6443\ndns:\n- \"10.96.0.10\"\ndomain: \
                    cluster.local\nsource: api\nresource: node\nversion: \"1\"\n";
    let mut found = String::new();
    for _ in 0..ATTEMPTS {
        found = status(client).await;
        if found.contains("source: api") {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    assert_eq!(found, expected);

    let request = TeardownAndDestroyRequest {
        namespace: NAMESPACE.into(),
        r#type: TYPE.into(),
        id: "node".into(),
        ..TeardownAndDestroyRequest::default()
    };
    client.teardown_and_destroy(request).await.unwrap();
    until("init holds nothing", || lines(&held).is_empty()).await;
}

#[tokio::test]
async fn nobody_reads_a_token_back_and_a_hidden_one_is_kept_for_the_same_cluster_alone() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let [flag, value] = keep(folder.path());
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap(), &flag, &value]);
    let (pem, server) = (authority(), "https://a:6443");
    let hidden = document(server, &pem, "(hidden)");
    assert_eq!(code(apply(&osd, &hidden).await), Code::InvalidArgument, "there is none");
    apply(&osd, &document(server, &pem, &format!("abcdef.{PLANTED}"))).await.unwrap();
    apply(&osd, &hidden).await.unwrap();
    until("init holds it", || holds(&held, server, PLANTED)).await;

    let client = &mut osd.client().await;
    let resource = get_of(client, TYPE, "node").await.unwrap();
    let bytes = resource.encode_to_vec();
    assert!(!bytes.windows(PLANTED.len()).any(|part| part == PLANTED.as_bytes()));
    assert!(resource.spec.unwrap().yaml_spec.contains("token: (hidden)\n"));
    let refused = apply(&osd, &document("https://thief:6443", &pem, "(hidden)")).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("write the secret again"), "{}", refused.message());

    apply(&osd, &document(server, &pem, &format!("abcdef.{OTHER}"))).await.unwrap();
    until("init holds the other", || holds(&held, server, OTHER)).await;
}

#[tokio::test]
async fn a_cluster_that_no_node_can_join_is_refused() {
    let osd = Osd::start_with(&[]);
    let (pem, server, token) = (authority(), "https://a:6443", "abcdef.0123456789abcdef");
    let forged = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    let key = KeyPair::generate().unwrap().serialize_pem();
    for document in [
        document("http://a:6443", &pem, token),
        document("a:6443", &pem, token),
        document("https://user:password@a:6443", &pem, token),
        document(server, "", token),
        document(server, "/etc/kubernetes/pki/ca.crt\n", token),
        document(server, forged, token),
        document(server, &format!("{pem}{key}"), token),
        document(server, &certificate(IsCa::ExplicitNoCa), token),
        document(server, &pem.repeat(5), token),
        document(server, &pem, "abcdef"),
        document(server, &pem, token).replace("10.96.0.10", "kube-dns"),
        document(server, &pem, token).replace("10.96.0.10", "1.1.1.1, 1.1.1.2, 1.1.1.3, 1.1.1.4"),
        document(server, &pem, token) + "  domain: Cluster.local\n",
        document(server, &pem, token) + "  kubeconfig: /etc/kubernetes/kubelet.conf\n",
    ] {
        let refused = apply(&osd, &document).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{document}");
        assert!(!refused.message().contains("0123456789abcdef"), "{}", refused.message());
    }
    let one = document(server, &pem, token);
    let twice = format!("{one}---\n{}", one.replace("id: node", "id: other"));
    assert_eq!(code(apply(&osd, &twice).await), Code::InvalidArgument);
}
