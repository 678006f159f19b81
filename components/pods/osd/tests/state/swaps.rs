//! Swap as a resource, with an `init` that sets all that it is asked for.

use crate::network_settings::{apply, destroy, lines, start_init, status_when, until};
use crate::osd::{Osd, code};
use tonic::Code;

const DOCUMENT: &str =
    "type: Swap\nid: mine\nspec:\n  size: 50%\n  memoryLimit: 256Mi\n  pods: true\n";

#[tokio::test]
async fn swap_reaches_init_has_a_status_and_goes_with_its_resource() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    apply(&osd, DOCUMENT).await.unwrap();
    until("init holds it", || lines(&held) == ["swap size=50% memory-limit=256Mi pods"]).await;

    let client = &mut osd.client().await;
    let expected = "setBy: api\nresource: mine\nversion: \"1\"\n";
    let status =
        status_when(client, "SwapStatuses.osbuild", "node", |yaml| yaml.ends_with(expected)).await;
    assert!(status.ends_with(expected), "{status}");

    destroy(client, "Swaps.osbuild", "mine").await;
    until("init holds nothing", || lines(&held).is_empty()).await;
}

#[tokio::test]
async fn swap_that_no_node_can_have_is_refused() {
    let osd = Osd::start_with(&[]);
    for spec in [
        "",
        "size: ''",
        "size: 1Ki",
        "size: 201%",
        "size: lots",
        "size: 64Mi, memoryLimit: 65Mi",
        "size: 64Mi, pods: 1",
        "size: 64Mi, device: /dev/sda",
    ] {
        let document = format!("{{type: Swap, id: node, spec: {{{spec}}}}}");
        assert_eq!(code(apply(&osd, &document).await), Code::InvalidArgument, "{document}");
    }
    let twice = format!("{DOCUMENT}---\n{}", DOCUMENT.replace("mine", "other"));
    assert_eq!(code(apply(&osd, &twice).await), Code::InvalidArgument);
}
