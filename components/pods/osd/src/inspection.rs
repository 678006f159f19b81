//! The service `Inspect`, which the container `inspect` of the pod serves: `osd` decides who may
//! call it, and forwards the calls.

use crate::access::record::Subject;
use crate::access::{Caller, Role};
use crate::connections::Peer;
use crate::inspect::capture;
use crate::inspect::reach::MAY_ALL;
use hyper_util::rt::TokioIo;
use osbuild_cosi::v1::inspect_client::InspectClient;
use osbuild_cosi::v1::inspect_server::Inspect;
use osbuild_cosi::v1::reach_request::Probe;
use osbuild_cosi::v1::{
    CaptureRequest, CaptureResponse, GetUsageRequest, GetUsageResponse, ListFilesRequest,
    ListFilesResponse, ListLogsRequest, ListLogsResponse, ListProcessesRequest,
    ListProcessesResponse, ReachDns, ReachHttp, ReachMtu, ReachPing, ReachRequest, ReachResponse,
    ReachTcp, ReachTrace, ReadFileRequest, ReadFileResponse, ReadKernelLogRequest,
    ReadKernelLogResponse, ReadLogRequest, ReadLogResponse,
};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::UnixStream;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};
use tower::service_fn;

/// The greatest answer, in bytes: a list of processes.
const MAX_ANSWER: usize = 4 << 20;

/// The most bytes of a target in the record.
const MAX_TARGET: usize = 256;

/// The bytes of a call that wait here for its client. All calls together may have 5 MiB of one
/// connection, so those that nobody reads leave some to the others.
const WINDOW: u32 = 128 << 10;

type Answer<T> = Result<Response<T>, Status>;

/// Forwards the calls.
pub struct InspectionService(Option<InspectClient<Channel>>);

impl InspectionService {
    /// Connects at the first call to the container at this socket, if there is a node. There has to
    /// be a runtime.
    pub fn new(socket: Option<PathBuf>) -> InspectionService {
        InspectionService(socket.map(client))
    }

    fn client(&self) -> Result<InspectClient<Channel>, Status> {
        self.0.clone().ok_or_else(|| Status::unimplemented("osd acts on no node"))
    }
}

/// The kind and the target of an attempt.
fn target(ReachRequest { probe }: &ReachRequest) -> String {
    let mut text = match probe {
        None => return String::new(),
        Some(Probe::Dns(ReachDns { name, server })) if server.is_empty() => format!("dns {name}"),
        Some(Probe::Dns(ReachDns { name, server })) => format!("dns {name} at {server}"),
        Some(Probe::Tcp(ReachTcp { host, port })) => format!("tcp {host} port {port}"),
        Some(Probe::Http(ReachHttp { url, get, .. })) => {
            let method = if *get { "GET" } else { "HEAD" };
            format!("{method} {}", without_secrets(url))
        }
        Some(Probe::Ping(ReachPing { host, .. })) => format!("ping {host}"),
        Some(Probe::Mtu(ReachMtu { host })) => format!("mtu {host}"),
        Some(Probe::Trace(ReachTrace { host })) => format!("trace {host}"),
    };
    text.truncate(text.floor_char_boundary(MAX_TARGET));
    text
}

/// The URL without its query and its user, which may be secret.
fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

/// A client of the container at this socket, which connects at its first call. There has to be a
/// runtime.
pub fn client(socket: PathBuf) -> InspectClient<Channel> {
    let socket = Arc::new(socket);
    let connect = service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(&*socket).await.map(TokioIo::new) }
    });
    // The URL gives HTTP/2 an authority; nothing is looked up.
    let channel = Endpoint::from_static("http://inspect")
        .initial_stream_window_size(WINDOW)
        .connect_with_connector_lazy(connect);
    InspectClient::new(channel).max_decoding_message_size(MAX_ANSWER)
}

#[tonic::async_trait]
impl Inspect for InspectionService {
    type ReadFileStream = Streaming<ReadFileResponse>;
    type ReadLogStream = Streaming<ReadLogResponse>;
    type ReadKernelLogStream = Streaming<ReadKernelLogResponse>;
    type ReachStream = Streaming<ReachResponse>;
    type CaptureStream = Streaming<CaptureResponse>;

    async fn list_logs(&self, request: Request<ListLogsRequest>) -> Answer<ListLogsResponse> {
        self.client()?.list_logs(request.into_inner()).await
    }

    async fn read_log(&self, request: Request<ReadLogRequest>) -> Answer<Self::ReadLogStream> {
        self.client()?.read_log(request.into_inner()).await
    }

    async fn read_kernel_log(
        &self,
        request: Request<ReadKernelLogRequest>,
    ) -> Answer<Self::ReadKernelLogStream> {
        self.client()?.read_kernel_log(request.into_inner()).await
    }

    async fn list_processes(
        &self,
        request: Request<ListProcessesRequest>,
    ) -> Answer<ListProcessesResponse> {
        self.client()?.list_processes(request.into_inner()).await
    }

    async fn get_usage(&self, request: Request<GetUsageRequest>) -> Answer<GetUsageResponse> {
        self.client()?.get_usage(request.into_inner()).await
    }

    async fn list_files(&self, request: Request<ListFilesRequest>) -> Answer<ListFilesResponse> {
        self.client()?.list_files(request.into_inner()).await
    }

    async fn read_file(&self, request: Request<ReadFileRequest>) -> Answer<Self::ReadFileStream> {
        self.client()?.read_file(request.into_inner()).await
    }

    async fn reach(&self, request: Request<ReachRequest>) -> Answer<Self::ReachStream> {
        let is_admin = Caller::of(request.extensions()).require(Role::Admin, "all").is_ok();
        // Drop the client's metadata: only `osd` may set the key that permits all addresses.
        let mut request = Request::new(request.into_inner());
        if is_admin {
            request.metadata_mut().insert(MAY_ALL, MetadataValue::from_static("yes"));
        }
        let subject = Subject(target(request.get_ref()));
        let mut response = self.client()?.reach(request).await?;
        response.extensions_mut().insert(subject);
        Ok(response)
    }

    async fn capture(&self, request: Request<CaptureRequest>) -> Answer<Self::CaptureStream> {
        let peer = request.extensions().get::<Peer>();
        let own = peer.and_then(|peer| Some(peer.remote.as_ref()?.connection));
        // Drop the client's metadata: only `osd` may name the client's connection.
        let mut request = Request::new(request.into_inner());
        if let Some(own) = own {
            capture::add_to(request.metadata_mut(), own);
        }
        let CaptureRequest { link, filter, .. } = request.get_ref();
        let link = if link.is_empty() { "all links" } else { link };
        let subject = Subject(format!("packets of {link}, filter {filter:?}"));
        let mut response = self.client()?.capture(request).await?;
        response.extensions_mut().insert(subject);
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_has_what_is_tried_without_what_may_be_secret() {
        let text = |probe| target(&ReachRequest { probe: Some(probe) });
        let url = "https://me:secret@example.org/a?token=secret#b".to_owned();
        let http = ReachHttp { url, get: true, ..ReachHttp::default() };
        assert_eq!(text(Probe::Http(http)), "GET https://example.org/a");
        let dns = ReachDns { name: "a.test".to_owned(), server: "10.0.0.1".to_owned() };
        assert_eq!(text(Probe::Dns(dns)), "dns a.test at 10.0.0.1");
        let long = text(Probe::Ping(ReachPing { host: "ä".repeat(500), count: 0 }));
        assert!(long.starts_with("ping ä") && (255..=256).contains(&long.len()));
    }
}
