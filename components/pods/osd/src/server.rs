//! The gRPC server: its services and its limits.

use crate::access::guard::GuardLayer;
use crate::configuration::ConfigurationService;
use crate::connections::{Connection, Connections};
use crate::error_text;
use crate::inspection::InspectionService;
use crate::limits::{
    HttpLimits, KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT, LOCAL_HTTP, MAX_MESSAGE, MAX_NAME,
    REMOTE_HTTP,
};
use crate::node::NodeService;
use crate::state::StateService;
use crate::talos::TalosService;
use osbuild_cosi::DESCRIPTORS;
use osbuild_cosi::machine::machine_service_server::MachineServiceServer;
use osbuild_cosi::resource::state_server::StateServer;
use osbuild_cosi::v1::configuration_server::ConfigurationServer;
use osbuild_cosi::v1::inspect_server::InspectServer;
use osbuild_cosi::v1::node_server::NodeServer;
use std::error::Error;
use std::io;
use tokio::sync::mpsc::Receiver;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::http::{HeaderValue, Response};
use tonic::service::Routes;
use tonic::transport::{self, Server};
use tonic::{Code, Status};
use tower::util::MapResponseLayer;

/// Serves the services, their health, and the definitions of all of them.
pub async fn serve(
    connections: Connections,
    state: StateService,
    configuration: ConfigurationService,
    node: NodeService,
    inspection: InspectionService,
) -> Result<(), Box<dyn Error>> {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<StateServer<StateService>>().await;
    health.set_serving::<ConfigurationServer<ConfigurationService>>().await;
    health.set_serving::<NodeServer<NodeService>>().await;
    health.set_serving::<InspectServer<InspectionService>>().await;
    health.set_serving::<MachineServiceServer<TalosService>>().await;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let routes = Routes::new(StateServer::new(state).max_decoding_message_size(MAX_MESSAGE))
        .add_service(ConfigurationServer::new(configuration).max_decoding_message_size(MAX_MESSAGE))
        .add_service(NodeServer::new(node).max_decoding_message_size(MAX_MESSAGE))
        .add_service(InspectServer::new(inspection).max_decoding_message_size(MAX_MESSAGE))
        .add_service(MachineServiceServer::new(TalosService).max_decoding_message_size(MAX_MESSAGE))
        .add_service(health_service.max_decoding_message_size(MAX_NAME))
        .add_service(reflection().build_v1()?.max_decoding_message_size(MAX_NAME))
        .add_service(reflection().build_v1alpha()?.max_decoding_message_size(MAX_NAME));
    let Connections { local, remote } = connections;
    tokio::try_join!(
        serve_side(local, LOCAL_HTTP, routes.clone()),
        serve_side(remote, REMOTE_HTTP, routes)
    )?;
    Ok(())
}

async fn serve_side(
    connections: Receiver<Connection>,
    limits: HttpLimits,
    routes: Routes,
) -> Result<(), transport::Error> {
    Server::builder()
        .max_concurrent_streams(limits.streams)
        .http2_max_header_list_size(limits.headers)
        .initial_stream_window_size(limits.window)
        .initial_connection_window_size(limits.window)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        // The outermost: the guard refuses a call by its name, which comes from outside.
        .layer(MapResponseLayer::new(shorten_error))
        .layer(GuardLayer)
        .layer(MapResponseLayer::new(name_exhaustion))
        .add_routes(routes)
        .serve_with_incoming(ReceiverStream::new(connections).map(Ok::<_, io::Error>))
        .await
}

/// Cuts the text of the error that a response is.
fn shorten_error(mut response: Response<Body>) -> Response<Body> {
    error_text::shorten(response.headers_mut());
    response
}

/// Gives the refusal of a large message the code that other servers of gRPC give it; tonic's is
/// `OUT_OF_RANGE`, which nothing else here returns.
pub fn name_exhaustion(mut response: Response<Body>) -> Response<Body> {
    if let Some(code) = response.headers_mut().get_mut(Status::GRPC_STATUS)
        && Code::from_bytes(code.as_bytes()) == Code::OutOfRange
    {
        *code = HeaderValue::from(Code::ResourceExhausted as i32);
    }
    response
}
