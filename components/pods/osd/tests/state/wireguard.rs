//! Tunnels of WireGuard as resources, with an `init` that makes all that it is asked for.

use crate::kept::get_of;
use crate::network_settings::{ATTEMPTS, PAUSE, apply, lines, start_init, until};
use crate::osd::{Osd, code};
use osbuild_protocol::Setting;
use tonic::Code;

const KEY: &str = "+C5uPI+LwtD0ASrcA8O3unwdwbH4oh00+FQs+0Pho28=";
const PRESHARED: &str = "fLmJ9BhXlT775w7OqmDU8dZ59elGcl03roySZp5gvs4=";
const PEER: &str = "I2VYQH8unqEV3+Q4DFptm46PcT4LJqU+7euvnbk9pl4=";

fn document(key: &str, preshared: &str, endpoint: &str) -> String {
    format!(
        "{{type: Link, id: w, spec: {{link: wg0, wireguard: {{privateKey: {key}, listenPort: 9, \
         peers: [{{publicKey: {PEER}, presharedKey: {preshared}, endpoint: '{endpoint}', \
         allowedIps: ['::/0', 10.7.0.0/24]}}]}}}}}}"
    )
}

#[tokio::test]
async fn a_tunnel_reaches_init_with_its_keys_which_nobody_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    apply(&osd, &document(KEY, PRESHARED, "192.0.2.1:9")).await.unwrap();
    let shown = format!(
        "link wg0 made wireguard private-key=(hidden) listen-port=9 peers={PEER},\
         preshared-key=(hidden),endpoint=192.0.2.1:9,allowed=10.7.0.0/24,allowed=::/0"
    );
    until("init holds it", || lines(&held) == [shown.clone()]).await;
    let whole: Vec<String> = held.lock().unwrap().iter().map(Setting::line).collect();
    assert!(whole[0].contains(KEY) && whole[0].contains(PRESHARED));

    let client = &mut osd.client().await;
    let expected = format!(
        "link: wg0\nset: true\nversion: \"1\"\nwireguard:\n  \
         publicKey: BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=\n  listenPort: 9\n  peers:\n  \
         - publicKey: {PEER}\n    endpoint: 192.0.2.1:9\n    \
         lastHandshake: \"2026-09-21T14:13:20Z\"\nsetBy: api\n"
    );
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        let found = get_of(client, "LinkSettingStatuses.osbuild", "w").await;
        last = found.map(|found| found.spec.unwrap().yaml_spec).unwrap_or_default();
        if last == expected {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    assert_eq!(last, expected);
    let spec = get_of(client, "Links.osbuild", "w").await.unwrap().spec.unwrap();
    let proto = String::from_utf8_lossy(&spec.proto_spec).into_owned();
    for key in [KEY, PRESHARED] {
        assert!(!spec.yaml_spec.contains(key) && !proto.contains(key), "{}", spec.yaml_spec);
    }

    apply(&osd, &document("(hidden)", "(hidden)", "192.0.2.1:9")).await.unwrap();
    let other = document("(hidden)", "(hidden)", "192.0.2.2:9");
    let refused = apply(&osd, &other).await.unwrap_err();
    assert!(refused.message().contains("write the secret again"), "{refused:?}");
    let whole: Vec<String> = held.lock().unwrap().iter().map(Setting::line).collect();
    assert!(whole[0].contains(KEY), "it stays");
}

#[tokio::test]
async fn a_tunnel_that_cannot_be_is_refused_without_its_keys() {
    let osd = Osd::start_with(&[]);
    let whole = document(KEY, PRESHARED, "192.0.2.1:9");
    for (from, to) in [
        (KEY, "(hidden)"),
        (KEY, "7"),
        (KEY, &KEY[..30]),
        (PRESHARED, &PRESHARED[..30]),
        (PEER, "a"),
        ("192.0.2.1:9", "vpn.example:9"),
        ("10.7.0.0/24", "10.7.0.1/24"),
        ("listenPort: 9", "listenPort: 65536"),
        ("listenPort", "port"),
        ("link: wg0,", "link: wg0, dhcp: true,"),
        ("link: wg0,", "link: cilium_wg0,"),
        ("link: wg0,", "link: wg0, bridge: {},"),
    ] {
        let refused = apply(&osd, &whole.replacen(from, to, 1)).await;
        let message = refused.as_ref().map_err(|refused| refused.message().to_owned());
        let message = message.err().unwrap_or_default();
        assert!(!message.contains(&KEY[..20]) && !message.contains(&PRESHARED[..20]), "{message}");
        assert_eq!(code(refused), Code::InvalidArgument, "{to}");
    }
    apply(&osd, &whole).await.unwrap();
    let vlan = "{type: Link, id: v, spec: {link: v, vlan: {id: 5, parent: wg0}}}";
    let refused = apply(&osd, vlan).await.unwrap_err();
    assert_eq!(refused.message(), "`wg0` is a link of WireGuard, and cannot carry `v`");
}
