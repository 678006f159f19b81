//! The proxy of the node as a resource, with an `init` that sets all that it is asked for.

use crate::network_settings::{apply, destroy, lines, start_init, status_when, until};
use crate::osd::{Osd, code};
use tonic::Code;

const DOCUMENT: &str = "type: Proxy\nid: node\nspec:\n  http: http://proxy.example:3128\n  \
                        https: http://proxy.example:3128\n  noProxy: [.example, 10.0.0.0/8]\n";

#[tokio::test]
async fn a_proxy_reaches_init_has_a_status_and_goes_with_its_resource() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    apply(&osd, DOCUMENT).await.unwrap();
    let line = "proxy http=http://proxy.example:3128 https=http://proxy.example:3128 \
                no-proxy=.example,10.0.0.0/8";
    until("init holds it", || lines(&held) == [line]).await;

    let client = &mut osd.client().await;
    let expected = "http: http://proxy.example:3128\nhttps: http://proxy.example:3128\n\
                    noProxy:\n- .example\n- 10.0.0.0/8\nsource: api\nresource: node\n\
                    version: \"1\"\n";
    let status =
        status_when(client, "ProxyStatuses.osbuild", "node", |yaml| yaml.contains("source: api"))
            .await;
    assert_eq!(status, expected);

    destroy(client, "Proxies.osbuild", "node").await;
    until("init holds nothing", || lines(&held).is_empty()).await;
}

#[tokio::test]
async fn a_proxy_that_no_node_can_have_is_refused() {
    let osd = Osd::start_with(&[]);
    for spec in [
        "",
        "noProxy: [a.example]",
        "http: proxy.example",
        "http: 'http://proxy.example'",
        "http: 'socks5://proxy.example:1080'",
        "http: 'http://proxy.example:3128/path'",
        "https: 'http://proxy.example:3128', noProxy: ['*']",
        "https: 'http://proxy.example:3128', noProxy: ['10.0.']",
        "https: 'http://proxy.example:3128', noProxy: ['a,b']",
        "https: 'http://proxy.example:3128', ftp: 'http://proxy.example:3128'",
    ] {
        let document = format!("{{type: Proxy, id: node, spec: {{{spec}}}}}");
        assert_eq!(code(apply(&osd, &document).await), Code::InvalidArgument, "{document}");
    }
    let secret = DOCUMENT.replace("http://proxy", "http://user:secret@proxy");
    let refused = apply(&osd, &secret).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let reason = refused.message();
    assert!(reason.contains("password") && !reason.contains("secret"), "{reason}");
    let twice = format!("{DOCUMENT}---\n{}", DOCUMENT.replace("id: node", "id: other"));
    assert_eq!(code(apply(&osd, &twice).await), Code::InvalidArgument);
}
