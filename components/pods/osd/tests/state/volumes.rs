//! Volumes as resources, with an `init` that sets all that it is asked for.

use crate::network_settings::{apply, destroy, lines, start_init, status_when, until};
use crate::osd::{Osd, code};
use tonic::Code;

#[tokio::test]
async fn a_volume_reaches_init_has_a_status_and_goes_with_its_resource() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    let folder = "{type: Volume, id: models, spec: {name: models, folder: true}}";
    let disk = "{type: Volume, id: ours, spec: {name: db, disk: {wwid: 't10.ATA  QEMU'}}}";
    apply(&osd, &format!("{folder}\n---\n{disk}\n")).await.unwrap();
    let both = ["volume db wwid=t10.ATA%20%20QEMU", "volume models folder"];
    until("init holds them", || lines(&held) == both).await;
    let client = &mut osd.client().await;
    let status =
        status_when(client, "VolumeStatuses.osbuild", "ours", |yaml| yaml.contains("setBy: api"))
            .await;
    for line in ["name: db\n", "path: /var/mnt/db\n", "setBy: api\n", "version: \"1\"\n"] {
        assert!(status.contains(line), "{line}: {status}");
    }
    destroy(client, "Volumes.osbuild", "ours").await;
    until("init holds the other", || lines(&held) == both[1..]).await;
}

#[tokio::test]
async fn a_volume_that_no_node_can_have_is_refused() {
    let osd = Osd::start_with(&[]);
    for spec in [
        "name: db",
        "name: db, disk: {}",
        "name: db, folder: false",
        "name: db, folder: true, disk: {serial: a}",
        "name: db, disk: {serial: a, wwid: b}",
        "name: db, disk: {serial: ' a'}",
        "name: db, disk: {device: vdb}",
        "name: ../db, disk: {serial: a}",
        "name: a-long-name-of-17, disk: {serial: a}",
        "disk: {serial: a}",
    ] {
        let document = format!("{{type: Volume, id: a, spec: {{{spec}}}}}");
        assert_eq!(code(apply(&osd, &document).await), Code::InvalidArgument, "{document}");
    }
    let one = "{type: Volume, id: a, spec: {name: a, disk: {serial: x}}}";
    for other in ["{name: a, disk: {serial: y}}", "{name: b, disk: {serial: x}}"] {
        let both = format!("{one}\n---\n{{type: Volume, id: b, spec: {other}}}\n");
        assert_eq!(code(apply(&osd, &both).await), Code::InvalidArgument, "{both}");
    }
}
