//! The layer before all services: it refuses calls of unknown callers and those for which the
//! caller's role is too low, and records the calls of callers on the network, and those with which
//! callers on the node may change something.

use super::authentication::Authenticated;
use super::metered::{Excess, MeteredRequest, MeteredResponse};
use super::quota::Limited;
use super::record::OpenCall;
use super::{Caller, Role, record};
use crate::connections::Peer;
use osbuild_failure::Failure;
use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tower::{Layer, Service};

/// The least role for a call, `SERVICE/NAME`. Which settings an operator may change depends on
/// their type, too: [`SettingType::writer`](crate::settings::SettingType::writer).
pub fn least(method: &str) -> Role {
    let (service, name) = method.split_once('/').unwrap_or((method, ""));
    match (service, name) {
        ("cosi.resource.State", "Get" | "List" | "Watch")
        | ("osbuild.v1.Configuration", "GetTry" | "ListGenerations")
        | ("osbuild.v1.Node", "GetStatus")
        | ("osbuild.v1.Inspect", "GetUsage" | "ListFiles" | "ReadFile")
        | ("osbuild.v1.Inspect", "ListLogs" | "ReadLog" | "ReadKernelLog" | "ListProcesses")
        | ("machine.MachineService", "Version")
        | ("grpc.health.v1.Health", _)
        | ("grpc.reflection.v1.ServerReflection", _)
        | ("grpc.reflection.v1alpha.ServerReflection", _) => Role::Reader,
        ("cosi.resource.State" | "osbuild.v1.Configuration", _)
        | ("osbuild.v1.Inspect", "Reach")
        | (
            "osbuild.v1.Node",
            "RestartKubelet" | "RestartContainerd" | "CheckForRelease" | "Reboot",
        ) => Role::Operator,
        _ => Role::Admin,
    }
}

/// Calls with a stream of requests that lasts.
const STREAMS: [&str; 1] = ["osbuild.v1.Node/Debug"];

/// The place in the container `inspect` that a call takes while it lasts.
fn place(method: &str) -> Option<Limited> {
    match method.strip_prefix("osbuild.v1.Inspect/")? {
        "ReadFile" | "ReadLog" | "ReadKernelLog" => Some(Limited::Readers),
        "Reach" => Some(Limited::Probes),
        "Capture" => Some(Limited::Captures),
        _ => None,
    }
}

/// The response of a call, once it is there.
type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// Puts a [`Guard`] before a service.
#[derive(Clone, Copy, Debug)]
pub struct GuardLayer;

impl<S> Layer<S> for GuardLayer {
    type Service = Guard<S>;

    fn layer(&self, service: S) -> Guard<S> {
        Guard(service)
    }
}

/// A service that gets only the calls that its callers may make.
#[derive(Clone, Copy, Debug)]
pub struct Guard<S>(S);

impl<S> Service<Request<Body>> for Guard<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let method = request.uri().path().trim_start_matches('/').to_owned();
        let peer = request.extensions().get::<Peer>().cloned();
        let Authenticated { caller, outcome } =
            Authenticated::of(peer.as_ref(), request.headers_mut());
        let needed = least(&method);
        let permitted = outcome.and_then(|quota| caller.may_call(needed, &method).map(|()| quota));
        let quota = match permitted {
            Ok(quota) => quota,
            Err(status) => return refused(caller, method, status),
        };
        if let Some(peer) = peer {
            // The services know no other caller than this one.
            request.extensions_mut().insert(Peer { caller: caller.clone(), ..peer });
        }
        // A reader changes nothing.
        let may_change = needed > Role::Reader;
        let Some(quota) = quota else {
            let answered = self.0.call(request);
            return Box::pin(recorded(caller, method, may_change, answered));
        };
        let places = [Some(Limited::Calls), place(&method)].into_iter().flatten();
        let held = places.map(|limited| quota.hold(limited, 1)).collect::<Result<Vec<_>, _>>();
        let held = match held {
            Ok(held) => held,
            Err(status) => return refused(caller, method, status),
        };
        let excess = if may_change { Excess::Sent } else { Excess::Refused };
        let (parts, body) = request.into_parts();
        let body = match STREAMS.contains(&method.as_str()) {
            false => MeteredRequest::body(body, &quota),
            true => match MeteredRequest::stream(body, &quota) {
                Ok(body) => body,
                Err(status) => return refused(caller, method, status),
            },
        };
        let answered = self.0.call(Request::from_parts(parts, body));
        Box::pin(recorded(caller, method, may_change, async move {
            Ok(MeteredResponse::of(answered.await?, quota, held, excess).await)
        }))
    }
}

/// The answer of a call that gets to no service.
fn refused(caller: Arc<Caller>, method: String, status: Status) -> Answer {
    Box::pin(recorded(caller, method, false, ready(Ok(status.into_http()))))
}

/// Records the call of a client on the network, or one that may change something. Strangers must
/// not push what others have done out of the log.
async fn recorded(
    caller: Arc<Caller>,
    method: String,
    may_change: bool,
    answer: impl Future<Output = Result<Response<Body>, Infallible>>,
) -> Result<Response<Body>, Infallible> {
    if !caller.is_remote() && !may_change {
        return answer.await;
    }
    if caller.is_unknown() {
        let response = answer.await?;
        let status = Status::from_header_map(response.headers());
        let reason = status.as_ref().map_or("", Status::message);
        record::refused(&Failure::new(format!("a call without a client: {reason}")));
        return Ok(response);
    }
    let call = OpenCall::new(&caller, method, may_change);
    let response = answer.await?;
    call.answered(&response);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_rule_names_is_for_admins() {
        for (method, role) in [
            ("cosi.resource.State/Get", Role::Reader),
            ("cosi.resource.State/Update", Role::Operator),
            ("osbuild.v1.Configuration/GetTry", Role::Reader),
            ("osbuild.v1.Configuration/ConfirmTry", Role::Operator),
            ("osbuild.v1.Configuration/BeginTry", Role::Operator),
            ("osbuild.v1.Configuration/RevertTry", Role::Operator),
            ("osbuild.v1.Configuration/RestoreGeneration", Role::Operator),
            ("osbuild.v1.Node/GetStatus", Role::Reader),
            ("osbuild.v1.Inspect/GetUsage", Role::Reader),
            ("osbuild.v1.Inspect/ReadFile", Role::Reader),
            ("osbuild.v1.Inspect/ReadLog", Role::Reader),
            ("osbuild.v1.Inspect/Reach", Role::Operator),
            ("osbuild.v1.Inspect/Capture", Role::Admin),
            ("osbuild.v1.Inspect/Unknown", Role::Admin),
            ("osbuild.v1.Node/Reboot", Role::Operator),
            ("osbuild.v1.Node/PowerOff", Role::Admin),
            ("osbuild.v1.Node/Debug", Role::Admin),
            ("osbuild.v1.Node/RollBack", Role::Admin),
            ("osbuild.v1.Node/Reset", Role::Admin),
            ("osbuild.v1.Node/CheckForRelease", Role::Operator),
            ("machine.MachineService/Version", Role::Reader),
            ("machine.MachineService/Reset", Role::Admin),
            ("grpc.health.v1.Health/Watch", Role::Reader),
            ("osbuild.v1.Unknown/Get", Role::Admin),
            ("", Role::Admin),
        ] {
            assert_eq!(least(method), role, "{method}");
        }
    }
}
