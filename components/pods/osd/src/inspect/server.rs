//! The server of the container `inspect`.

use super::capture::{self, CaptureSocket};
use super::files::{self, Places};
use super::log_file::LogFile;
use super::logs::{self, Run};
use super::reach::{self, Files, Reachable};
use super::{kernel_log, processes, sys, usage};
use crate::socket;
use osbuild_cosi::v1::inspect_server::{Inspect, InspectServer};
use osbuild_cosi::v1::{
    CaptureRequest, CaptureResponse, GetUsageRequest, GetUsageResponse, ListFilesRequest,
    ListFilesResponse, ListLogsRequest, ListLogsResponse, ListProcessesRequest,
    ListProcessesResponse, ReachRequest, ReachResponse, ReadFileRequest, ReadFileResponse,
    ReadKernelLogRequest, ReadKernelLogResponse, ReadLogRequest, ReadLogResponse,
};
use osbuild_failure::{Explain, Outcome};
use rustix::thread::set_name;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

/// Logs and files that are read at a time.
pub const MAX_READERS: usize = 32;

/// The pause before a log is looked at again.
const PAUSE: Duration = Duration::from_millis(250);

/// The part of a file that is in one message, in bytes.
const PART: usize = 64 << 10;

/// The longest file that is read whole, in bytes.
const MAX_FILE: u64 = 16 << 20;

/// The most messages of the kernel in one message of the service.
const MAX_MESSAGES: usize = 256;

/// Where the container finds what it reads.
pub struct Options {
    /// The socket at which it serves.
    pub socket: PathBuf,
    /// The folder of the logs.
    pub logs: PathBuf,
    /// The file system with the processes of the node (proc(5)).
    pub processes: PathBuf,
    /// The pod that it runs in, `NAMESPACE/POD`.
    pub pod: String,
    /// The files by which the node finds and trusts others.
    pub files: Files,
    /// The files that clients may read.
    pub places: Places,
}

impl Options {
    /// The sources of the files that clients may read.
    fn readable(&self) -> files::Files {
        files::Files {
            places: self.places.clone(),
            processes: self.processes.clone(),
            resolver: self.files.resolver.clone(),
            hosts: self.files.hosts.clone(),
        }
    }
}

/// The name of the process, which distinguishes it from the other one of the program.
const NAME: &CStr = c"inspect";

/// Serves until the process ends. There has to be a runtime.
///
/// # Errors
/// The socket cannot be made, or the server fails.
pub async fn serve(options: Options) -> Outcome<()> {
    set_name(NAME).explain("name the process")?;
    let listener = socket::listen(&options.socket)?;
    let readers = Arc::new(Semaphore::new(MAX_READERS));
    let probes = Arc::new(Semaphore::new(reach::MAX_CALLS));
    let captures = Arc::new(Semaphore::new(capture::MAX_CAPTURES));
    let service = InspectService { options: Arc::new(options), readers, probes, captures };
    Server::builder()
        .add_service(InspectServer::new(service))
        .serve_with_incoming(UnixListenerStream::new(listener))
        .await
        .explain("serve")
}

struct InspectService {
    options: Arc<Options>,
    readers: Arc<Semaphore>,
    probes: Arc<Semaphore>,
    captures: Arc<Semaphore>,
}

impl InspectService {
    fn reader(&self) -> Result<OwnedSemaphorePermit, Status> {
        self.readers.clone().try_acquire_owned().map_err(|_| {
            let full = format!("{MAX_READERS} logs and files are being read already");
            Status::resource_exhausted(full)
        })
    }
}

type Answer<T> = Result<Response<T>, Status>;
type Messages<T> = ReceiverStream<Result<T, Status>>;

/// Sends what is read until there is no more, or until nobody takes it.
type To<T> = Sender<Result<T, Status>>;

fn failed(error: io::Error) -> Status {
    Status::internal(error.to_string())
}

#[tonic::async_trait]
impl Inspect for InspectService {
    type ReadFileStream = Messages<ReadFileResponse>;
    type ReadLogStream = Messages<ReadLogResponse>;
    type ReadKernelLogStream = Messages<ReadKernelLogResponse>;
    type ReachStream = Messages<ReachResponse>;
    type CaptureStream = Messages<CaptureResponse>;

    async fn list_logs(&self, _: Request<ListLogsRequest>) -> Answer<ListLogsResponse> {
        let names = logs::names(&self.options.logs).map_err(failed)?;
        Ok(Response::new(ListLogsResponse { names }))
    }

    async fn read_log(&self, request: Request<ReadLogRequest>) -> Answer<Self::ReadLogStream> {
        let ReadLogRequest { name, tail_lines, follow, previous } = request.into_inner();
        let run = if previous { Run::Previous } else { Run::Current };
        let found = logs::find(&self.options.logs, &name, run).map_err(failed)?;
        let log = found.map_err(|missing| Status::not_found(missing.sentence(&name)))?;
        let (permit, file) = (self.reader()?, LogFile::open(&log, tail_lines).map_err(failed)?);
        let (to, messages) = mpsc::channel(1);
        tokio::spawn(async move {
            if let Err(error) = send_log(file, follow, &to).await {
                let _ = to.send(Err(failed(error))).await;
            }
            drop(permit);
        });
        Ok(Response::new(ReceiverStream::new(messages)))
    }

