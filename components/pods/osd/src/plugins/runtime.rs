//! The service `ControllerRuntime`, and inputs and outputs as gRPC carries them.

use super::access::{Access, Input, InputKind, Output, OutputKind};
use super::sessions::{Session, Sessions};
use crate::access::record::Subject;
use crate::wire;
use osbuild_cosi::runtime::controller_runtime_server::ControllerRuntime;
use osbuild_cosi::runtime::{
    ControllerInput, ControllerInputKind, ControllerOutput, ControllerOutputKind,
    RegisterControllerRequest, RegisterControllerResponse, StartRequest, StartResponse,
    StopRequest, StopResponse,
};
use std::sync::Arc;
use tonic::{Extensions, Request, Response, Status};

/// Registers the controllers of plugins.
pub struct RuntimeService {
    /// The plugins.
    pub sessions: Arc<Sessions>,
}

/// The session of the request with these extensions.
pub fn session(extensions: &Extensions) -> Result<Session, Status> {
    let session = extensions.get::<Session>().cloned();
    session.ok_or_else(|| Status::permission_denied("this call came over no socket of a plugin"))
}

/// The inputs of a controller.
pub fn inputs(sent: Vec<ControllerInput>) -> Result<Vec<Input>, Status> {
    let input = |input: ControllerInput| {
        let role = match ControllerInputKind::try_from(input.kind) {
            Ok(ControllerInputKind::Weak) => InputKind::Weak,
            Ok(ControllerInputKind::Strong) => InputKind::Strong,
            Ok(ControllerInputKind::DestroyReady) => InputKind::DestroyReady,
            Err(_) => return Err(Status::unimplemented("there is no input of this kind")),
        };
        let kind = wire::kind(&input.namespace, &input.r#type)?;
        Ok(Input { kind, id: input.id, role })
    };
    sent.into_iter().map(input).collect()
}

fn outputs(sent: Vec<ControllerOutput>) -> Result<Vec<Output>, Status> {
    let output = |output: ControllerOutput| {
        let kind = match ControllerOutputKind::try_from(output.kind) {
            Ok(ControllerOutputKind::Exclusive) => OutputKind::Exclusive,
            Ok(ControllerOutputKind::Shared) => OutputKind::Shared,
            Err(_) => return Err(Status::unimplemented("there is no output of this kind")),
        };
        Ok(Output { type_name: output.r#type, kind })
    };
    sent.into_iter().map(output).collect()
}

#[tonic::async_trait]
impl ControllerRuntime for RuntimeService {
    async fn register_controller(
        &self,
        request: Request<RegisterControllerRequest>,
    ) -> Result<Response<RegisterControllerResponse>, Status> {
        let session = session(request.extensions())?;
        let sent = request.into_inner();
        let access = Access::new(inputs(sent.inputs)?, outputs(sent.outputs)?);
        let access = access.map_err(wire::invalid)?;
        let token = self.sessions.register(&session, &sent.controller_name, access)?;
        let mut response = Response::new(RegisterControllerResponse { controller_token: token.0 });
        response.extensions_mut().insert(Subject(sent.controller_name));
        Ok(response)
    }

    async fn start(
        &self,
        request: Request<StartRequest>,
    ) -> Result<Response<StartResponse>, Status> {
        self.sessions.start(&session(request.extensions())?)?;
        Ok(Response::new(StartResponse {}))
    }

    async fn stop(&self, request: Request<StopRequest>) -> Result<Response<StopResponse>, Status> {
        self.sessions.stop(&session(request.extensions())?)?;
        Ok(Response::new(StopResponse {}))
    }
}
