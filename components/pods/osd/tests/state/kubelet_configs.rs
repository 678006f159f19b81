//! Fields of the kubelet's configuration as a resource, with an `init` that sets all that it is
//! asked for.

use crate::kept::get_of;
use crate::network_settings::{apply, destroy, lines, start_init, status_when, until};
use crate::osd::{Osd, code};
use tonic::Code;

const DOCUMENT: &str = "type: KubeletConfig\nid: node\nspec:\n  maxPods: 50\n  \
                        registryPullQPS: 0\n  serializeImagePulls: false\n  \
                        imageMaximumGCAge: 720h\n  evictionHard:\n    memory.available: 200Mi\n    \
                        pid.available: 5%\n  systemReserved:\n    pid: '2000'\n";

#[tokio::test]
async fn fields_reach_init_have_statuses_and_go_with_their_resource() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    apply(&osd, DOCUMENT).await.unwrap();
    let expected = [
        "kubelet-config evictionHard.memory.available 200Mi",
        "kubelet-config evictionHard.pid.available 5%",
        "kubelet-config imageMaximumGCAge 720h",
        "kubelet-config maxPods 50",
        "kubelet-config registryPullQPS 0",
        "kubelet-config serializeImagePulls false",
        "kubelet-config systemReserved.pid 2000",
    ];
    until("init holds them", || lines(&held) == expected).await;

    let client = &mut osd.client().await;
    let found = get_of(client, "KubeletConfigs.osbuild", "node").await.unwrap();
    let yaml = found.spec.unwrap().yaml_spec;
    assert!(yaml.contains("imageMaximumGCAge: 720h\n") && !yaml.contains("null"), "{yaml}");
    let expected = "field: maxPods\nvalue: \"50\"\ncurrent: \"50\"\nsetBy: api\nversion: \"1\"\n";
    let status = status_when(client, "KubeletConfigStatuses.osbuild", "maxPods", |yaml| {
        yaml.contains("current: \"50\"")
    })
    .await;
    assert_eq!(status, expected);

    destroy(client, "KubeletConfigs.osbuild", "node").await;
    until("init holds nothing", || lines(&held).is_empty()).await;
}

#[tokio::test]
async fn fields_that_no_node_can_have_are_refused() {
    let osd = Osd::start_with(&[]);
    for spec in [
        "",
        "maxPods: 1",
        "maxPods: many",
        "podPidsLimit: -1",
        "readOnlyPort: 10255",
        "authorization: {mode: AlwaysAllow}",
        "evictionHard: 5%",
        "evictionHard: {cpu: 5%}",
        "evictionSoft: {pid.available: 5%}",
        "shutdownGracePeriod: 1h",
        "imageGcMaximumAge: 1h",
    ] {
        let document = format!("{{type: KubeletConfig, id: a, spec: {{{spec}}}}}");
        assert_eq!(code(apply(&osd, &document).await), Code::InvalidArgument, "{document}");
    }
    let twice = format!("{DOCUMENT}---\n{}", DOCUMENT.replace("id: node", "id: other"));
    assert_eq!(code(apply(&osd, &twice).await), Code::InvalidArgument);
}
