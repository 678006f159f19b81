//! The verbs, a file each.

mod apply;
mod delete;
mod get;
mod history;
mod logs;
mod node;
mod node_state;
mod processes;
mod tries;

use crate::cli::{Cli, Daemon, How, Verb};
use crate::connection::Connection;
use crate::error::{Error, Result, printable};
use crate::known_nodes::KnownNodes;
use crate::resource;
use clap::CommandFactory;
use serde_json::Value;
use std::io::Write;

/// Does what the command line asks for.
pub async fn run(Cli { verb, node }: Cli) -> Result<()> {
    let node = node.as_deref();
    match verb {
        Verb::Node(verb) => node::run(verb).await,
        Verb::Get { r#type, id, output, watch } => {
            let connection = connect(node).await?;
            match r#type {
                None => get::types(&connection, output).await,
                Some(name) => get::run(&connection, &name, id, output, watch).await,
            }
        }
        Verb::Apply { file, how } => apply::run(async || connect(node).await, &file, how).await,
        Verb::Delete { r#type, id } => delete::run(&connect(node).await?, &r#type, &id).await,
        Verb::Confirm => tries::confirm(&connect(node).await?).await,
        Verb::History { output } => history::show(&connect(node).await?, output).await,
        Verb::Revert { generation: None, how: How { dry_run: false, r#try: None } } => {
            tries::revert(&connect(node).await?).await
        }
        Verb::Revert { generation: None, .. } => {
            Err(Error::usage("which generation?").hint("`osctl history` lists them"))
        }
        Verb::Revert { generation: Some(number), how } => {
            history::restore(&connect(node).await?, number, how).await
        }
        Verb::Try => tries::show(&connect(node).await?).await,
        Verb::Status { output } => node_state::show(&connect(node).await?, output).await,
        Verb::Logs { name: None, .. } => logs::list(&connect(node).await?).await,
        Verb::Logs { name: Some(name), lines, previous, timestamps } => {
            let reading = logs::Reading { lines, previous, timestamps };
            logs::show(&connect(node).await?, &name, reading).await
        }
        Verb::Dmesg { lines } => logs::show_kernel(&connect(node).await?, lines).await,
        Verb::Ps { output } => processes::show(&connect(node).await?, output).await,
        Verb::Restart { daemon: Daemon::Kubelet } => {
            node_state::restart_kubelet(&connect(node).await?).await
        }
        Verb::Reboot => node_state::reboot(&connect(node).await?).await,
        Verb::Update => node_state::check_for_release(&connect(node).await?).await,
        Verb::Rollback => node_state::roll_back(&connect(node).await?).await,
        Verb::Reset { yes } => node_state::reset(&connect(node).await?, yes).await,
        Verb::PowerOff => node_state::power_off(&connect(node).await?).await,
        Verb::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "osctl", &mut text);
            print(&String::from_utf8_lossy(&text))
        }
    }
}

/// Connects to the node that the user names.
async fn connect(name: Option<&str>) -> Result<Connection> {
    let node = KnownNodes::of_user()?.get(name)?;
    Connection::open(&node.address, &node.certificate, Some(&node.fingerprint)).await
}

/// Writes to stdout. A reader that has enough, as `head` has, is no error.
fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => written.map_err(|error| Error::failed("cannot write").caused_by(&error)),
    }
}

/// Writes a JSON value to stdout, in several lines.
fn print_json(value: &Value) -> Result<()> {
    print(&(resource::escaped_json(&format!("{value:#}")) + "\n"))
}

/// Writes lines to stdout.
fn print_lines(lines: &[String]) -> Result<()> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    print(&text)
}

fn note(text: &str) {
    eprintln!("note: {}", printable(text));
}
