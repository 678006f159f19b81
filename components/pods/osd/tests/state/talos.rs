//! The first call of `talosctl get`.

use crate::remote::RemoteOsd;
use osbuild_cosi::machine::machine_service_client::MachineServiceClient;
use tonic::Request;

#[tokio::test]
async fn a_client_of_talos_gets_the_version_of_the_node_api() {
    let remote = RemoteOsd::start(&[]);
    let channel = remote.channel(&remote.identity("alice", "reader")).await.unwrap();
    let mut request = Request::new(());
    // Talos' proxy reads the node from here.
    request.metadata_mut().insert("node", "10.0.2.15".parse().unwrap());
    let answer = MachineServiceClient::new(channel).version(request).await.unwrap().into_inner();
    let tag = &answer.messages[0].version.as_ref().unwrap().tag;
    let numbers = tag.strip_prefix('v').unwrap().split('.').map(str::parse::<u64>);
    assert_eq!(numbers.filter(Result::is_ok).count(), 3, "{tag}");
    remote.recorded("call: reader \"alice\": machine.MachineService/Version: done", 1).await;
}
