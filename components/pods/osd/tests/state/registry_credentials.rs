//! Credentials of registries as resources, with an `init` that sets all that it is asked for. What
//! nobody may read is a planted text, which is looked for in the bytes of all that `osd` sends.

use crate::kept::{get_of, keep};
use crate::network_settings::{Held, apply, lines, start_init, until};
use crate::osd::{Client, NAMESPACE, Osd, code, metadata, update};
use crate::remote::RemoteOsd;
use osbuild_cosi::resource::{
    ListRequest, Resource, TeardownAndDestroyRequest, WatchOptions, WatchRequest,
};
use osbuild_cosi::v1::configuration_client::ConfigurationClient;
use osbuild_cosi::v1::{ApplyRequest, ListGenerationsRequest, RestoreGenerationRequest};
use osbuild_protocol::Setting;
use prost::Message;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tonic::Code;
use tonic::transport::Channel;

const TYPE: &str = "RegistryCredentials.osbuild";
const STATUSES: &str = "RegistryCredentialStatuses.osbuild";

const PLANTED: &str = "pl4nted-s3cret";
const OTHER: &str = "an0ther-s3cret";

fn document(registry: &str, password: &str) -> String {
    format!(
        "{{type: RegistryCredential, id: hub, spec: {{registry: {registry}, username: node, \
         password: '{password}'}}}}"
    )
}

/// Refuses a message with a secret.
#[track_caller]
fn clean<M: Message>(message: M) -> M {
    let bytes = message.encode_to_vec();
    for secret in [PLANTED, OTHER] {
        let is_there = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!is_there, "{}", String::from_utf8_lossy(&bytes));
    }
    message
}

/// The lines that `init` holds, with their secrets.
fn held_lines(held: &Held) -> Vec<String> {
    held.lock().unwrap().iter().map(Setting::line).collect()
}

fn line(registry: &str, base64: &str) -> [String; 1] {
    [format!("registry-credential {registry} user=node password={base64}")]
}

/// Those of [`PLANTED`] and [`OTHER`].
const PLANTED_BASE64: &str = "cGw0bnRlZC1zM2NyZXQ=";
const OTHER_BASE64: &str = "YW4wdGhlci1zM2NyZXQ=";

#[tokio::test]
async fn credentials_reach_init_have_a_status_and_go_with_their_resource() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    apply(&osd, &document("a.example", PLANTED)).await.unwrap();
    until("init holds them", || held_lines(&held) == line("a.example", PLANTED_BASE64)).await;
    assert_eq!(lines(&held), ["registry-credential a.example user=node password=(hidden)"]);
    let client = &mut osd.client().await;
    let expected = "registry: a.example\nusername: node\nset: true\nsetBy: api\nversion: \"1\"\n";
    let mut status = String::new();
    for _ in 0..crate::network_settings::ATTEMPTS {
        let found = get_of(client, STATUSES, "hub").await;
        status = found.map(|found| clean(found).spec.unwrap().yaml_spec).unwrap_or_default();
        if status.contains("set: true") {
            break;
        }
        tokio::time::sleep(crate::network_settings::PAUSE).await;
    }
    assert_eq!(status, expected);

    let request = TeardownAndDestroyRequest {
        namespace: NAMESPACE.into(),
        r#type: TYPE.into(),
        id: "hub".into(),
        ..TeardownAndDestroyRequest::default()
    };
    client.teardown_and_destroy(request).await.unwrap();
    until("init holds nothing", || held_lines(&held).is_empty()).await;
}

#[tokio::test]
async fn a_secret_outlasts_a_crash_and_comes_back_with_its_generation() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let [flag, value] = keep(folder.path());
    let arguments = ["--host", socket.to_str().unwrap(), flag.as_str(), value.as_str()];
    let mut osd = Osd::start_with(&arguments);
    apply(&osd, &document("a.example", PLANTED)).await.unwrap();
    apply(&osd, &document("a.example", OTHER)).await.unwrap();
    until("init holds the other", || held_lines(&held) == line("a.example", OTHER_BASE64)).await;
    let mode = std::fs::metadata(folder.path().join("resources")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    osd.restart_with(&arguments);
    held.lock().unwrap().clear();
    until("init holds it again", || held_lines(&held) == line("a.example", OTHER_BASE64)).await;
    let client = &mut ConfigurationClient::new(osd.channel().await);
    let generations = client.list_generations(ListGenerationsRequest {}).await.unwrap();
    let generations = clean(generations.into_inner()).generations;
    let change = &generations[0].changes[0];
    assert!(change.before.contains("password: (hidden)\n"), "{}", change.before);
    assert!(change.after.contains("(hidden, changed)"), "{}", change.after);
    let request = RestoreGenerationRequest { number: generations[1].number, dry_run: false };
    clean(client.restore_generation(request).await.unwrap().into_inner());
    until("the first is back", || held_lines(&held) == line("a.example", PLANTED_BASE64)).await;
}

