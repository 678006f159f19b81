//! The layer before the services for plugins: it records what plugins change.

use super::sessions::Session;
use crate::access::record::OpenCall;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tower::{Layer, Service};

/// Whether a plugin may change something with the call `SERVICE/NAME`: resources, or what it reads.
fn may_change(method: &str) -> bool {
    let (service, name) = method.split_once('/').unwrap_or((method, ""));
    matches!(
        (service, name),
        ("cosi.runtime.ControllerRuntime", "RegisterController")
            | (
                "cosi.runtime.ControllerAdapter",
                "UpdateInputs" | "AddFinalizer" | "RemoveFinalizer"
            )
            | ("cosi.runtime.ControllerAdapter", "Create" | "Update" | "Teardown" | "Destroy")
    )
}

/// Puts [`Recorded`] before a service.
#[derive(Clone, Copy, Debug)]
pub struct RecordLayer;

impl<S> Layer<S> for RecordLayer {
    type Service = Recorded<S>;

    fn layer(&self, service: S) -> Recorded<S> {
        Recorded(service)
    }
}

/// A service whose calls that may change something are in the record, up to a rate.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<S>(S);

impl<S> Service<Request<Body>> for Recorded<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let method = request.uri().path().trim_start_matches('/');
        let session = request.extensions().get::<Session>().filter(|_| may_change(method));
        let call = session.map(|session| OpenCall::of_plugin(&session.plugin, method.to_owned()));
        let answered = self.0.call(request);
        Box::pin(async move {
            let response = answered.await?;
            if let Some(call) = call {
                call.answered(&response);
            }
            Ok(response)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_cosi::PLUGIN_DESCRIPTORS;
    use prost::Message;
    use prost_types::FileDescriptorSet;

    #[test]
    fn a_call_of_the_plugin_interface_either_changes_something_or_is_known_to_read() {
        let set = FileDescriptorSet::decode(PLUGIN_DESCRIPTORS).unwrap();
        let services = set.file.iter().flat_map(|file| {
            let package = file.package();
            file.service.iter().map(move |service| (package, service))
        });
        let methods = services.flat_map(|(package, service)| {
            let name = format!("{package}.{}", service.name());
            service.method.iter().map(move |method| format!("{name}/{}", method.name()))
        });
        let mut reads: Vec<String> = methods.filter(|method| !may_change(method)).collect();
        reads.sort();
        assert_eq!(
            reads,
            [
                "cosi.runtime.ControllerAdapter/Get",
                "cosi.runtime.ControllerAdapter/List",
                "cosi.runtime.ControllerAdapter/QueueReconcile",
                "cosi.runtime.ControllerAdapter/ReconcileEvents",
                "cosi.runtime.ControllerAdapter/WatchFor",
                "cosi.runtime.ControllerRuntime/Start",
                "cosi.runtime.ControllerRuntime/Stop",
                "engine.Engine/Register",
            ]
        );
    }
}
