//! Labels and taints as resources, with an `init` that sets all that it is asked for.

use crate::kept::get_of;
use crate::network_settings::{ATTEMPTS, PAUSE, apply, lines, start_init, until};
use crate::osd::{Osd, code};
use osbuild_cosi::resource::TeardownAndDestroyRequest;
use tonic::Code;

const DOCUMENTS: &str = "{type: NodeLabel, id: rack, spec: {key: example.org/rack, value: '7'}}\n\
                         ---\n{type: NodeLabel, id: edge, spec: {key: edge}}\n---\n\
                         {type: NodeTaint, id: database, spec: {key: dedicated, value: database, \
                         effect: NoSchedule}}\n";

#[tokio::test]
async fn labels_and_taints_reach_init_have_statuses_and_go_with_their_resources() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    apply(&osd, DOCUMENTS).await.unwrap();
    let expected = [
        "node-label edge -",
        "node-label example.org/rack 7",
        "node-taint dedicated:NoSchedule database",
    ];
    until("init holds them", || lines(&held) == expected).await;

    let client = &mut osd.client().await;
    let label = "key: example.org/rack\nvalue: \"7\"\nset: true\nsetBy: api\nversion: \"1\"\n";
    let empty = "key: edge\nset: true\nsetBy: api\nversion: \"1\"\n";
    let taint = "key: dedicated\nvalue: database\neffect: NoSchedule\nset: true\nsetBy: api\n\
                 version: \"1\"\n";
    for (kind, id, expected) in [
        ("NodeLabelStatuses", "rack", label),
        ("NodeLabelStatuses", "edge", empty),
        ("NodeTaintStatuses", "database", taint),
    ] {
        let mut status = String::new();
        for _ in 0..ATTEMPTS {
            let found = get_of(client, &format!("{kind}.osbuild"), id).await;
            status = found.map(|found| found.spec.unwrap().yaml_spec).unwrap_or_default();
            if status.contains("set: true") {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        let status = status.replace("value: \"\"\n", "");
        assert_eq!(status, expected);
    }

    for (kind, id) in [("NodeLabels", "rack"), ("NodeLabels", "edge"), ("NodeTaints", "database")] {
        let request = TeardownAndDestroyRequest {
            namespace: "system".into(),
            r#type: format!("{kind}.osbuild"),
            id: id.into(),
            ..TeardownAndDestroyRequest::default()
        };
        client.teardown_and_destroy(request).await.unwrap();
    }
    until("init holds nothing", || lines(&held).is_empty()).await;
}

#[tokio::test]
async fn labels_and_taints_that_no_node_may_give_itself_are_refused() {
    let osd = Osd::start_with(&[]);
    for (kind, spec) in [
        ("NodeLabel", "value: a"),
        ("NodeLabel", "key: a b"),
        ("NodeLabel", "key: a, value: -a"),
        ("NodeLabel", "key: node-role.kubernetes.io/control-plane"),
        ("NodeLabel", "key: node-restriction.kubernetes.io/a, value: b"),
        ("NodeTaint", "key: a"),
        ("NodeTaint", "key: a, effect: noschedule"),
        ("NodeTaint", "key: 'a:NoExecute', effect: NoSchedule"),
        ("NodeTaint", "key: a, value: 'b:NoExecute', effect: NoSchedule"),
    ] {
        let document = format!("{{type: {kind}, id: a, spec: {{{spec}}}}}");
        let status = apply(&osd, &document).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{document}");
        let is_restricted = spec.contains("kubernetes.io");
        assert_eq!(status.message().contains("NodeRestriction"), is_restricted, "{status}");
    }
    for twice in [
        "{type: NodeLabel, id: a, spec: {key: a}}\n---\n{type: NodeLabel, id: b, spec: {key: a}}",
        "{type: NodeTaint, id: a, spec: {key: a, effect: NoExecute}}\n---\n\
         {type: NodeTaint, id: b, spec: {key: a, effect: NoExecute, value: c}}",
    ] {
        assert_eq!(code(apply(&osd, twice).await), Code::InvalidArgument, "{twice}");
    }
}
