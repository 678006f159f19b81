//! The `control-plane` pod. It has no arguments. It waits for a configuration on DATA and for the
//! network, makes the control plane once, and then only waits. It prints one line per event on
//! stderr, and ends only by a signal.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use control_plane::make::{CONFIGURATION, MADE, Progress, alone, make};
use control_plane::role::Role;
use control_plane::routes;
use osbuild_failure::{Explain, Outcome};

/// How often to look whether what this program waits for is there.
const INTERVAL: Duration = Duration::from_secs(2);
/// The pause after the first failure. Each further failure doubles it, up to the maximum.
const FIRST_RETRY: Duration = Duration::from_secs(5);
const MAX_RETRY: Duration = Duration::from_secs(120);

fn main() {
    let (mut retry, mut progress) = (FIRST_RETRY, Progress::default());
    while !Path::new(MADE).exists() {
        match wait_and_make(&mut progress) {
            Ok(()) => eprintln!("the control plane is made"),
            Err(failure) => {
                eprintln!("error: {failure}; tries again in {} s", retry.as_secs());
                sleep(retry);
                retry = (2 * retry).min(MAX_RETRY);
            }
        }
    }
    eprintln!("the node is a control plane");
    loop {
        std::thread::park();
    }
}

fn wait_and_make(progress: &mut Progress) -> Outcome {
    let role = wait(&format!("{CONFIGURATION} on DATA"), || Role::read(Path::new(CONFIGURATION)))?;
    wait("a default route", || Ok(routes::has_default()?.then_some(())))?;
    let _alone = alone()?;
    make(role, progress)
}

/// Waits until this is there, and returns it. Prints its name if that takes time.
fn wait<T>(name: &str, find: impl Fn() -> Outcome<Option<T>>) -> Outcome<T> {
    let mut is_first = true;
    loop {
        if let Some(found) = find().explain(format_args!("look for {name}"))? {
            return Ok(found);
        }
        if is_first {
            eprintln!("waits for {name}");
        }
        is_first = false;
        sleep(INTERVAL);
    }
}
