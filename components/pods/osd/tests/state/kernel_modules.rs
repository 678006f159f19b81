//! Kernel modules as resources, with an `init` that sets all that it is asked for.

use crate::kept::get_of;
use crate::network_settings::{ATTEMPTS, PAUSE, apply, lines, start_init, until};
use crate::osd::{Osd, code};
use osbuild_cosi::resource::TeardownAndDestroyRequest;
use tonic::Code;

const DOCUMENT: &str = "type: KernelModule\nid: encryption\nspec:\n  name: dm-crypt\n";

#[tokio::test]
async fn a_module_reaches_init_has_a_status_and_goes_with_its_resource() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    apply(&osd, DOCUMENT).await.unwrap();
    until("init holds it", || lines(&held) == ["kernel-module dm_crypt built-in"]).await;

    let client = &mut osd.client().await;
    let expected = "name: dm_crypt\nbuiltIn: true\nsetBy: api\nversion: \"1\"\n";
    let mut status = String::new();
    for _ in 0..ATTEMPTS {
        let found = get_of(client, "KernelModuleStatuses.osbuild", "encryption").await;
        status = found.map(|found| found.spec.unwrap().yaml_spec).unwrap_or_default();
        if status.contains("setBy: api") {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    assert_eq!(status, expected);

    let request = TeardownAndDestroyRequest {
        namespace: "system".into(),
        r#type: "KernelModules.osbuild".into(),
        id: "encryption".into(),
        ..TeardownAndDestroyRequest::default()
    };
    client.teardown_and_destroy(request).await.unwrap();
    until("init holds nothing", || lines(&held).is_empty()).await;
}

#[tokio::test]
async fn a_module_that_no_kernel_can_have_is_refused() {
    let osd = Osd::start_with(&[]);
    for spec in ["", "name: ''", "name: kvm.ko", "name: kvm nested=1", "name: a, parameters: [b]"] {
        let document = format!("{{type: KernelModule, id: a, spec: {{{spec}}}}}");
        assert_eq!(code(apply(&osd, &document).await), Code::InvalidArgument, "{document}");
    }
    let other = DOCUMENT.replace("encryption", "other").replace("dm-crypt", "dm_crypt");
    let twice = format!("{DOCUMENT}---\n{other}");
    assert_eq!(code(apply(&osd, &twice).await), Code::InvalidArgument);
}
