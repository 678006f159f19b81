//! A proxy between a client and its service that refuses calls of gRPC, as a service does that is
//! too busy or that no longer knows the client.

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http2::handshake;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::thread;
use tokio::net;

/// Codes of gRPC.
pub const NOT_FOUND: u16 = 5;
pub const RESOURCE_EXHAUSTED: u16 = 8;
pub const UNIMPLEMENTED: u16 = 12;
pub const UNAVAILABLE: u16 = 14;
pub const UNAUTHENTICATED: u16 = 16;

/// Which calls the proxy refuses.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    /// The end of the method's name.
    pub method: &'static str,
    /// The code.
    pub code: u16,
    /// How many calls are refused before the others reach the service.
    pub times: usize,
}

/// A proxy that serves until the test program ends.
pub struct Refuser {
    pub address: SocketAddr,
    calls: Arc<AtomicUsize>,
}

impl Refuser {
    /// The number of calls of the method so far.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

/// Decides about a call: the code with which it is refused, or `None`.
type Rule = dyn Fn(&Request<Incoming>) -> Option<u16> + Send + Sync;

/// A proxy in front of `service`.
pub fn refuse(service: SocketAddr, refusal: Refusal) -> Refuser {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let rule = move |request: &Request<Incoming>| {
        let is_refused = request.uri().path().ends_with(refusal.method)
            && counted.fetch_add(1, Ordering::SeqCst) < refusal.times;
        is_refused.then_some(refusal.code)
    };
    Refuser { address: serve(service, Arc::new(rule)), calls }
}

/// A proxy in front of `service` that refuses calls without this header. Its `calls` are those that
/// it refuses.
pub fn demand(service: SocketAddr, (name, value): (&'static str, &'static str)) -> Refuser {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let rule = move |request: &Request<Incoming>| {
        let is_refused = request.headers().get(name).is_none_or(|found| found != value);
        is_refused.then(|| counted.fetch_add(1, Ordering::SeqCst)).map(|_| UNAUTHENTICATED)
    };
    Refuser { address: serve(service, Arc::new(rule)), calls }
}

/// Serves calls in front of `service`, and returns the address.
fn serve(service: SocketAddr, rule: Arc<Rule>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    thread::spawn(move || {
        runtime.block_on(async move {
            let listener = net::TcpListener::from_std(listener).unwrap();
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, service, Arc::clone(&rule)));
            }
        });
    });
    address
}

async fn pass(client: net::TcpStream, service: SocketAddr, rule: Arc<Rule>) {
    let upstream = TokioIo::new(net::TcpStream::connect(service).await.unwrap());
    let (sender, connection) = handshake(TokioExecutor::new(), upstream).await.unwrap();
    tokio::spawn(connection);
    let answer = service_fn(move |request: Request<Incoming>| {
        let (mut sender, refused) = (sender.clone(), rule(&request));
        async move {
            if let Some(code) = refused {
                let refused = Response::builder().header("content-type", "application/grpc");
                return Ok(refused.header("grpc-status", code).body(Answer::Empty).unwrap());
            }
            sender.send_request(request).await.map(|response| response.map(Answer::OfService))
        }
    });
    let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(client), answer).await;
}

/// The body of a response.
enum Answer {
    OfService(Incoming),
    Empty,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Answer::OfService(body) => Pin::new(body).poll_frame(context),
            Answer::Empty => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Answer::OfService(body) => body.is_end_stream(),
            Answer::Empty => true,
        }
    }
}
