//! The short-lived children of `init`: the same binary, started with the name of a
//! [`Program`]. Most talk to sockets and nothing else, so that PID 1 itself needs neither gRPC nor
//! an async runtime. Two do a part of an [update](crate::slot::update_job) on a partition,
//! some use the disks of volumes, one has the kernel move swap back into memory, and one has
//! containerd keep images, which it watches for minutes.

mod api;
mod api_server;
mod boot_program;
mod client_certificate;
mod cluster;
mod cluster_node;
mod cri;
mod document_settings;
mod forget;
mod gate;
mod health;
mod kubelet_config;
mod kubelet_settings;
mod layout;
mod load;
mod node_certificate;
mod node_condition;
mod node_document;
mod node_labels;
mod node_plugins;
mod node_watch;
mod pod_states;
mod proxy_exclusions;
mod resolver;
mod shutdown_grace;
mod slot;
mod stop;
mod swap;
mod system_images;
mod volume;

use std::path::Path;
use std::process::ExitCode;

use osbuild_failure::{Explain, Failure, Outcome};

use crate::data::tidy;
use crate::processes::program::{Life, Program};

/// Runs the child that the arguments name. It writes lines to its standard output.
pub fn run(arguments: &[String]) -> ExitCode {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Some((name, rest)) = words.split_first() else { return refuse() };
    let outcome = match (Program::of_subcommand(name), rest) {
        (Some(Program::Images), []) => block_on(load::images()),
        (Some(Program::Gate), [node_name]) => block_on(gate::ready(node_name)),
        (Some(Program::Trial), [node_name]) => block_on(gate::hold(node_name)),
        (Some(Program::Cluster), [node_name, labels @ ..]) => cluster::wait(node_name, labels),
        (Some(Program::NodeCondition), [node_name, problems @ ..]) => {
            node_condition::report(node_name, problems)
        }
        (Some(Program::NodeWatch), [node_name, settings @ ..]) => {
            node_watch::report(node_name, settings)
        }
        (Some(Program::Health), []) => block_on(health::ask()),
        (Some(Program::KubeletConfig), fields) => kubelet_config::apply(fields),
        (Some(Program::PodStates), [node_name, pods @ ..]) => {
            block_on(pod_states::report(node_name, pods))
        }
        (Some(Program::NodePlugins), []) => node_plugins::report(None),
        (Some(Program::NodePlugins), [containerd]) => node_plugins::report(Some(containerd)),
        (Some(Program::PodResolvers), []) => resolver::follow(),
        (Some(Program::Swap), words) => swap::run(words),
        (Some(Program::SystemImages), words) => block_on(system_images::run(words)),
        (Some(Program::Tidy), []) => tidy::run(),
        (Some(Program::Volume(_)), words) => volume::run(words),
        (Some(Program::StopPods), []) => block_on(stop::pods()),
        (Some(Program::TrySlot), [device]) => slot::verify(Path::new(device)),
        (Some(Program::ReplaceSlotboot), [device]) => {
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

/// Explains the program to a person who has started it by hand.
fn refuse() -> ExitCode {
    eprintln!("error: `init` is PID 1 of a node and does nothing on any other machine");
    let children = Program::ALL.into_iter().filter(|program| program.life() != Life::Daemon);
    // Those of volumes differ in their number alone.
    let children = children.filter(|program| !matches!(program, Program::Volume(1..)));
    let usages: Vec<String> = children.map(usage).collect();
    eprintln!("hint: its children are {}", usages.join(", "));
    ExitCode::from(2)
}

fn usage(program: Program) -> String {
    let name = program.name();
    match program {
        Program::Gate | Program::Trial => format!("`init {name} NODE-NAME`"),
        Program::Cluster => format!("`init {name} NODE-NAME LABEL…`"),
        Program::NodeCondition => format!("`init {name} NODE-NAME PROBLEM…`"),
        Program::NodeWatch => format!("`init {name} NODE-NAME SETTING…`"),
        Program::NodePlugins => format!("`init {name}`, `init {name} CONTAINERD-PID`"),
        Program::PodStates => format!("`init {name} NODE-NAME POD…`"),
        Program::KubeletConfig => format!("`init {name} FIELD=VALUE…`"),
        Program::SystemImages => {
            format!("`init {name} keep IMAGE…`, `init {name} watch IMAGE…`")
        }
        Program::Swap => format!("`init {name} on SIZE MEMORY-LIMIT`, `init {name} off`"),
        Program::Volume(_) => format!("`init {name} mount NAME DISK`, `init {name} unmount NAME`"),
        Program::TrySlot | Program::ReplaceSlotboot => format!("`init {name} DEVICE`"),
        _ => format!("`init {name}`"),
    }
}

fn block_on(work: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime
        .map_err(|error| Failure::new(error.to_string()))
        .explain("start the runtime")?
        .block_on(work)
}
