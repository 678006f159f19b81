//! What each request does to the node. This is the only place that says so.

use std::os::fd::OwnedFd;
use std::path::Path;

use osbuild_failure::Outcome;
use osbuild_protocol::{Refusal, RefusalCode, Reply, Request};

use super::{Answer, ClientId, Received, Sockets, status};
use crate::errand::{self, Work};
use crate::node::Node;
use crate::shutdown::End;
use crate::{addresses, clock, hostname, kubelet, link, node_name, resolver, servers, slot};

/// Opens the sockets.
pub fn open(node: &mut Node) -> Outcome {
    node.sockets = Sockets::open()?;
    Ok(())
}

/// Carries out the requests that have arrived.
pub fn serve(node: &mut Node) {
    for Received { client, request, descriptor } in node.sockets.poll() {
        let _cover = request.uses_disk().then(|| node.watchdog.cover());
        if let Some(outcome) = carry_out(node, client, request, descriptor).transpose() {
            node.sockets.reply(client, outcome);
        }
    }
}

/// Carries out one request. No answer yet means that a job has begun, which replies when it ends.
fn carry_out(
    node: &mut Node,
    client: ClientId,
    request: Request,
    descriptor: Option<OwnedFd>,
) -> Result<Option<Answer>, Refusal> {
    let reply = match request {
        Request::HostName(name) => {
            let set = hostname::set(node, &name);
            node_name::told(node);
            set?;
            Reply::Done
        }
        Request::Resolver { servers, search } => {
            resolver::note()?;
            servers::write_resolv(&servers, &search)?;
            resolver::renew(node);
            Reply::Done
        }
        Request::TimeServers(servers) => done(servers::write_time(node, &servers)?),
        Request::Addresses { addresses, link } => done(addresses::tell(node, &addresses, &link)?),
        Request::RouterAdvertisements(link) => done(link::hear_router_advertisements(&link)?),
        Request::LastSeen => Reply::LastSeen(node.clock.last_seen()),
        Request::ClockSet(report) => done(clock::tell_set(node, &report)),
        Request::ClockRefused(report) => done(clock::tell_refused(node, &report)),
        Request::Status => Reply::Node(Box::new(status::of(node))),
        Request::SlotsStatus => Reply::Slots(slot::status(node)?),
        Request::OpenSlot => {
            let (slot, length) = slot::open_other(node)?;
            return Ok(Some(Answer { reply: Reply::Slot { length }, descriptor: Some(slot) }));
        }
        Request::TrySlot => {
            let device = slot::other_device(node)?;
            return begin(node, client, Work::Try, &device, None);
        }
        Request::ReplaceBootProgram => {
            let device = slot::system_device(node)?;
            let program = descriptor.ok_or_else(|| {
                Refusal::new(RefusalCode::NoDescriptor, "no descriptor came with the line")
            })?;
            return begin(node, client, Work::BootProgram, &device, Some(program));
        }
        Request::RestartKubelet => done(kubelet::restart(node)),
        Request::Reboot => done(node.end = Some(End::Reboot)),
        Request::PowerOff => done(node.end = Some(End::PowerOff)),
    };
    Ok(Some(reply.into()))
}

fn done((): ()) -> Reply {
    Reply::Done
}

fn begin(
    node: &mut Node,
    client: ClientId,
    work: Work,
    device: &Path,
    input: Option<OwnedFd>,
) -> Result<Option<Answer>, Refusal> {
    errand::begin(node, client, work, device, input)?;
    Ok(None)
}
