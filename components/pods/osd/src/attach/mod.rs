//! The program in a debug container: it starts a command of the container's image and connects it
//! with `osd`, which makes the socket. The connection, the command and the container end together.
//!
//! [`install`] copies it to where an image of somebody else can execute it.

mod copy;
mod descriptor;
mod process;
pub mod terminal;

use crate::debug::ID;
use crate::limits::MAX_MESSAGE;
use copy::{Direction, copy};
use hyper_util::rt::TokioIo;
use osbuild_abi::osd::DEBUG_VARIABLE;
use osbuild_cosi::v1::attach_client::AttachClient;
use osbuild_cosi::v1::debug_request::Part as Received;
use osbuild_cosi::v1::debug_response::Part;
use osbuild_cosi::v1::{DebugExit, DebugRequest, DebugResponse, DebugStart, DebugStarted};
use osbuild_failure::{Explain, Failure, Outcome};
use process::{Input, Process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::pipe::register;
use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};
use tower::service_fn;

/// How long a command may take to end when it is hung up on.
const HANG_UP_TIMEOUT: Duration = Duration::from_secs(1);
/// How long `osd` may take to receive the last message.
const LAST_TIMEOUT: Duration = Duration::from_secs(5);

/// The sender of messages to `osd`.
type To = mpsc::Sender<DebugResponse>;

/// Copies this program to the path.
///
/// # Errors
/// It cannot be written.
pub fn install(path: &Path) -> Outcome<()> {
    let explain = || format!("copy this program to `{}`", path.display());
    let copied = env::current_exe().and_then(|program| fs::copy(program, path));
    let executable = fs::Permissions::from_mode(0o755);
    copied.and_then(|_| fs::set_permissions(path, executable)).explain(explain())
}

/// Starts the command that `osd` names at this socket, and returns when it has ended. There has to
/// be a runtime.
///
/// # Errors
/// `osd` cannot be reached, or refuses it.
pub async fn run(socket: &Path) -> Outcome<()> {
    catch_signals_of_terminals().explain("handle signals")?;
    let mut terminated = termination().explain("handle signals")?;
    let id = env::var(DEBUG_VARIABLE).explain(format!("read {DEBUG_VARIABLE}"))?;
    let id = id.parse().explain("read the identifier of the container")?;
    let (to, responses) = mpsc::channel(1);
    let mut request = Request::new(ReceiverStream::new(responses));
    request.metadata_mut().insert(ID, id);
    let channel = connect(socket.to_owned()).await.explain("connect with osd")?;
    let mut client = AttachClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
    let mut requests = client.attach(request).await.explain("be accepted by osd")?.into_inner();
    let first = requests.message().await.explain("receive the command")?;
    let Some(Received::Start(start)) = first.and_then(|first| first.part) else {
        return Err(Failure::new("osd has sent no command"));
    };
    let ended = serve(start, &mut requests, &to, &mut terminated).await;
    let Some(code) = ended else { return Ok(()) };
    let _ = to.send(response(Part::Exit(DebugExit { code }))).await;
    drop(to);
    // The end of the container must not overtake it.
    let _ =
        timeout(LAST_TIMEOUT, async { while let Ok(Some(_)) = requests.message().await {} }).await;
    Ok(())
}

/// Catches the signals that a terminal sends, and does nothing then. A command starts with the
/// default for a signal that is caught here, but ignores one that is ignored here (execve(2)), as
/// below `nohup`: neither Ctrl-C nor the end of the connection would end it.
fn catch_signals_of_terminals() -> io::Result<()> {
    for signal in [SIGHUP, SIGINT, SIGQUIT] {
        flag::register(signal, Arc::default())?;
    }
    Ok(())
}

/// A socket that becomes readable when the kubelet ends the container with SIGTERM.
fn termination() -> io::Result<UnixStream> {
    let (readable, written) = net::UnixStream::pair()?;
    readable.set_nonblocking(true)?;
    register(SIGTERM, written)?;
    UnixStream::from_std(readable)
}

async fn connect(socket: PathBuf) -> Result<Channel, tonic::transport::Error> {
    let connect = service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    // The URL gives HTTP/2 an authority; nothing is looked up.
    Endpoint::from_static("http://osd").connect_with_connector(connect).await
}

/// Starts the command, and serves it. Returns its exit code, or nothing if the connection or the
/// container has ended before.
async fn serve(
    start: DebugStart,
    requests: &mut Streaming<DebugRequest>,
    to: &To,
    terminated: &mut UnixStream,
) -> Option<u32> {
    let Process { input, output, error_output, ending } = match Process::start(&start) {
        Ok(process) => process,
        Err(failed) => {
            let text = format!("error: {failed}\n").into_bytes();
            let _ = to.send(response(Part::ErrorOutput(text))).await;
            return Some(failed.code());
        }
    };
    to.send(response(Part::Started(DebugStarted {}))).await.ok()?;
    let _pipes = error_output.is_some().then(|| (output.clone(), error_output.clone()));
    let outputs = async {
        tokio::join!(
            copy(output, Direction::Output, ending.clone(), to),
            copy(error_output, Direction::ErrorOutput, ending.clone(), to),
        );
        ending.clone().code().await
    };
    let code = tokio::select! {
        code = outputs => Some(code),
        () = forward(requests, input) => None,
        () = to.closed() => None,
        _ = terminated.readable() => None,
    };
    if code.is_none() {
        // A terminal is closed here, so the kernel hangs up on its readers. Pipes stay open, as a
        // command that says farewell to a closed one would end before it has cleaned up.
        ending.hang_up();
        let _ = timeout(HANG_UP_TIMEOUT, ending.clone().code()).await;
        ending.kill();
    }
    code
}

/// Gives the command its input from `osd`. Returns when the connection ends.
async fn forward(requests: &mut Streaming<DebugRequest>, mut input: Input) {
    while let Ok(Some(request)) = requests.message().await {
        match request.part {
            Some(Received::Input(bytes)) => input.write(&bytes).await,
            Some(Received::Size(size)) => input.resize(size),
            Some(Received::EndOfInput(_)) => input.end().await,
            Some(Received::Start(_)) | None => {}
        }
    }
}

fn response(part: Part) -> DebugResponse {
    DebugResponse { part: Some(part) }
}
