//! The call `Debug`: `init` makes a container, and `osd` forwards messages between its command and
//! the client until one of them ends, or the time of the container is over.

use super::news::{self, News};
use super::request;
use super::waiting::{Attached, Waiting};
use crate::access::{Caller, record};
use crate::init::Init;
use crate::node;
use osbuild_cosi::v1::debug_request::Part as Sent;
use osbuild_cosi::v1::debug_response::Part;
use osbuild_cosi::v1::inspect_client::InspectClient;
use osbuild_cosi::v1::{
    DebugEndOfInput, DebugRequest, DebugResponse, DebugStart, ReadLogRequest, ReadLogResponse,
};
use osbuild_protocol::{ClientError, DebugContainer, Refusal, RefusalCode, Request as Wanted};
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};

/// How long the first request of a client may take.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a call waits for the container of an earlier one to end: a command has ended before its
/// container has.
const PLACE_TIMEOUT: Duration = Duration::from_secs(5);

/// The log that says why a pod does not start.
const KUBELET: &str = "kubelet";

/// Where the responses go.
type To = mpsc::Sender<Result<DebugResponse, Status>>;

/// The responses of a call.
pub type Responses = ReceiverStream<Result<DebugResponse, Status>>;

/// Debug containers, one at a time.
pub struct Containers {
    admin: Arc<Init>,
    waiting: Arc<Waiting>,
    /// Reads the kubelet's log.
    inspect: Option<InspectClient<Channel>>,
    place: Arc<Semaphore>,
}

/// A container that `init` has made.
struct Container {
    admin: Arc<Init>,
    waiting: Arc<Waiting>,
    caller: Arc<Caller>,
    wanted: DebugContainer,
    start: DebugStart,
    log: Option<Streaming<ReadLogResponse>>,
    _place: OwnedSemaphorePermit,
}

impl Containers {
    /// Containers of the `init` with this `admin` socket. One that a former process has left ends.
    /// There has to be a runtime.
    pub fn new(
        admin: Init,
        waiting: Arc<Waiting>,
        inspect: Option<InspectClient<Channel>>,
    ) -> Containers {
        let admin = Arc::new(admin);
        let former = admin.clone();
        tokio::spawn(async move { end(&former).await });
        Containers { admin, waiting, inspect, place: Arc::new(Semaphore::new(1)) }
    }

    /// Makes a container. Returns the responses, and the subject for the record of the call.
    ///
    /// # Errors
    /// The first request is malformed, there is a container already, or `init` refuses it.
    pub async fn begin(
        &self,
        caller: Arc<Caller>,
        mut requests: Streaming<DebugRequest>,
    ) -> Result<(Response<Responses>, String), Status> {
        let first = timeout(START_TIMEOUT, requests.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("no request has come"))??;
        let Some(Sent::Start(mut start)) = first.and_then(|first| first.part) else {
            return Err(Status::invalid_argument("the first request has no `start`"));
        };
        let wanted = request::check(&mut start)?;
        let place = timeout(PLACE_TIMEOUT, self.place.clone().acquire_owned()).await;
        let place = place.ok().and_then(Result::ok).ok_or_else(|| {
            Status::resource_exhausted("the node has a debug container already, of another call")
        })?;
        let log = self.follow_kubelet().await;
        let DebugContainer { rights, image, .. } = &wanted;
        let subject = format!("{image} with the rights {rights}: {:?}", start.command);
        let container = Container {
            admin: self.admin.clone(),
            waiting: self.waiting.clone(),
            caller,
            wanted,
            start,
            log,
            _place: place,
        };
        let ((made, is_made), (to, responses)) = (oneshot::channel(), mpsc::channel(1));
        // A client that goes away while `init` makes the container ends this call, and must not
        // leave the container behind.
        tokio::spawn(container.make_and_run(requests, made, to));
        is_made.await.unwrap_or_else(|_| Err(gone()))?;
        Ok((Response::new(ReceiverStream::new(responses)), subject))
    }

    /// The lines that the kubelet writes from now on, if they can be read.
    async fn follow_kubelet(&self) -> Option<Streaming<ReadLogResponse>> {
        let (name, tail_lines) = (KUBELET.to_owned(), Some(0));
        let request = ReadLogRequest { name, tail_lines, follow: true, previous: false };
        let log = self.inspect.clone()?.read_log(request).await;
        log.map(Response::into_inner).ok()
    }
}

/// Why `init` has not made a container. It may still have one of another client.
fn refused(error: ClientError) -> Status {
    match error {
        ClientError::Refused(Refusal { code: RefusalCode::Busy, reason }) => {
            Status::resource_exhausted(reason)
        }
        error => node::refused(error),
    }
}

/// Has `init` remove the container, if there is one.
async fn end(admin: &Init) {
    let ended = admin.converse(|client| client.send(&Wanted::EndDebug)).await;
    if let Err(error) = ended {
        // It has a deadline of its own.
        eprintln!("error: a debug container may go on: {error}");
    }
}

impl Container {
    /// Has `init` make the container, reports whether it has, and forwards until the end.
    async fn make_and_run(
        self,
        requests: Streaming<DebugRequest>,
        made: oneshot::Sender<Result<(), Status>>,
        to: To,
    ) {
        let attached = self.waiting.expect(self.wanted.id.clone());
        let asked = Wanted::Debug(self.wanted.clone());
        let asked = self.admin.converse(move |client| client.send(&asked)).await.map_err(refused);
        let is_made = asked.is_ok();
        // The client may have gone.
        let _ = made.send(asked);
        if is_made {
            self.run(attached, requests, to).await;
        }
    }

