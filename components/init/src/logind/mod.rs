//! The address of the system bus, where the kubelet looks for logind: it delays a shutdown by an
//! inhibitor lock, and ends its pods when the bus sends the signal that one begins.
//!
//! `osbuild_logind` has the protocol. Here are the socket, its clients, and the locks: each is the
//! reading end of a pipe, whose other end the client closes to give the lock up.

mod client;
mod inhibitor;

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use osbuild_abi::paths::SYSTEM_BUS;
use osbuild_failure::{Explain, Outcome};
use osbuild_logind::{Guid, Login1};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::sockets;
use client::Client;
use inhibitor::Inhibitor;

/// The name of the lines about it on the console.
pub const NAME: &str = "logind";

/// The maximum number of clients at a time. The kubelet is one.
const MAX_CLIENTS: usize = 8;

/// How much longer than the grace of its pods a shutdown waits for the kubelet, which needs time of
/// its own on a busy machine.
const MARGIN: Duration = Duration::from_secs(10);

/// The bus, its clients and their locks.
#[derive(Default)]
pub struct Logind {
    listener: Option<UnixListener>,
    guid: Guid,
    clients: Vec<Client>,
    last_number: u64,
    inhibitors: Vec<Inhibitor>,
    /// How long inhibitors may delay a shutdown.
    delay: Duration,
    /// When the shutdown was announced, since boot.
    announced: Option<Duration>,
}

/// A lock has changed. Each has the name that the client gave itself, in printable characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A client has taken a lock.
    Taken(String),
    /// A client has given its lock up, or has exited.
    GivenUp(String),
}

impl Logind {
    /// Opens the socket.
    pub fn open(&mut self) -> Outcome {
        // It identifies the bus and need not be secret: the kernel must not wait for randomness.
        getrandom(&mut self.guid, GetRandomFlags::INSECURE).explain("make an identifier")?;
        self.listen(Path::new(SYSTEM_BUS))
    }

    fn listen(&mut self, path: &Path) -> Outcome {
        self.listener = Some(sockets::listen(path)?);
        Ok(())
    }

    /// Sets how long the kubelet's pods may take to end.
    pub fn set_grace(&mut self, grace: Duration) {
        self.delay = grace + MARGIN;
    }

    /// How long inhibitors may delay a shutdown.
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// All descriptors that may become readable.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let listener = self.listener.iter().map(AsFd::as_fd);
        let clients = self.clients.iter().map(Client::descriptor);
        listener.chain(clients).chain(self.inhibitors.iter().map(Inhibitor::descriptor))
    }

    /// Accepts new clients, answers the calls that have arrived, and looks which locks were given
    /// up. Never blocks, and reads a limited number of bytes of each.
    pub fn poll(&mut self) -> Vec<Change> {
        self.accept();
        let mut changes = Vec::new();
        self.inhibitors.retain(|inhibitor| {
            let is_held = inhibitor.is_held();
            if !is_held {
                changes.push(Change::GivenUp(inhibitor.who.clone()));
            }
            is_held
        });
        let mut login1 = Login1 {
            delay: self.delay,
            is_shutting_down: self.announced.is_some(),
            inhibitors: self.inhibitors.len(),
        };
        let old = self.inhibitors.len();
        self.clients.retain_mut(|client| client.serve(&mut login1, &mut self.inhibitors));
        let taken = &self.inhibitors[old..];
        changes.extend(taken.iter().map(|inhibitor| Change::Taken(inhibitor.who.clone())));
        changes
    }

    /// Announces the shutdown to all clients that have asked for the signal.
    pub fn announce(&mut self, now: Duration) {
        self.announced.get_or_insert(now);
        self.clients.retain_mut(Client::announce);
    }

    /// For how long the shutdown was announced.
    pub fn since_announced(&self, now: Duration) -> Option<Duration> {
        self.announced.map(|at| now.saturating_sub(at))
    }

    /// The names of the clients that delay the shutdown.
    pub fn holders(&self) -> impl Iterator<Item = &str> {
        self.inhibitors.iter().map(|inhibitor| inhibitor.who.as_str())
    }

    /// Whether nothing delays the announced shutdown any longer.
    pub fn is_free(&self, now: Duration) -> bool {
        let is_over = self.since_announced(now).is_some_and(|waited| waited >= self.delay);
        self.inhibitors.is_empty() || is_over
    }

    /// Accepts clients of the user of `init`: of root, then. All pods whose root is the node's
    /// could be clients, but the socket is mounted into none of ours.
    fn accept(&mut self) {
        // More of them are accepted in the next turn.
        for _ in 0..MAX_CLIENTS {
            let Some(Ok((stream, _))) = self.listener.as_ref().map(UnixListener::accept) else {
                return;
            };
            // A client without a name may be one that never speaks.
            if self.clients.len() == MAX_CLIENTS {
                match self.clients.iter().position(|client| !client.has_name()) {
                    Some(nameless) => drop(self.clients.remove(nameless)),
                    None => continue,
                }
            }
            self.last_number += 1;
            self.clients.extend(Client::accept(stream, self.last_number, self.guid));
        }
    }
}

#[cfg(test)]
mod tests;
