//! The execution of actions on a server, from the upload of their inputs to their results.

use crate::cache::Server;
use crate::grpc::{Grpc, decode, fault};
use crate::operation::{ExecuteRequest, Operation, OperationName};
use crate::progress::Progress;
use crate::raw::Raw;
use crate::retry::TICK;
use crate::{BlobId, Cache, Fault};
use bytes::Bytes;
use http::uri::PathAndQuery;
use prost::Message;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};
use tonic::Streaming;

const EXECUTE: &str = "/build.bazel.remote.execution.v2.Execution/Execute";
const WAIT: &str = "/build.bazel.remote.execution.v2.Execution/WaitExecution";
const CANCEL: &str = "/google.longrunning.Operations/CancelOperation";

/// The timeout to cancel an action: a user waits for it after Ctrl-C.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// An action that a server executed to its end, in this call or in an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// The `ActionResult`, unchecked.
    pub result: Bytes,
    /// Whether the server had the result and did not execute the action for this call.
    pub is_cached: bool,
}

impl Cache {
    /// Why this server cannot execute our actions; `None` if it can.
    ///
    /// # Errors
    /// It cannot be asked.
    pub fn no_execution(&self) -> Result<Option<&'static str>, Fault> {
        Ok(self.limits()?.no_execution)
    }

    /// Executes an action on the server. Before each try, `supply` makes sure that the server has
    /// the action and all its inputs; its argument is the number of tries that failed. With
    /// `skip_cache`, the server does not use a result that it has.
    ///
    /// # Errors
    /// The server did not execute the action to its end, or `supply` failed.
    pub fn execute(
        &self,
        action: &BlobId,
        skip_cache: bool,
        supply: &mut dyn FnMut(u32) -> Result<(), Fault>,
    ) -> Result<Executed, Fault> {
        self.execute_within(self.retry.execution_timeout, action, skip_cache, supply)
    }

    /// Executes an action that takes no time, to try the server. It waits less long in its queue.
    /// Errors are those of [`Cache::execute`].
    pub fn try_out(
        &self,
        action: &BlobId,
        supply: &mut dyn FnMut(u32) -> Result<(), Fault>,
    ) -> Result<Executed, Fault> {
        self.execute_within(self.retry.trial_timeout, action, true, supply)
    }

    fn execute_within(
        &self,
        timeout: Duration,
        action: &BlobId,
        skip_cache: bool,
        supply: &mut dyn FnMut(u32) -> Result<(), Fault>,
    ) -> Result<Executed, Fault> {
        let Server::Grpc(grpc) = &self.server else {
            return Err(Fault::Refused("a plain cache executes nothing".to_owned()));
        };
        let request = ExecuteRequest {
            instance_name: grpc.instance.clone(),
            skip_cache_lookup: skip_cache,
            action_digest: Some(action.clone()),
        };
        let (mut failed, mut since) = (0, None);
        loop {
            supply(failed)?;
            // The first upload of the inputs may take long, and does not count.
            let limit = Limit { since: *since.get_or_insert_with(Instant::now), timeout };
            let running = Running::new(self);
            let attended = self.attended(grpc, &request, &running, limit);
            let fault = match self.runtime.block_on(attended) {
                Ok(executed) => return Ok(executed),
                Err(fault) => fault,
            };
            self.runtime.block_on(running.cancel(grpc));
            failed += 1;
            let may_succeed = fault.is_temporary() || matches!(fault, Fault::Missing);
            if !may_succeed || failed >= self.retry.tries {
                return Err(fault);
            }
            self.sleep(failed)?;
        }
    }

    /// Executes an action once, until it ends, the server is silent or the user wants to stop.
    async fn attended(
        &self,
        grpc: &Grpc,
        request: &ExecuteRequest,
        running: &Running,
        limit: Limit,
    ) -> Result<Executed, Fault> {
        let mut follow = pin!(self.follow(grpc, request, running));
        let mut attend = pin!(self.attend(grpc, &running.progress, limit));
        poll_fn(|context| match follow.as_mut().poll(context) {
            Poll::Pending => attend.as_mut().poll(context).map(Err),
            done => done,
        })
        .await
    }

    /// Starts an action, and follows it to its end. After a cut connection the server is asked for
    /// the same run, which went on without us. Only cuts of young streams are tries: those of
    /// healthy ones say nothing about the server, and the timeout of the action bounds them.
    async fn follow(
        &self,
        grpc: &Grpc,
        request: &ExecuteRequest,
        running: &Running,
    ) -> Result<Executed, Fault> {
        let (mut cuts, mut is_resumed) = (0, false);
        let mut opened = grpc.operations(EXECUTE, request).await;
        loop {
            let since = Instant::now();
            let fault = match opened {
                Ok(mut stream) => match running.ended(&mut stream).await {
                    Ok(operation) => return operation.executed(),
                    Err(fault) => fault,
                },
                Err(fault) => fault,
            };
            if since.elapsed() >= self.retry.healthy_after {
                cuts = 0;
            }
            let name = running.name();
            if name.is_empty() || !fault.is_temporary() || cuts == self.retry.tries {
                return Err(match fault {
                    // The server has forgotten the run, or cannot be asked for it.
                    Fault::Missing | Fault::Refused(_) if is_resumed => {
                        Fault::Temporary("it cut the connection of a running action".to_owned())
                    }
                    fault => fault,
                });
            }
            (cuts, is_resumed) = (cuts + 1, true);
            tokio::time::sleep(self.retry.pause(cuts)).await;
            opened = grpc.operations(WAIT, &OperationName { name }).await;
        }
    }

    /// Ends when the user wants to stop, the time is over, or the server no longer responds. An
    /// action may run for long without a message, so a silent server is asked for something else.
    async fn attend(&self, grpc: &Grpc, progress: &Progress, limit: Limit) -> Fault {
        loop {
            tokio::time::sleep(TICK).await;
            if (self.retry.is_stopped)() {
                return Fault::Stopped;
            }
            if limit.since.elapsed() > limit.timeout {
                let limit = limit.timeout.as_secs();
                return Fault::Unfinished(format!("the action did not end within {limit} s"));
            }
            if progress.idle() > self.retry.idle_timeout {
                match self.watched(&mut async |_| grpc.limits().await).await {
                    Ok(_) => progress.touch(),
                    Err(fault) => return fault,
                }
            }
        }
    }
}

