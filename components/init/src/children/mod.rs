//! The short-lived children of `init`: the same binary, started with the name of its work. Most
//! talk to sockets and nothing else, so that PID 1 itself needs neither gRPC nor an async runtime.
//! Two do an [errand](crate::errand) on a partition.

mod api;
mod boot_program;
mod cluster;
mod cri;
mod forget;
mod gate;
mod health;
mod kubeconfig;
mod kubelet_config;
mod kubelet_settings;
mod layout;
mod load;
mod resolver;
mod slot;
mod stop;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use osbuild_failure::{Explain, Failure, Outcome};

use crate::errand::Work;

/// Ends all pods before the node does.
pub const STOP_PODS: &str = "stop-pods";

/// Runs the child that the arguments name. What it says goes to its standard output, a line at a
/// time.
pub fn run(arguments: &[String]) -> ExitCode {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (verify, replace) = (Work::Try.name(), Work::BootProgram.name());
    let outcome = match words.as_slice() {
        [crate::images::NAME] => block_on(load::images()),
        [crate::gate::NAME, node_name] => block_on(gate::wait(node_name, Duration::ZERO)),
        [crate::trial::NAME, node_name] => block_on(gate::hold(node_name)),
        [crate::cluster::NAME, node_name] => cluster::wait(node_name),
        [crate::health::NAME] => block_on(health::ask()),
        [crate::kubelet_config::NAME] => kubelet_config::write(),
        [crate::resolver::NAME] => resolver::follow(),
        [crate::tidy::NAME] => crate::tidy::run(),
        [STOP_PODS] => block_on(stop::pods()),
        [name, device] if *name == verify => slot::verify(Path::new(device)),
        [name, device] if *name == replace => {
            boot_program::replace(Path::new(device), std::io::stdin().lock())
        }
        _ => return refuse(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Says what the program is for, to somebody who started it by hand.
fn refuse() -> ExitCode {
    eprintln!("error: `init` is PID 1 of a node and does nothing on any other machine");
    let [verify, replace] = [Work::Try, Work::BootProgram].map(Work::name);
    let (config, resolver) = (crate::kubelet_config::NAME, crate::resolver::NAME);
    eprintln!(
        "hint: its children are `init images`, `init gate NODE-NAME`, `init trial NODE-NAME`, `init {config}`, `init {resolver}`, \
         `init {STOP_PODS}`, `init cluster NODE-NAME`, `init health`, `init tidy`, `init {verify} DEVICE` and `init {replace} DEVICE`"
    );
    ExitCode::from(2)
}

fn block_on(work: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime
        .map_err(|error| Failure::new(error.to_string()))
        .explain("start the runtime")?
        .block_on(work)
}
