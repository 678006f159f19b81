//! The steps that lead the nodes of a cluster through their updates.

use crate::fleet::{Fleet, Reason, Status};
use crate::node::{Node, Request};
use crate::policy::Policy;

/// An action on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Cordon it and note since when it is drained.
    Drain,
    /// Evict its pods, as far as their budgets allow.
    Evict,
    /// Let it reboot, and note since when.
    Grant,
    /// Note since when another tool lets it reboot.
    NoteGrant,
    /// Note that it asks as of now: the time of its request does not count, and its wave would
    /// never begin.
    NoteRequest,
    /// Uncordon it, as its pods did not leave, and try again later. With the reason.
    GiveUp(String),
    /// Uncordon it, as it may not reboot now, and have it wait for its turn again. With the reason,
    /// which is none of its own.
    Stop(String),
    /// Uncordon it: it has its result, and is Ready.
    Uncordon,
    /// Uncordon it: it asks for another release by now, and waits for its turn again.
    Requeue,
    /// Say on its Node why it waits.
    Explain(String),
}

/// Returns the next steps, each with the index in `nodes` of its node. `now` is in seconds since
/// 1970. The caller carries the steps out, and calls again with the nodes as they are then.
pub fn steps(nodes: &[Node], policy: &Policy, now: i64) -> Vec<(usize, Step)> {
    let mut fleet = Fleet::new(nodes, policy, now);
    let mut steps = Vec::new();
    let mut waiting = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let step = match (Status::of(node, policy, now), &node.request) {
            (Status::Waiting, Some(request)) => {
                waiting.push((index, node, request));
                None
            }
            (Status::Draining, Some(request)) => Some(drain(&fleet, node, request, policy, now)),
            (Status::Superseded, _) => Some(Step::Requeue),
            (Status::Rebooting, _) if node.granted_since.is_none() => Some(Step::NoteGrant),
            (Status::Done, _) if node.is_ready => Some(Step::Uncordon),
            _ => None,
        };
        steps.extend(step.map(|step| (index, step)));
    }
    // Nodes that could not be drained come last, the one that has waited longest first.
    waiting.sort_unstable_by_key(|(index, node, _)| (node.drain_failed, node.place, *index));
    for (index, node, request) in waiting {
        let step = match fleet.take_place(node, request) {
            Ok(()) => Some(Step::Drain),
            Err(_) if node.is_undated => Some(Step::NoteRequest),
            Err(reason) => {
                let is_late = now - request.since > i64::from(policy.deadline_s);
                let why = is_late.then(|| reason.to_string());
                why.filter(|why| node.waits.as_ref() != Some(why)).map(Step::Explain)
            }
        };
        steps.extend(step.map(|step| (index, step)));
    }
    steps
}

/// The next step for a node that is drained. A drain that began in a window may end after it.
fn drain<'n>(
    fleet: &Fleet<'n>,
    node: &Node,
    request: &'n Request,
    policy: &Policy,
    now: i64,
) -> Step {
    let took = now - node.drained_since.unwrap_or(now);
    match fleet.refusal(&request.version) {
        Some(reason) => Step::Stop(reason.to_string()),
        None if node.pods_left == 0 && !fleet.would_lose_another(node) => Step::Grant,
        None if took <= i64::from(policy.drain_timeout_s) => Step::Evict,
        None if node.pods_left == 0 => Step::Stop(Reason::ControlPlane.to_string()),
        None => Step::GiveUp(format!("the node could not be drained in {took} s")),
    }
}
