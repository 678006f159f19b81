//! Images that the node keeps as resources, with an `init` that sets all that it is asked for.

use crate::kept::get_of;
use crate::network_settings::{ATTEMPTS, PAUSE, apply, lines, start_init, until};
use crate::osd::{Osd, code};
use osbuild_cosi::resource::TeardownAndDestroyRequest;
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
    let mut status = String::new();
    for _ in 0..ATTEMPTS {
        let found = get_of(client, "SystemImageStatuses.osbuild", "tools").await;
        status = found.map(|found| found.spec.unwrap().yaml_spec).unwrap_or_default();
        if status == expected {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    assert_eq!(status, expected);

    let request = TeardownAndDestroyRequest {
        namespace: "system".into(),
        r#type: "SystemImages.osbuild".into(),
        id: "tools".into(),
        ..TeardownAndDestroyRequest::default()
    };
    client.teardown_and_destroy(request).await.unwrap();
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
