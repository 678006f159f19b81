//! Clients on the network: what is recorded of them, and how their connections end.

use crate::osd::{TYPE, create, metadata, thing};
use crate::remote::RemoteOsd;
use osbuild_cosi::resource::TeardownAndDestroyRequest;
use std::time::Duration;
use tokio::time::timeout;

/// How long a call may go on that waits for another one.
const WAIT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn a_call_that_its_client_aborts_is_recorded() {
    let remote = RemoteOsd::start(&[]);
    let alice = remote.identity("alice", "admin");
    let mut client = remote.state(&alice).await;
    let mut held = thing("a");
    metadata(&mut held).finalizers.push("network".into());
    create(&mut client, held).await.unwrap();
    let request = || TeardownAndDestroyRequest {
        namespace: "system".into(),
        r#type: TYPE.into(),
        id: "a".into(),
        options: None,
    };
    let waits = timeout(WAIT, client.teardown_and_destroy(request())).await;
    assert!(waits.is_err(), "{waits:?}");
    let line = "call: admin \"alice\": cosi.resource.State/TeardownAndDestroy: aborted";
    remote.recorded(line, 1).await;

    let mut client = remote.state(&alice).await;
    let task = tokio::spawn(async move { client.teardown_and_destroy(request()).await });
    tokio::time::sleep(WAIT).await;
    // Its runtime forgets the connection with the call.
    task.abort();
    remote.recorded(line, 2).await;
}
