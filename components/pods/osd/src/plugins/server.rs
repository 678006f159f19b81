//! The gRPC server for plugins: its services and its limits.

use super::adapter::AdapterService;
use super::engine::EngineService;
use super::limits::{MAX_MESSAGE, MAX_STREAMS};
use super::recorded::RecordLayer;
use super::runtime::{RuntimeService, session};
use super::sessions::Sessions;
use super::socket::Connection;
use crate::limits::LOCAL_HTTP;
use crate::server::name_exhaustion;
use osbuild_cosi::PLUGIN_DESCRIPTORS;
use osbuild_cosi::engine::engine_server::EngineServer;
use osbuild_cosi::runtime::controller_adapter_server::ControllerAdapterServer;
use osbuild_cosi::runtime::controller_runtime_server::ControllerRuntimeServer;
use std::error::Error;
use std::io;
use std::sync::Arc;
use tokio::sync::mpsc::Receiver;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use tonic::service::InterceptorLayer;
use tonic::transport::Server;
use tower::util::MapResponseLayer;

/// Serves the services for plugins, their health, and the definitions of all of them.
pub async fn serve(
    connections: Receiver<Connection>,
    sessions: Arc<Sessions>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<ControllerRuntimeServer<RuntimeService>>().await;
    health.set_serving::<ControllerAdapterServer<AdapterService>>().await;
    health.set_serving::<EngineServer<EngineService>>().await;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(PLUGIN_DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let [runtime, adapter, engine] = [(); 3].map(|()| sessions.clone());
    let runtime = ControllerRuntimeServer::new(RuntimeService { sessions: runtime });
    let adapter = ControllerAdapterServer::new(AdapterService { sessions: adapter });
    let engine = EngineServer::new(EngineService { sessions: engine });
    let admit = InterceptorLayer::new(move |request: Request<()>| {
        sessions.admit(&session(request.extensions())?).map(|()| request)
    });
    Server::builder()
        .max_concurrent_streams(MAX_STREAMS)
        .http2_max_header_list_size(LOCAL_HTTP.headers)
        .layer(admit)
        .layer(RecordLayer)
        .layer(MapResponseLayer::new(name_exhaustion))
        .add_service(runtime.max_decoding_message_size(MAX_MESSAGE))
        .add_service(adapter.max_decoding_message_size(MAX_MESSAGE))
        .add_service(engine.max_decoding_message_size(MAX_MESSAGE))
        .add_service(health_service)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?)
        .serve_with_incoming(ReceiverStream::new(connections).map(Ok::<_, io::Error>))
        .await?;
    Ok(())
}
