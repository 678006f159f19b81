//! The message on the consoles as a resource, with an `init` that sets all that it is asked for.

use crate::kept::get_of;
use crate::network_settings::{ATTEMPTS, PAUSE, apply, lines, start_init, until};
use crate::osd::{Osd, code};
use osbuild_cosi::resource::TeardownAndDestroyRequest;
use tonic::Code;

const DOCUMENT: &str =
    "type: Motd\nid: place\nspec:\n  text: |\n    Rack 7, 100 % ours\n      Ask ops\n";

#[tokio::test]
async fn a_message_reaches_init_has_a_status_and_goes_with_its_resource() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    apply(&osd, DOCUMENT).await.unwrap();
    let line = "motd Rack%207%2c%20100%20%25%20ours%0a%20%20Ask%20ops";
    until("init holds it", || lines(&held) == [line]).await;

    let client = &mut osd.client().await;
    let expected = "text: |-\n  Rack 7, 100 % ours\n    Ask ops\nsource: api\nresource: place\n\
                    version: \"1\"\n";
    let mut status = String::new();
    for _ in 0..ATTEMPTS {
        let found = get_of(client, "MotdStatuses.osbuild", "node").await;
        status = found.map(|found| found.spec.unwrap().yaml_spec).unwrap_or_default();
        if status.contains("source: api") {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    assert_eq!(status, expected);

    let request = TeardownAndDestroyRequest {
        namespace: "system".into(),
        r#type: "Motds.osbuild".into(),
        id: "place".into(),
        ..TeardownAndDestroyRequest::default()
    };
    client.teardown_and_destroy(request).await.unwrap();
    until("init holds nothing", || lines(&held).is_empty()).await;
}

#[tokio::test]
async fn a_message_that_no_console_may_show_is_refused() {
    let osd = Osd::start_with(&[]);
    let long = format!("text: {}", "a".repeat(69));
    for spec in
        ["", "text: ''", r#"text: "\e[2J""#, r#"text: "a\rb""#, "text: für", &long, "lines: [a]"]
    {
        let document = format!("{{type: Motd, id: node, spec: {{{spec}}}}}");
        assert_eq!(code(apply(&osd, &document).await), Code::InvalidArgument, "{document}");
    }
    let twice = format!("{DOCUMENT}---\n{}", DOCUMENT.replace("id: place", "id: other"));
    assert_eq!(code(apply(&osd, &twice).await), Code::InvalidArgument);
}
