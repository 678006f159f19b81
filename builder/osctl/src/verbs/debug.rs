//! `osctl debug`: a command in a container on the node.

use super::note;
use crate::cli::{Debug, Rights};
use crate::connection::Connection;
use crate::debug::escape::Escape;
use crate::debug::input;
use crate::debug::terminal::{self, RawMode};
use crate::error::{Error, Result};
use osbuild_cosi::v1::debug_request::Part as Sent;
use osbuild_cosi::v1::debug_response::Part;
use osbuild_cosi::v1::{DebugRequest, DebugResponse, DebugStart};
use std::future::pending;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tonic::Streaming;

/// Where requests go.
type To = mpsc::Sender<DebugRequest>;

/// Runs the command. Returns its exit code.
///
/// # Errors
/// The node refuses it, or the connection breaks.
pub async fn run(connection: &Connection, debug: Debug) -> Result<ExitCode> {
    let terminal = terminal::of_user();
    let is_terminal = terminal.is_some();
    let Debug { image, rights, timeout, command } = debug;
    let rights = match rights {
        Rights::Restricted => "restricted",
        Rights::Node => "node",
    };
    let rights = rights.to_owned();
    let start = DebugStart { image, command, rights, seconds: timeout, terminal };
    let (to, requests) = mpsc::channel(1);
    send(&to, Sent::Start(start)).await;
    let requests = futures_util::stream::unfold(requests, |mut requests| async move {
        Some((requests.recv().await?, requests))
    });
    let mut responses = connection.node().debug(requests).await?.into_inner();
    let code = match await_start(&mut responses).await? {
        None => talk(&mut responses, to, is_terminal).await?,
        Some(code) => code,
    };
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// Waits until the command runs, and shows the progress of the node. Returns an exit code if the
/// command does not start.
async fn await_start(responses: &mut Streaming<DebugResponse>) -> Result<Option<u32>> {
    loop {
        match next(responses).await? {
            Part::Progress(text) => note(&text),
            Part::Started(_) => return Ok(None),
            // This says why it does not.
            Part::Output(bytes) | Part::ErrorOutput(bytes) => drop(write(io::stderr(), &bytes)),
            Part::Exit(exit) => return Ok(Some(exit.code)),
        }
    }
}

async fn next(responses: &mut Streaming<DebugResponse>) -> Result<Part> {
    match responses.message().await? {
        Some(DebugResponse { part: Some(part) }) => Ok(part),
        _ => Err(Error::failed("the node has ended the call before the command has ended")),
    }
}

async fn send(to: &To, part: Sent) {
    // If the node takes none any more, its last response says why.
    let _ = to.send(DebugRequest { part: Some(part) }).await;
}

/// Forwards both directions until the command ends, whose exit code is returned.
async fn talk(responses: &mut Streaming<DebugResponse>, to: To, is_terminal: bool) -> Result<u32> {
    let handle = |kind| {
        signal(kind).map_err(|error| Error::failed("cannot handle signals").caused_by(&error))
    };
    let (mut ended, mut hung_up) =
        (handle(SignalKind::terminate())?, handle(SignalKind::hangup())?);
    let resized = handle(SignalKind::window_change())?;
    let _raw = is_terminal.then(RawMode::begin).transpose()?;
    tokio::select! {
        code = receive(responses) => code,
        left = forward(to, is_terminal, resized) => left,
        _ = ended.recv() => Err(interrupted()),
        _ = hung_up.recv() => Err(interrupted()),
    }
}

fn interrupted() -> Error {
    Error::failed("interrupted, so the command ends")
}

/// Writes the output of the command. Returns its exit code.
async fn receive(responses: &mut Streaming<DebugResponse>) -> Result<u32> {
    loop {
        let written = match next(responses).await? {
            Part::Output(bytes) => write(io::stdout().lock(), &bytes),
            Part::ErrorOutput(bytes) => write(io::stderr().lock(), &bytes),
            Part::Exit(exit) => return Ok(exit.code),
            Part::Progress(_) | Part::Started(_) => Ok(()),
        };
        match written {
            // A reader that has enough, as `head` has, is no error.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(0),
            Err(error) => return Err(Error::failed("cannot write").caused_by(&error)),
            Ok(()) => {}
        }
    }
}

fn write(mut to: impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).and_then(|()| to.flush())
}

/// Sends the user's input, and each size of the terminal. Returns if the user leaves.
async fn forward(to: To, is_terminal: bool, mut resized: Signal) -> Result<u32> {
    let mut input = input::read();
    let mut escape = Escape::default();
    loop {
        tokio::select! {
            bytes = input.recv() => {
                let Some(bytes) = bytes else { break };
                let kept = if is_terminal { escape.filter(&bytes) } else { Some(bytes) };
                let Some(bytes) = kept else {
                    return Err(Error::failed("you have left, so the command ends"));
                };
                send(&to, Sent::Input(bytes)).await;
            }
            _ = resized.recv(), if is_terminal => {
                if let Some(size) = terminal::current_size() {
                    send(&to, Sent::Size(size)).await;
                }
            }
        }
    }
    // The end of the requests is the end of the input.
    drop(to);
    pending().await
}
