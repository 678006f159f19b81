//! Mounts as resources, and the three examples of COSI's engine of 2021, with an `init` that sets
//! all that it is asked for.

use crate::kept::get_of;
use crate::network_settings::{ATTEMPTS, PAUSE, apply, lines, start_init, until};
use crate::osd::{Client, Osd, code};
use osbuild_cosi::resource::TeardownAndDestroyRequest;
use tonic::Code;

const EXAMPLES: &str = include_str!("engine_examples.yaml");
const LINES: [&str; 4] = [
    "kernel-parameter kernel.domainname cosi.dev",
    "kernel-parameter net.ipv4.ip_forward 0",
    "mount /tmp tmpfs tmpfs",
    "search-domains local",
];

/// Waits until the resource has this YAML.
async fn becomes(client: &mut Client, type_name: &str, id: &str, expected: &str) {
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        let found = get_of(client, type_name, id).await;
        last = found.map(|found| found.spec.unwrap().yaml_spec).unwrap_or_default();
        if last == expected {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
    assert_eq!(last, expected);
}

#[tokio::test]
async fn the_examples_of_the_engine_apply_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    apply(&osd, EXAMPLES).await.unwrap();
    until("init holds them", || lines(&held) == LINES).await;

    let client = &mut osd.client().await;
    let status = "source: tmpfs\ntarget: /tmp\ntype: tmpfs\noptions: []\nmounted: true\n\
                  setBy: api\nversion: \"1\"\n";
    becomes(client, "MountStatuses.osbuild", "tmp", status).await;
    let status = "key: kernel.domainname\nvalue: cosi.dev\ncurrent: cosi.dev\nversion: \"1\"\n\
                  setBy: api\n";
    becomes(client, "KernelParameterStatuses.osbuild", "domainname", status).await;
}

#[tokio::test]
async fn a_mount_reaches_init_and_goes_with_its_resource() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    let document = "{type: Mount, id: a, spec: {type: tmpfs, source: a, target: /run/mnt/a, \
                    options: 'exec,size=1024k'}}";
    apply(&osd, document).await.unwrap();
    until("init holds it", || lines(&held) == ["mount /run/mnt/a tmpfs a exec,size=1m"]).await;
    let request = TeardownAndDestroyRequest {
        namespace: "system".into(),
        r#type: "Mounts.osbuild".into(),
        id: "a".into(),
        ..TeardownAndDestroyRequest::default()
    };
    osd.client().await.teardown_and_destroy(request).await.unwrap();
    until("init holds nothing", || lines(&held).is_empty()).await;
}

#[tokio::test]
async fn a_mount_that_no_node_can_have_is_refused() {
    let osd = Osd::start_with(&[]);
    for spec in [
        "type: tmpfs, source: a, target: run/mnt/a",
        "type: tmpfs, source: a, target: /run/mnt/../a",
        "type: tmpfs, source: a, target: /run/mnt/a, options: [suid]",
        "type: tmpfs, source: a, target: /run/mnt/a, options: [dev]",
        "type: tmpfs, source: a, target: /run/mnt/a, options: [size=0]",
        "type: proc, source: proc, target: /run/mnt/a",
        "type: bind, source: srv, target: /run/mnt/a",
        "type: tmpfs, target: /run/mnt/a",
    ] {
        let document = format!("{{type: Mount, id: a, spec: {{{spec}}}}}");
        assert_eq!(code(apply(&osd, &document).await), Code::InvalidArgument, "{document}");
    }
    let twice = "{type: Mount, id: a, spec: {type: tmpfs, source: a, target: /run/mnt/a}}\n---\n\
                 {type: Mount, id: b, spec: {type: tmpfs, source: b, target: /run/mnt/a}}\n";
    assert_eq!(code(apply(&osd, twice).await), Code::InvalidArgument);
}
