//! Kernel modules as resources, with an `init` that sets all that it is asked for.

use crate::network_settings::{apply, destroy, lines, start_init, status_when, until};
use crate::osd::{Osd, code};
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
    let status = status_when(client, "KernelModuleStatuses.osbuild", "encryption", |yaml| {
        yaml.contains("setBy: api")
    })
    .await;
    assert_eq!(status, expected);

    destroy(client, "KernelModules.osbuild", "encryption").await;
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

#[tokio::test]
async fn there_are_at_most_64_modules() {
    let osd = Osd::start_with(&[]);
    let document =
        |number: usize| format!("{{type: KernelModule, id: m{number}, spec: {{name: m{number}}}}}");
    let all = (0..65).map(document).collect::<Vec<_>>();
    assert_eq!(code(apply(&osd, &all.join("\n---\n")).await), Code::InvalidArgument);
    apply(&osd, &all[..64].join("\n---\n")).await.unwrap();
    assert_eq!(code(apply(&osd, &all[64]).await), Code::InvalidArgument);
}