/// The time that an action may take, since its inputs are there.
#[derive(Clone, Copy)]
struct Limit {
    since: Instant,
    timeout: Duration,
}

/// An action that may run on a server.
struct Running {
    /// The server's name for the run; empty before it is known and after the run has ended.
    name: Mutex<String>,
    progress: Progress,
}

impl Running {
    fn new(cache: &Cache) -> Self {
        Running { name: Mutex::default(), progress: Progress::new(&cache.counters) }
    }

    fn name(&self) -> String {
        self.name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_name(&self, name: String) {
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }

    /// The operation once it has ended.
    async fn ended(&self, stream: &mut Streaming<Bytes>) -> Result<Operation, Fault> {
        while let Some(message) = stream.message().await.map_err(fault)? {
            self.progress.touch();
            let operation: Operation = decode(message)?;
            if operation.done {
                self.set_name(String::new());
                return Ok(operation);
            }
            self.set_name(operation.name);
        }
        Err(Fault::Temporary("it ended the messages about an action early".to_owned()))
    }

    /// Asks the server to end the run. Nothing can be done about a server that does not.
    async fn cancel(&self, grpc: &Grpc) {
        let name = self.name();
        if !name.is_empty() {
            let request = OperationName { name };
            let call = grpc.unary(CANCEL, &request);
            let _ = tokio::time::timeout(CANCEL_TIMEOUT, call).await;
        }
    }
}

impl Grpc {
    /// The messages about an action, of `Execute` or `WaitExecution`.
    async fn operations(
        &self,
        method: &'static str,
        request: &impl Message,
    ) -> Result<Streaming<Bytes>, Fault> {
        let mut grpc = self.ready().await?;
        let request = self.request(request.encode_to_vec().into()).await?;
        let response = grpc.server_streaming(request, PathAndQuery::from_static(method), Raw).await;
        Ok(response.map_err(fault)?.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Any, ExecuteResponse};
    use crate::{Access, Retry};
    use http::{Request, Response};
    use http_body::{Body, Frame};
    use hyper::body::Incoming;
    use hyper::server::conn::http2;
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use std::convert::Infallible;
    use std::io;
    use std::net::SocketAddr;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Context;
    use tokio::net::TcpListener;
    use tokio::runtime;
    use tokio::sync::mpsc;

    /// A service that runs an action while something cuts the streams of messages about it.
    struct CutService {
        /// The age at which a stream is cut.
        age: Duration,
        /// The number of streams that are cut. The next one has the end of the action.
        cuts: usize,
        /// The number of runs that were started.
        runs: AtomicUsize,
        /// The number of streams so far.
        streams: AtomicUsize,
    }

    impl CutService {
        /// A service that serves until the test program ends, and its address.
        fn start(age: Duration, cuts: usize) -> (Arc<Self>, SocketAddr) {
            let (runs, streams) = Default::default();
            let service = Arc::new(CutService { age, cuts, runs, streams });
            let serving = Arc::clone(&service);
            let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
            let address = listener.local_addr().unwrap();
            std::thread::spawn(move || {
                runtime.block_on(async move {
                    while let Ok((client, _)) = listener.accept().await {
                        let service = Arc::clone(&serving);
                        let answer = service_fn(move |call| {
                            std::future::ready(Ok::<_, Infallible>(service.answer(&call)))
                        });
                        let server = http2::Builder::new(TokioExecutor::new());
                        tokio::spawn(server.serve_connection(TokioIo::new(client), answer));
                    }
                });
            });
            (service, address)
        }

        fn answer(&self, call: &Request<Incoming>) -> Response<Stream> {
            let (sender, messages) = mpsc::channel(2);
            let mut response = Response::new(Stream(messages));
            let headers = response.headers_mut();
            headers.insert("content-type", "application/grpc".parse().unwrap());
            match call.uri().path() {
                EXECUTE => self.runs.fetch_add(1, Ordering::SeqCst),
                WAIT => 0,
                _ => {
                    headers.insert("grpc-status", "0".parse().unwrap());
                    return response;
                }
            };
            let is_cut = self.streams.fetch_add(1, Ordering::SeqCst) < self.cuts;
            let (age, operation) = (self.age, if is_cut { running() } else { ended() });
            tokio::spawn(async move {
                sender.send(Ok(Frame::data(message(&operation)))).await.unwrap();
                tokio::time::sleep(age).await;
                let _ = sender.send(Err(io::Error::other("cut"))).await;
            });
            response
        }
    }

    fn running() -> Operation {
        Operation { name: "run".to_owned(), ..Operation::default() }
    }

    fn ended() -> Operation {
        let response = ExecuteResponse { result: "result".into(), ..ExecuteResponse::default() };
        let type_url = "build.bazel.remote.execution.v2.ExecuteResponse".to_owned();
        let response = Some(Any { type_url, value: response.encode_to_vec().into() });
        Operation { response, done: true, ..running() }
    }

    /// A message of gRPC, uncompressed.
    fn message(message: &impl Message) -> Bytes {
        let length = u32::try_from(message.encoded_len()).unwrap().to_be_bytes();
        [&[0], &length[..], &message.encode_to_vec()].concat().into()
    }

    /// The body of a response.
    struct Stream(mpsc::Receiver<io::Result<Frame<Bytes>>>);

    impl Body for Stream {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
            self.0.poll_recv(context)
        }
    }

