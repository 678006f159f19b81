//! Programs for the credentials of registries as resources, with an `init` that sets all that it is
//! asked for.

use crate::network_settings::{apply, destroy, lines, start_init, status_when, until};
use crate::osd::{Osd, code};
use tonic::Code;

const DOCUMENT: &str = "\
type: CredentialProvider
id: ecr
spec:
  name: ecr-credential-provider
  matchImages: ['*.dkr.ecr.*.amazonaws.com', 'public.ecr.aws']
  defaultCacheDuration: 12h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: [get-credentials, -v 3]
  env:
  - name: AWS_PROFILE
    value: a,b
";
const LINE: &str = "credential-provider ecr-credential-provider cache=12h api=v1 \
     images=*.dkr.ecr.*.amazonaws.com,public.ecr.aws arg=get-credentials arg=-v%203 \
     env=AWS_PROFILE=a%2cb";

#[tokio::test]
async fn a_provider_reaches_init_has_a_status_and_goes_with_its_resource() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    apply(&osd, DOCUMENT).await.unwrap();
    until("init holds it", || lines(&held) == [LINE]).await;

    let client = &mut osd.client().await;
    let expected = "name: ecr-credential-provider\nmatchImages:\n\
                    - \"*.dkr.ecr.*.amazonaws.com\"\n- public.ecr.aws\nset: true\n\
                    setBy: api\nversion: \"1\"\n";
    let status = status_when(client, "CredentialProviderStatuses.osbuild", "ecr", |yaml| {
        yaml.contains("setBy: api")
    })
    .await;
    assert_eq!(status, expected);

    destroy(client, "CredentialProviders.osbuild", "ecr").await;
    until("init holds nothing", || lines(&held).is_empty()).await;
}

#[tokio::test]
async fn a_provider_with_which_no_kubelet_starts_is_refused() {
    let osd = Osd::start_with(&[]);
    for (from, to) in [
        ("name: ecr-credential-provider", "name: ../bin/containerd"),
        ("name: ecr-credential-provider", "name: a b"),
        ("public.ecr.aws", "https://public.ecr.aws"),
        ("public.ecr.aws", "public.ecr.aws:x"),
        ("  matchImages: ['*.dkr.ecr.*.amazonaws.com', 'public.ecr.aws']\n", "  matchImages: []\n"),
        ("defaultCacheDuration: 12h", "defaultCacheDuration: -1h"),
        ("  defaultCacheDuration: 12h\n", ""),
        ("kubelet.k8s.io/v1", "kubelet.k8s.io/v2"),
        ("name: AWS_PROFILE", "name: AWS-PROFILE"),
        ("  args:", "  command: /bin/a\n  args:"),
    ] {
        let document = DOCUMENT.replace(from, to);
        assert_ne!(document, DOCUMENT);
        assert_eq!(code(apply(&osd, &document).await), Code::InvalidArgument, "{document}");
    }
    let twice = format!("{DOCUMENT}---\n{}", DOCUMENT.replace("id: ecr", "id: other"));
    assert_eq!(code(apply(&osd, &twice).await), Code::InvalidArgument);
}