    /// Forwards until the end, and has the container removed.
    async fn run(
        mut self,
        attached: oneshot::Receiver<Attached>,
        requests: Streaming<DebugRequest>,
        to: To,
    ) {
        let ended = self.forward(attached, requests, &to).await;
        self.waiting.forget();
        end(&self.admin).await;
        let how = match &ended {
            Ok(code) => format!("its command has ended with exit code {code}"),
            Err(status) => status.message().to_owned(),
        };
        record::ended(&self.caller, &self.wanted.id.pod(), &how);
        if let Err(status) = ended {
            // The client may have gone.
            let _ = to.send(Err(status)).await;
        }
    }

    /// Forwards until the command ends, whose exit code is returned.
    async fn forward(
        &mut self,
        attached: oneshot::Receiver<Attached>,
        requests: Streaming<DebugRequest>,
        to: &To,
    ) -> Result<u32, Status> {
        let seconds = self.wanted.time.seconds();
        let time = self.wanted.time.duration();
        let connected = async {
            let attached = self.wait(attached, to).await?;
            connect(self.start.clone(), attached, requests, to).await
        };
        tokio::select! {
            ended = connected => ended,
            () = to.closed() => Err(gone()),
            () = sleep(time) => Err(Status::deadline_exceeded(format!(
                "the time of the container is over: {seconds} s"
            ))),
        }
    }

    /// Waits for the program in the container, and reports errors of the kubelet meanwhile.
    async fn wait(
        &mut self,
        mut attached: oneshot::Receiver<Attached>,
        to: &To,
    ) -> Result<Attached, Status> {
        let (pod, image) = (self.wanted.id.pod(), &self.wanted.image);
        let begins = format!("{pod} begins; the node pulls {image} unless it has it");
        progress(begins, to).await?;
        let mut last = String::new();
        loop {
            let lines = tokio::select! {
                attached = &mut attached => {
                    return attached.map_err(|_| Status::internal("nobody waits any more"));
                }
                lines = next_lines(&mut self.log) => lines,
            };
            for line in lines {
                match news::read(&line, &pod) {
                    Some(News::Failure(reason)) => return Err(Status::failed_precondition(reason)),
                    Some(News::Trouble(text)) if text != last => {
                        progress(text.clone(), to).await?;
                        last = text;
                    }
                    _ => {}
                }
            }
        }
    }
}

/// The next lines of a log. None come from one that cannot be read any more.
async fn next_lines(log: &mut Option<Streaming<ReadLogResponse>>) -> Vec<String> {
    if let Some(messages) = log {
        if let Ok(Some(ReadLogResponse { lines })) = messages.message().await {
            return lines.into_iter().map(|line| line.text).collect();
        }
        *log = None;
    }
    pending().await
}

async fn progress(text: String, to: &To) -> Result<(), Status> {
    send(Part::Progress(text), to).await
}

async fn send(part: Part, to: &To) -> Result<(), Status> {
    to.send(Ok(DebugResponse { part: Some(part) })).await.map_err(|_| gone())
}

fn gone() -> Status {
    Status::cancelled("its client has gone")
}

/// Connects the program in the container with the client. Returns the exit code of the command.
async fn connect(
    start: DebugStart,
    Attached { requests: program, mut responses }: Attached,
    mut requests: Streaming<DebugRequest>,
    to: &To,
) -> Result<u32, Status> {
    let start = DebugRequest { part: Some(Sent::Start(start)) };
    let over = || Status::aborted("the container has ended before its command");
    program.send(Ok(start)).await.map_err(|_| over())?;
    tokio::select! {
        ended = forward_requests(&mut requests, &program) => ended.map(|never| match never {}),
        ended = forward_responses(&mut responses, to) => ended?.ok_or_else(over),
    }
}

/// Forwards requests of the client. Returns only if they are out of order or the client is gone.
async fn forward_requests(
    requests: &mut Streaming<DebugRequest>,
    program: &mpsc::Sender<Result<DebugRequest, Status>>,
) -> Result<Infallible, Status> {
    loop {
        let next = requests.message().await.map_err(|_| gone())?;
        let is_last = next.is_none();
        let end = DebugRequest { part: Some(Sent::EndOfInput(DebugEndOfInput {})) };
        let request = next.unwrap_or(end);
        if matches!(request.part, None | Some(Sent::Start(_))) {
            return Err(Status::invalid_argument("only the first request has `start`"));
        }
        // The program may have ended. Its last message has the exit code.
        if program.send(Ok(request)).await.is_err() || is_last {
            return pending().await;
        }
    }
}

/// Forwards responses of the program, and returns the exit code of its command, if one comes.
async fn forward_responses(
    responses: &mut Streaming<DebugResponse>,
    to: &To,
) -> Result<Option<u32>, Status> {
    loop {
        // The connection breaks with the container.
        let Ok(Some(DebugResponse { part: Some(part) })) = responses.message().await else {
            return Ok(None);
        };
        match part {
            // Progress is that of the node, which only this program knows.
            Part::Progress(_) => {}
            Part::Exit(exit) => {
                let code = exit.code;
                send(Part::Exit(exit), to).await?;
                return Ok(Some(code));
            }
            other => send(other, to).await?,
        }
    }
}