#[tokio::test]
async fn a_hidden_secret_is_kept_for_the_same_spec_and_cannot_be_sent_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("host");
    let held = start_init(&socket);
    let osd = Osd::start_with(&["--host", socket.to_str().unwrap()]);
    let hidden = document("a.example", "(hidden)");
    assert_eq!(code(apply(&osd, &hidden).await), Code::InvalidArgument, "there is none");
    apply(&osd, &document("a.example", PLANTED)).await.unwrap();
    apply(&osd, &hidden).await.unwrap();

    let client = &mut osd.client().await;
    let mut found = get_of(client, TYPE, "hub").await.unwrap();
    metadata(&mut found).labels.insert("site".into(), "north".into());
    let updated = clean(update(client, found).await.unwrap());
    let refused = apply(&osd, &document("thief.example", "(hidden)")).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("write the secret again"), "{}", refused.message());
    let yaml = "registry: thief.example\nusername: node\npassword: (hidden)\n";
    for keeps_message in [false, true] {
        let mut stolen = updated.clone();
        let spec = stolen.spec.as_mut().unwrap();
        spec.yaml_spec = yaml.to_owned();
        if !keeps_message {
            spec.proto_spec.clear();
        }
        assert_eq!(code(update(client, stolen).await), Code::InvalidArgument);
    }
    until("init holds it", || held_lines(&held) == line("a.example", PLANTED_BASE64)).await;
}

#[tokio::test]
async fn credentials_that_no_node_can_have_are_refused_without_showing_them() {
    let osd = Osd::start_with(&[]);
    for spec in [
        format!("registry: a, password: {PLANTED}"),
        format!("username: a, password: {PLANTED}"),
        format!("registry: a/b, username: c, password: {PLANTED}"),
        format!("registry: a, username: b, password: {PLANTED}, token: {PLANTED}"),
        format!("registry: a, username: b, pasword: {PLANTED}"),
        format!("registry: a, username: b, password: [{PLANTED}]"),
        format!("registry: a, username: b, password: {{{PLANTED}: c}}"),
        format!("registry: a, token: '{PLANTED} '"),
        format!("registry: a, token: {PLANTED}, plainHttp: true"),
        "registry: a, username: b, password: 72".to_owned(),
    ] {
        let document = format!("{{type: RegistryCredential, id: a, spec: {{{spec}}}}}");
        let refused = apply(&osd, &document).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{document}");
        assert!(!refused.message().contains(PLANTED), "{}", refused.message());
    }
    let twice = document("a", PLANTED) + "\n---\n" + &document("a", OTHER).replace("hub", "b");
    let refused = apply(&osd, &twice).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(!refused.message().contains("s3cret"), "{}", refused.message());
}

/// All that reading calls return.
async fn read_all(state: &mut Client, channel: Channel) {
    let (namespace, r#type) = (NAMESPACE.to_owned(), TYPE.to_owned());
    let found = clean(get_of(state, TYPE, "hub").await.unwrap());
    assert!(found.spec.unwrap().yaml_spec.contains("password: (hidden)"));
    let (kind, options) = (r#type.clone(), None);
    let request = ListRequest { namespace: namespace.clone(), r#type: kind, options };
    let mut list = state.list(request).await.unwrap().into_inner();
    let listed = clean(list.message().await.unwrap().unwrap());
    assert_eq!(listed.resource.map(id), Some("hub".to_owned()));
    let options = Some(WatchOptions { bootstrap_contents: true, ..WatchOptions::default() });
    let request = WatchRequest { namespace, r#type, id: None, options, api_version: 1 };
    let mut watch = state.watch(request).await.unwrap().into_inner();
    let mut events = Vec::new();
    while events.is_empty() {
        events = clean(watch.message().await.unwrap().unwrap()).events().unwrap();
    }
    assert_eq!(events.remove(0).resource.map(id), Some("hub".to_owned()));
    let generations =
        ConfigurationClient::new(channel).list_generations(ListGenerationsRequest {}).await;
    assert!(!clean(generations.unwrap().into_inner()).generations.is_empty());
}

fn id(mut resource: Resource) -> String {
    metadata(&mut resource).id.clone()
}

#[tokio::test]
async fn no_role_reads_a_secret_and_no_record_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let [flag, value] = keep(folder.path());
    let remote = RemoteOsd::start(&[&flag, &value]);
    let admin = remote.identity("alice", "admin");
    let configuration = &mut ConfigurationClient::new(remote.channel(&admin).await.unwrap());
    for (password, dry_run) in [(PLANTED, true), (PLANTED, false), (OTHER, true), (OTHER, false)] {
        let request = ApplyRequest { documents: document("a.example", password), dry_run };
        clean(configuration.apply(request).await.unwrap().into_inner());
    }
    for role in ["reader", "operator", "admin"] {
        let identity = remote.identity("bob", role);
        let state = &mut remote.state(&identity).await;
        read_all(state, remote.channel(&identity).await.unwrap()).await;
    }
    read_all(&mut remote.osd.client().await, remote.osd.channel().await).await;
    let record = remote.recorded("RegistryCredentials.osbuild(system/hub)", 2).await;
    assert!(!record.contains(PLANTED) && !record.contains(OTHER), "{record}");
    assert!(has(&folder.path().join("resources"), OTHER), "the file alone has it");
}

fn has(path: &Path, text: &str) -> bool {
    let bytes = std::fs::read(path).unwrap();
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}
