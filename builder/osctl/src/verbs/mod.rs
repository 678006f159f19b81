//! The verbs, a file each.

mod apply;
mod capture;
mod dashboard;
mod debug;
mod delete;
mod describe;
mod diff;
mod edit;
mod explain;
mod export;
mod get;
mod graph;
mod guard;
mod history;
mod logs;
mod node;
mod node_state;
mod nodes;
mod output;
mod processes;
mod reach;
mod read;
mod support;
mod top;
mod tries;

use crate::cli::{Cli, Verb};
use crate::error::{Error, Result, printable};
use crate::resource;
use crate::selection::Selection;
use crate::stderr;
use clap::CommandFactory;
use clap_complete::Shell;
use nodes::{AfterFailure, change, connect, show};
pub use processes::mebibytes;
use serde_json::Value;
use std::io::Write;
use std::process::ExitCode;

/// Does what the command line asks for. The exit code is another than success only if the verb says
/// something by it.
pub async fn run(Cli { verb, nodes: node }: Cli) -> Result<ExitCode> {
    let node = &node;
    match verb {
        Verb::Node(verb) => node::run(verb, node.token_file()).await,
        Verb::Get { r#type, id, output, watch: true } => {
            let name = r#type.unwrap_or_default();
            get::watch(&connect(node).await?, &name, id, &output).await
        }
        Verb::Get { r#type: None, output, .. } => {
            show(node, async |one| get::types(one, &output).await).await
        }
        Verb::Get { r#type: Some(name), id, output, .. } => {
            show(node, async |one| get::resources(one, &name, id.as_deref(), &output).await).await
        }
        Verb::Explain { path: None } => show(node, explain::list).await,
        Verb::Explain { path: Some(path) } => {
            show(node, async |one| explain::run(one, &path).await).await
        }
        Verb::Export => show(node, export::run).await,
        Verb::Graph { output } => show(node, async |one| graph::show(one, output).await).await,
        Verb::Describe { r#type, id } => {
            show(node, async |one| describe::run(one, &r#type, id.as_deref()).await).await
        }
        Verb::Dashboard | Verb::Debug(_) | Verb::Diff { .. } => return with_code(verb, node).await,
        Verb::Apply { file, how } => apply::run(node, &file, how).await,
        Verb::Edit(edit) => edit::run(node, edit).await,
        Verb::Delete(delete) => delete::run(&connect(node).await?, delete).await,
        Verb::Confirm => change(node, AfterFailure::GoOn, tries::confirm).await,
        Verb::History { output } => show(node, async |one| history::show(one, output).await).await,
        Verb::Revert { generation: None, .. } => {
            change(node, AfterFailure::GoOn, tries::revert).await
        }
        Verb::Revert { generation: Some(number), how } => {
            history::restore(&connect(node).await?, number, how).await
        }
        Verb::Try => show(node, tries::show).await,
        Verb::Status { output } => {
            show(node, async |one| node_state::show(one, output).await).await
        }
        Verb::Logs { name: None, .. } => show(node, logs::list).await,
        Verb::Logs { name: Some(name), lines, previous, timestamps } => {
            let reading = logs::Reading { lines, previous, timestamps };
            logs::show(&connect(node).await?, &name, reading).await
        }
        Verb::Dmesg { lines } => logs::show_kernel(&connect(node).await?, lines).await,
        Verb::Ps { output } => show(node, async |one| processes::show(one, output).await).await,
        Verb::Top(top) if top.watch => top::watch(&connect(node).await?, &top).await,
        Verb::Top(top) => show(node, async |one| top::show(one, &top).await).await,
        Verb::Read { path: None } => show(node, read::list).await,
        Verb::Read { path: Some(path) } => {
            show(node, async |one| read::show(one, &path).await).await
        }
        Verb::Support { file } => support::run(&connect(node).await?, file).await,
        Verb::Capture(capture) => capture::run(&connect(node).await?, capture).await,
        Verb::Reach(reach) => reach::show(&connect(node).await?, reach).await,
        Verb::Restart { daemon } => node_state::restart(&connect(node).await?, daemon).await,
        Verb::Reboot => node_state::reboot(&connect(node).await?).await,
        Verb::Update => node_state::check_for_release(&connect(node).await?).await,
        Verb::Rollback => node_state::roll_back(&connect(node).await?).await,
        Verb::Reset { yes } => node_state::reset(node, yes).await,
        Verb::PowerOff => node_state::power_off(&connect(node).await?).await,
        Verb::Completions { shell } => completions(shell),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the verbs whose exit code has a meaning of its own.
async fn with_code(verb: Verb, node: &Selection) -> Result<ExitCode> {
    match verb {
        Verb::Debug(debug) => debug::run(&connect(node).await?, debug).await,
        Verb::Diff { file } => diff::run(node, &file).await,
        _ => dashboard::run(node).await,
    }
}

fn completions(shell: Shell) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "osctl", &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// Writes to stdout. A reader that has enough, as `head` has, is no error, and does not end what
/// the verb does: other nodes may have to be changed yet, and the exit code counts.
fn print(text: &str) -> Result<()> {
    is_read(text).map(drop)
}

/// Writes a part of an output that may have no end. A reader that has enough ends the program.
fn print_part(text: &str) -> Result<()> {
    match is_read(text)? {
        true => Ok(()),
        false => std::process::exit(0),
    }
}

/// Writes to stdout. Returns whether it still has a reader.
fn is_read(text: &str) -> Result<bool> {
    let mut stdout = std::io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::failed("cannot write").caused_by(&error)),
        Ok(()) => Ok(true),
    }
}

/// A JSON value in several lines.
fn json_of(value: &Value) -> String {
    resource::escaped_json(&format!("{value:#}")) + "\n"
}

/// Writes lines to stdout.
fn print_lines(lines: &[String]) -> Result<()> {
    print(&lines_of(lines))
}

/// Lines, each with its end.
fn lines_of(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn note(text: &str) {
    stderr::print_line(format_args!("note: {}", printable(text)));
}
