//! The service `Engine`.

use super::runtime::session;
use super::sessions::Sessions;
use osbuild_cosi::engine::engine_server::Engine;
use osbuild_cosi::engine::{Plugin, RegisterResponse};
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// Has plugins introduce themselves.
pub struct EngineService {
    /// The plugins.
    pub sessions: Arc<Sessions>,
}

#[tonic::async_trait]
impl Engine for EngineService {
    async fn register(
        &self,
        request: Request<Plugin>,
    ) -> Result<Response<RegisterResponse>, Status> {
        let session = session(request.extensions())?;
        self.sessions.introduce(&session, &request.into_inner().name)?;
        Ok(Response::new(RegisterResponse {}))
    }
}
