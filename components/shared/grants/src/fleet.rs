//! All nodes of the cluster at one instant: who is down, and how far each release has come.

use std::fmt::{self, Display, Formatter};

use crate::node::{Node, Outcome, Request};
use crate::policy::Policy;

/// The state of a node in its update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It asks for nothing.
    Idle,
    /// It asks for a reboot.
    Waiting,
    /// It loses its pods.
    Draining,
    /// It loses its pods for another release than the one that it asks for by now.
    Superseded,
    /// It was granted its reboot.
    Rebooting,
    /// It has a result, but the mark of the drain is still there.
    Done,
    /// It should have had a result by now, or should be Ready again.
    Overdue,
}

impl Status {
    pub fn of(node: &Node, policy: &Policy, now: i64) -> Status {
        let reboot = i64::from(policy.reboot_timeout_s);
        let is_older =
            |time: Option<i64>, limit: i64| time.is_some_and(|since| now - since > limit);
        let whole = i64::from(policy.drain_timeout_s) + reboot;
        match (&node.request, node.drained_since) {
            (None, None) => Status::Idle,
            (None, since) if is_older(since, whole) && !node.is_ready => Status::Overdue,
            (None, Some(_)) => Status::Done,
            (Some(_), _) if node.is_granted() => match is_older(node.granted_since, reboot) {
                true => Status::Overdue,
                false => Status::Rebooting,
            },
            (Some(_), Some(_)) if node.is_drained_for_another() => Status::Superseded,
            (Some(_), Some(_)) => Status::Draining,
            (Some(_), None) => Status::Waiting,
        }
    }

    /// Whether the node takes one of the places for nodes that are down. One that is overdue does
    /// not: it may never come back, and would hold up all others. It counts as a failure instead.
    fn takes_a_place(self) -> bool {
        match self {
            Status::Draining | Status::Superseded | Status::Rebooting | Status::Done => true,
            Status::Idle | Status::Waiting | Status::Overdue => false,
        }
    }
}

/// Why a node has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason<'n> {
    /// The release is granted to no further node.
    Stopped(&'n str),
    NotReady,
    /// Not by the tool.
    Cordoned,
    DrainFailed,
    Window,
    Wave,
    /// As many nodes try a release as have succeeded with it, and one more.
    Unproven(&'n str),
    /// Another node of the control plane is down.
    ControlPlane,
    Places,
}

impl Display for Reason<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Stopped(version) => {
                write!(f, "{version} is stopped, because nodes have failed with it")
            }
            Reason::NotReady => f.write_str("the node is not Ready"),
            Reason::Cordoned => f.write_str("somebody else has cordoned the node"),
            Reason::DrainFailed => f.write_str("the node could not be drained"),
            Reason::Window => f.write_str("no maintenance window is open"),
            Reason::Wave => f.write_str("its wave has not begun"),
            Reason::Unproven(version) => {
                write!(f, "{version} has to succeed on other nodes first")
            }
            Reason::ControlPlane => f.write_str("another node of the control plane is down"),
            Reason::Places => f.write_str("as many nodes are down as the policy allows"),
        }
    }
}

/// How far a release has come.
struct Release<'n> {
    version: &'n str,
    /// Nodes that have become good with it.
    succeeded: usize,
    /// Nodes that went back, or did not come back.
    failed: usize,
    /// Nodes that are drained for it or reboot into it.
    in_flight: usize,
    /// The first wave with a node that still has to get it.
    first_wave: usize,
}

/// The nodes at one instant.
pub struct Fleet<'n> {
    policy: &'n Policy,
    now: i64,
    is_window_open: bool,
    /// How many further nodes may be down.
    places: usize,
    /// How many nodes of the control plane are down, or will be.
    control_planes_down: usize,
    /// Few, so that a search is faster than a map.
    releases: Vec<Release<'n>>,
}

impl<'n> Fleet<'n> {
    pub fn new(nodes: &'n [Node], policy: &'n Policy, now: i64) -> Self {
        let mut fleet = Fleet {
            policy,
            now,
            is_window_open: policy.is_window_open(now),
            places: policy.at_once.of(nodes.len()),
            control_planes_down: 0,
            releases: Vec::new(),
        };
        for node in nodes {
            fleet.count(node);
        }
        fleet
    }

