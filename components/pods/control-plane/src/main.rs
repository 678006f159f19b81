//! The `control-plane` pod. It has no arguments. It waits for a configuration and for the network,
//! makes the control plane, and changes it when settings have another configuration. It prints one
//! line per event on stderr, and ends only by a signal.

use std::time::Duration;

use control_plane::follow::{follow, wait_for_change};
use control_plane::make::Progress;
use control_plane::setting;
use osbuild_failure::Outcome;

/// The pause after the first failure. Each further failure doubles it, up to the maximum.
const FIRST_RETRY: Duration = Duration::from_secs(5);
const MAX_RETRY: Duration = Duration::from_secs(120);

fn main() {
    let (mut retry, mut progress) = (FIRST_RETRY, Progress::default());
    loop {
        let wanted = setting::wanted();
        match follow(&mut progress) {
            Ok(made) => {
                eprintln!("the node is a control plane");
                print_failure(setting::report_made(made.as_deref()));
                retry = FIRST_RETRY;
                wait_for_change(made.as_deref(), None);
            }
            Err(failure) => {
                eprintln!("error: {failure}; tries again in {} s", retry.as_secs());
                print_failure(setting::report_failure(&failure));
                wait_for_change(wanted.as_deref(), Some(retry));
                retry = (2 * retry).min(MAX_RETRY);
            }
        }
    }
}

/// Prints why `init` does not learn of the outcome.
fn print_failure(reported: Outcome) {
    if let Err(failure) = reported {
        eprintln!("error: {failure}");
    }
}