    async fn read_kernel_log(
        &self,
        request: Request<ReadKernelLogRequest>,
    ) -> Answer<Self::ReadKernelLogStream> {
        let ReadKernelLogRequest { tail_lines, follow } = request.into_inner();
        let permit = self.reader()?;
        let (to, messages) = mpsc::channel(1);
        tokio::spawn(async move {
            if let Err(error) = send_kernel_log(tail_lines, follow, &to).await {
                let _ = to.send(Err(failed(error))).await;
            }
            drop(permit);
        });
        Ok(Response::new(ReceiverStream::new(messages)))
    }

    async fn list_processes(
        &self,
        _: Request<ListProcessesRequest>,
    ) -> Answer<ListProcessesResponse> {
        let Options { processes, logs, pod, .. } = &*self.options;
        Ok(Response::new(processes::list(processes, logs, pod).map_err(failed)?))
    }

    async fn get_usage(&self, _: Request<GetUsageRequest>) -> Answer<GetUsageResponse> {
        let Options { processes, logs, .. } = &*self.options;
        Ok(Response::new(usage::read(processes, logs).map_err(failed)?))
    }

    async fn list_files(&self, _: Request<ListFilesRequest>) -> Answer<ListFilesResponse> {
        let files = self.options.readable().list();
        Ok(Response::new(ListFilesResponse { files }))
    }

    async fn read_file(&self, request: Request<ReadFileRequest>) -> Answer<Self::ReadFileStream> {
        let ReadFileRequest { path } = request.into_inner();
        let file = self.options.readable().open(&path).map_err(failed)?;
        let file = file.ok_or_else(|| Status::not_found(format!("`{path}` cannot be read")))?;
        let (permit, (to, messages)) = (self.reader()?, mpsc::channel(1));
        tokio::spawn(async move {
            if let Err(status) = send_file(file, &to).await {
                let _ = to.send(Err(status)).await;
            }
            drop(permit);
        });
        Ok(Response::new(ReceiverStream::new(messages)))
    }

    async fn reach(&self, request: Request<ReachRequest>) -> Answer<Self::ReachStream> {
        let permit = self.probes.clone().try_acquire_owned().map_err(|_| {
            Status::resource_exhausted(format!("{} targets are tried already", reach::MAX_CALLS))
        })?;
        let (reachable, request) = (Reachable::of(request.metadata()), request.into_inner());
        let (options, (to, messages)) = (self.options.clone(), mpsc::channel(1));
        tokio::spawn(async move {
            reach::run(request, reachable, &options.files, &to).await;
            drop(permit);
        });
        Ok(Response::new(ReceiverStream::new(messages)))
    }

    async fn capture(&self, request: Request<CaptureRequest>) -> Answer<Self::CaptureStream> {
        let permit = self.captures.clone().try_acquire_owned().map_err(|_| {
            Status::resource_exhausted(format!("{} captures run already", capture::MAX_CAPTURES))
        })?;
        let own = capture::connection_of(request.metadata());
        let request = capture::Request::check(request.into_inner(), own)?;
        let (socket, (to, messages)) = (CaptureSocket::open(&request)?, mpsc::channel(1));
        tokio::spawn(async move {
            capture::run(&request, socket, &to).await;
            drop(permit);
        });
        Ok(Response::new(ReceiverStream::new(messages)))
    }
}

async fn send_file(file: File, to: &To<ReadFileResponse>) -> Result<(), Status> {
    let mut rest = file.take(MAX_FILE);
    loop {
        let mut data = Vec::with_capacity(PART);
        (&mut rest).take(PART as u64).read_to_end(&mut data).map_err(failed)?;
        if data.is_empty() {
            break;
        }
        if to.send(Ok(ReadFileResponse { data })).await.is_err() {
            return Ok(());
        }
    }
    match rest.into_inner().read(&mut [0]).map_err(failed)? {
        0 => Ok(()),
        _ => Err(Status::out_of_range(format!("it is longer than {MAX_FILE} bytes"))),
    }
}

async fn send_log(mut file: LogFile, follows: bool, to: &To<ReadLogResponse>) -> io::Result<()> {
    loop {
        let lines = file.read()?;
        if !lines.is_empty() {
            if to.send(Ok(ReadLogResponse { lines })).await.is_err() {
                return Ok(());
            }
        } else if !follows {
            let lines = file.finish();
            if !lines.is_empty() {
                let _ = to.send(Ok(ReadLogResponse { lines })).await;
            }
            return Ok(());
        } else if pause_is_last(to).await {
            return Ok(());
        } else {
            file.follow()?;
        }
    }
}

async fn send_kernel_log(
    tail: Option<u32>,
    follows: bool,
    to: &To<ReadKernelLogResponse>,
) -> io::Result<()> {
    let mut reader = kernel_log::Reader::default();
    let mut messages = reader.begin(kernel_log::messages(&sys::kernel_log()?), tail);
    loop {
        for part in messages.chunks(MAX_MESSAGES) {
            let messages = part.to_vec();
            if to.send(Ok(ReadKernelLogResponse { messages })).await.is_err() {
                return Ok(());
            }
        }
        if !follows || pause_is_last(to).await {
            return Ok(());
        }
        messages = reader.go_on(kernel_log::messages(&sys::kernel_log()?));
    }
}

/// Waits before a log is looked at again. Returns whether the client has gone.
async fn pause_is_last<T>(to: &To<T>) -> bool {
    tokio::select! {
        () = to.closed() => true,
        () = sleep(PAUSE) => false,
    }
}
