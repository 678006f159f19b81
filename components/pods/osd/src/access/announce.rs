//! Has a person at the console learn by what clients recognize the node.

use crate::init::Init;
use osbuild_protocol::{ClientError, Fingerprint, Request};
use std::sync::Arc;
use std::time::Duration;

/// The pause before `init` is asked again.
const PAUSE: Duration = Duration::from_secs(5);

/// Has `init` print the fingerprint with which this program serves, once `init` can be reached.
pub async fn announce(init: Arc<Init>, fingerprint: Fingerprint) {
    let request = Request::Serves(fingerprint);
    loop {
        let request = request.clone();
        match init.converse(move |client| client.send(&request).map(drop)).await {
            Ok(()) => return,
            Err(ClientError::Refused(refusal)) => {
                eprintln!("error: the console has no fingerprint: {}", refusal.reason);
                return;
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
