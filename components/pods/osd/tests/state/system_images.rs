//! Images that the node keeps as resources, with an `init` that sets all that it is asked for.

use crate::network_settings::{apply, destroy, lines, start_init, status_when, until};
use crate::osd::{Osd, code};
use tonic::Code;

const DOCUMENT: &str = "type: SystemImage\nid: tools\nspec:\n  image: a.example/tools:1\n";

#[tokio::test]
async fn an_image_reaches_init_has_a_status_and_goes_with_its_resource() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    apply(&osd, DOCUMENT).await.unwrap();
    until("init holds it", || lines(&held) == ["system-image a.example/tools:1 kept"]).await;

    let client = &mut osd.client().await;
    // This `init` pulls nothing.
    let expected = "image: a.example/tools:1\nkept: false\nsetBy: api\nversion: \"1\"\n";
    let status =
        status_when(client, "SystemImageStatuses.osbuild", "tools", |yaml| yaml == expected).await;
    assert_eq!(status, expected);

    destroy(client, "SystemImages.osbuild", "tools").await;
    until("init holds nothing", || lines(&held).is_empty()).await;
}

#[tokio::test]
async fn an_image_that_no_registry_has_is_refused() {
    let osd = Osd::start_with(&[]);
    for spec in [
        "",
        "image: ''",
        "image: busybox",
        "image: docker.io/library/busybox",
        "image: 'localhost/pause:1'",
        "image: 'a.example/b:1', pull: Always",
    ] {
        let document = format!("{{type: SystemImage, id: a, spec: {{{spec}}}}}");
        assert_eq!(code(apply(&osd, &document).await), Code::InvalidArgument, "{document}");
    }
    let twice = format!("{DOCUMENT}---\n{}", DOCUMENT.replace("id: tools", "id: other"));
    assert_eq!(code(apply(&osd, &twice).await), Code::InvalidArgument);
}