    fn count(&mut self, node: &'n Node) {
        let status = Status::of(node, self.policy, self.now);
        if status.takes_a_place() {
            self.places = self.places.saturating_sub(1);
        }
        let is_down = status.takes_a_place() || status == Status::Overdue || !node.is_ready;
        self.control_planes_down += usize::from(node.is_control_plane && is_down);
        if let Some((version, outcome)) = &node.result {
            let release = self.release(version);
            match outcome {
                Outcome::Succeeded => release.succeeded += 1,
                Outcome::Failed => release.failed += 1,
            }
        }
        let Some(request) = &node.request else { return };
        let is_held_up = self.obstacle(node).is_some() || node.drain_failed.is_some();
        let wave = self.policy.wave(node.place);
        let release = self.release(&request.version);
        match status {
            Status::Draining | Status::Rebooting => release.in_flight += 1,
            Status::Overdue => release.failed += 1,
            _ => {}
        }
        // A node that cannot be updated now, or could not be drained, does not hold up the waves
        // after its own.
        let holds_up = match status {
            Status::Waiting => !is_held_up,
            // The tool itself has cordoned it, and uncordons it for its turn.
            Status::Superseded => node.is_ready && node.drain_failed.is_none(),
            Status::Draining => node.drain_failed.is_none(),
            Status::Rebooting | Status::Idle | Status::Done => true,
            Status::Overdue => false,
        };
        if holds_up {
            release.first_wave = release.first_wave.min(wave);
        }
    }

    fn release(&mut self, version: &'n str) -> &mut Release<'n> {
        let found = self.releases.iter().position(|release| release.version == version);
        let index = found.unwrap_or_else(|| {
            let (succeeded, failed, in_flight, first_wave) = (0, 0, 0, usize::MAX);
            self.releases.push(Release { version, succeeded, failed, in_flight, first_wave });
            self.releases.len() - 1
        });
        &mut self.releases[index]
    }

    /// Takes a place for a node that asks.
    ///
    /// # Errors
    /// The reason why the node has to wait.
    pub fn take_place(&mut self, node: &Node, request: &'n Request) -> Result<(), Reason<'n>> {
        let version = request.version.as_str();
        if let Some(reason) = self.refusal(version).or(self.obstacle(node)) {
            return Err(reason);
        }
        if !self.is_window_open {
            return Err(Reason::Window);
        }
        let (now, has_place) = (self.now, self.places > 0);
        let is_control_plane_down = self.control_planes_down > 0;
        let wave = self.policy.wave(node.place);
        let begins = request.since + wave as i64 * i64::from(self.policy.wave_s.max(1));
        let release = self.release(version);
        if release.first_wave < wave || now < begins {
            return Err(Reason::Wave);
        }
        if release.in_flight > release.succeeded {
            return Err(Reason::Unproven(version));
        }
        if !has_place {
            return Err(Reason::Places);
        }
        if node.is_control_plane && is_control_plane_down {
            return Err(Reason::ControlPlane);
        }
        release.in_flight += 1;
        self.places -= 1;
        self.control_planes_down += usize::from(node.is_control_plane);
        Ok(())
    }

    /// Whether a node that is drained is of the control plane, and another node of it is down.
    pub fn would_lose_another(&self, node: &Node) -> bool {
        node.is_control_plane && self.control_planes_down > 1
    }

    /// Why a release is granted to no further node.
    pub fn refusal(&self, version: &'n str) -> Option<Reason<'n>> {
        let release = self.releases.iter().find(|release| release.version == version);
        let Release { succeeded, failed, .. } = release?;
        let limit = self.policy.stop_after_failures.of(succeeded + failed);
        (*failed >= limit).then_some(Reason::Stopped(version))
    }

    /// The reason in the node itself why its update has to wait, if there is one.
    fn obstacle(&self, node: &Node) -> Option<Reason<'n>> {
        let retry = i64::from(self.policy.drain_retry_s);
        if !node.is_ready {
            Some(Reason::NotReady)
        } else if node.is_cordoned {
            Some(Reason::Cordoned)
        } else if node.drain_failed.is_some_and(|failed| self.now - failed < retry) {
            Some(Reason::DrainFailed)
        } else {
            None
        }
    }
}
