//! The service `Node`: the node as a whole.

use crate::access::Caller;
use crate::access::record::Subject;
use crate::debug::call::{Containers, Responses};
use crate::init::Init;
use osbuild_cosi::v1::node_server::Node;
use osbuild_cosi::v1::process::State;
use osbuild_cosi::v1::{
    CheckForReleaseRequest, CheckForReleaseResponse, DebugRequest, GetStatusRequest,
    GetStatusResponse, PowerOffRequest, PowerOffResponse, Process, RebootRequest, RebootResponse,
    ResetRequest, ResetResponse, RestartContainerdRequest, RestartContainerdResponse,
    RestartKubeletRequest, RestartKubeletResponse, RollBackRequest, RollBackResponse, Slot,
};
use osbuild_protocol::{
    Client, ClientError, Contents, NodeStatus, ProcessState, ProcessStatus, Request as Wanted,
    SlotStatus, Slots,
};
use std::time::Duration;
use tonic::{Request, Response, Status, Streaming};

type Answer<T> = Result<Response<T>, Status>;

/// The status for a request that `init` has not carried out.
pub fn refused(error: ClientError) -> Status {
    match error {
        ClientError::Refused(refusal) => Status::failed_precondition(refusal.reason),
        error => Status::unavailable(error.to_string()),
    }
}

/// Serves the state of the node, through `init`.
pub struct NodeService {
    /// The `admin` socket of `init`, if there is a node.
    pub admin: Option<Init>,
    /// Debug containers, if there is a socket for their program.
    pub debug: Option<Containers>,
}

impl NodeService {
    async fn converse<T: Send + 'static>(
        &self,
        talk: impl FnOnce(&mut Client) -> Result<T, ClientError> + Send + 'static,
    ) -> Result<T, Status> {
        let Some(admin) = &self.admin else {
            return Err(Status::unimplemented("osd acts on no node"));
        };
        admin.converse(talk).await.map_err(refused)
    }

    async fn send<T>(&self, request: Wanted, message: T) -> Answer<T> {
        self.converse(move |client| client.send(&request)).await?;
        Ok(Response::new(message))
    }
}

#[tonic::async_trait]
impl Node for NodeService {
    type DebugStream = Responses;

    async fn debug(&self, request: Request<Streaming<DebugRequest>>) -> Answer<Responses> {
        let Some(containers) = &self.debug else {
            return Err(Status::unimplemented("osd serves no debug containers (`--debug`)"));
        };
        let caller = Caller::of(request.extensions());
        let (mut response, subject) = containers.begin(caller, request.into_inner()).await?;
        response.extensions_mut().insert(Subject(subject));
        Ok(response)
    }

    async fn get_status(&self, _: Request<GetStatusRequest>) -> Answer<GetStatusResponse> {
        self.converse(Client::status).await.map(|found| Response::new(status(found)))
    }

    async fn restart_kubelet(
        &self,
        _: Request<RestartKubeletRequest>,
    ) -> Answer<RestartKubeletResponse> {
        self.send(Wanted::RestartKubelet, RestartKubeletResponse {}).await
    }

    async fn restart_containerd(
        &self,
        _: Request<RestartContainerdRequest>,
    ) -> Answer<RestartContainerdResponse> {
        self.send(Wanted::RestartContainerd, RestartContainerdResponse {}).await
    }

    async fn reboot(&self, _: Request<RebootRequest>) -> Answer<RebootResponse> {
        self.send(Wanted::Reboot, RebootResponse {}).await
    }

    async fn check_for_release(
        &self,
        _: Request<CheckForReleaseRequest>,
    ) -> Answer<CheckForReleaseResponse> {
        self.send(Wanted::CheckNow, CheckForReleaseResponse {}).await
    }

    async fn roll_back(&self, _: Request<RollBackRequest>) -> Answer<RollBackResponse> {
        self.send(Wanted::RollBack, RollBackResponse {}).await
    }

    async fn reset(&self, _: Request<ResetRequest>) -> Answer<ResetResponse> {
        self.send(Wanted::Reset, ResetResponse {}).await
    }

    async fn power_off(&self, _: Request<PowerOffRequest>) -> Answer<PowerOffResponse> {
        self.send(Wanted::PowerOff, PowerOffResponse {}).await
    }
}

fn status(found: NodeStatus) -> GetStatusResponse {
    let (slots, slots_error) = match &found.slots {
        Slots::Known(slots) => {
            let slots = std::iter::once(&slots.running).chain(&slots.other);
            (slots.map(slot).collect(), String::new())
        }
        Slots::Unknown => (Vec::new(), "the boot program has not reported them".to_owned()),
        Slots::Unreadable(reason) => (Vec::new(), reason.clone()),
    };
    GetStatusResponse {
        host_name: found.host_name,
        node_name: found.node_name,
        uptime_milliseconds: milliseconds(found.uptime),
        ready_milliseconds: found.ready.map(milliseconds),
        secure_boot: found.security.secure_boot,
        watchdog: found.watchdog,
        addresses: found.addresses,
        slots,
        slots_error,
        processes: found.processes.into_iter().map(process).collect(),
        problems: found.problems.into_iter().map(|problem| problem.text).collect(),
        api_certificate: found.security.api.map_or_else(String::new, |api| api.to_string()),
    }
}

fn slot(slot: &SlotStatus) -> Slot {
    let version = match &slot.contents {
        Contents::Release(release) => release.version.clone(),
        _ => String::new(),
    };
    let (contents, state) = (slot.contents.words(), slot.state.words());
    Slot { name: slot.name.clone(), contents, version, state }
}

fn process(ProcessStatus { name, state }: ProcessStatus) -> Process {
    let ended = Process { name, ..Process::default() };
    match state {
        ProcessState::Running { pid, since } => Process {
            state: State::Running.into(),
            pid,
            since_milliseconds: milliseconds(since),
            ..ended
        },
        ProcessState::Failed { times } => {
            Process { state: State::Failed.into(), failures: times, ..ended }
        }
        ProcessState::Ended => ended,
    }
}

fn milliseconds(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}
