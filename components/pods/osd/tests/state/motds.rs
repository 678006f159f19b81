//! The message on the consoles as a resource, with an `init` that sets all that it is asked for.

use crate::network_settings::{apply, destroy, lines, start_init, status_when, until};
use crate::osd::{Osd, code};
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
    let status =
        status_when(client, "MotdStatuses.osbuild", "node", |yaml| yaml.contains("source: api"))
            .await;
    assert_eq!(status, expected);

    destroy(client, "Motds.osbuild", "place").await;
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