    fn execute(
        service: SocketAddr,
        healthy_after: Duration,
        tries: u32,
    ) -> Result<Executed, Fault> {
        let first_pause = Duration::from_millis(5);
        let retry = Retry { healthy_after, tries, first_pause, ..Retry::default() };
        let address = format!("grpc://{service}").parse().unwrap();
        let cache = Cache::new(&address, &Access::default(), retry).unwrap();
        cache.execute(&BlobId::new("00".repeat(32), 1), false, &mut |_| Ok(()))
    }

    #[test]
    fn a_trial_does_not_wait_in_a_queue_for_as_long_as_an_action() {
        let (service, address) = CutService::start(Duration::from_secs(3600), usize::MAX);
        let trial_timeout = Duration::from_millis(200);
        let address = format!("grpc://{address}").parse().unwrap();
        let retry = Retry { trial_timeout, ..Retry::default() };
        let cache = Cache::new(&address, &Access::default(), retry).unwrap();
        let tried = cache.try_out(&BlobId::new("00".repeat(32), 1), &mut |_| {
            std::thread::sleep(trial_timeout * 2);
            Ok(())
        });
        let fault = tried.unwrap_err();
        assert!(matches!(fault, Fault::Unfinished(_)), "{fault}");
        assert_eq!(service.runs.load(Ordering::SeqCst), 1, "the upload took none of its time");
    }

    #[test]
    fn a_run_outlives_more_cuts_of_healthy_streams_than_tries() {
        let (service, address) = CutService::start(Duration::from_millis(200), 5);
        let executed = execute(address, Duration::from_millis(50), 2).unwrap();
        assert_eq!(executed.result, "result");
        assert_eq!(service.runs.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_run_whose_streams_are_cut_young_is_given_up_after_all_tries() {
        let (service, address) = CutService::start(Duration::ZERO, usize::MAX);
        let fault = execute(address, Duration::from_secs(10), 2).unwrap_err();
        assert!(matches!(fault, Fault::Temporary(_)), "{fault}");
        assert_eq!(service.runs.load(Ordering::SeqCst), 2);
        assert_eq!(service.streams.load(Ordering::SeqCst), 2 * 3, "each run was asked for twice");
    }
}
