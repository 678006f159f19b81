//! The address of the system bus, where the kubelet looks for logind: it delays a shutdown by an
//! inhibitor lock, and ends its pods when the bus sends the signal that one begins.
//!
//! `osbuild_logind` has the protocol. Here are the socket, its clients, and the locks: each is the
//! reading end of a pipe, whose other end the client closes to give the lock up.

mod client;
mod inhibitor;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use osbuild_abi::paths::SYSTEM_BUS;
use osbuild_failure::{Explain, Outcome};
use osbuild_logind::{Guid, Login1};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::sockets::{self, closer::Closer};
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
    closer: Closer,
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
    /// A bus whose clients' files are closed by this.
    pub fn new(closer: Closer) -> Self {
        Self { closer, ..Self::default() }
    }

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

    /// All descriptors that may become readable; only those of locks while too many files of
    /// clients are still open.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let is_full = self.closer.is_full();
        let listener = self.listener.iter().map(AsFd::as_fd);
        let clients = listener.chain(self.clients.iter().map(Client::descriptor));
        let clients = clients.filter(move |_| !is_full);
        clients.chain(self.inhibitors.iter().map(Inhibitor::descriptor))
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
        let closed = self.clients.extract_if(.., |client| {
            !client.serve(&mut login1, &mut self.inhibitors, &self.closer)
        });
        self.closer.close(closed.map(OwnedFd::from));
        let taken = &self.inhibitors[old..];
        changes.extend(taken.iter().map(|inhibitor| Change::Taken(inhibitor.who.clone())));
        changes
    }

    /// Announces the shutdown to all clients that have asked for the signal.
    pub fn announce(&mut self, now: Duration) {
        self.announced.get_or_insert(now);
        let closed = self.clients.extract_if(.., |client| !client.announce());
        self.closer.close(closed.map(OwnedFd::from));
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
            if self.closer.is_full() {
                return;
            }
            let Some(Ok((stream, _))) = self.listener.as_ref().map(UnixListener::accept) else {
                return;
            };
            // A client without a name may be one that never speaks.
            if self.clients.len() == MAX_CLIENTS {
                match self.clients.iter().position(|client| !client.has_name()) {
                    Some(nameless) => self.closer.close([self.clients.remove(nameless).into()]),
                    None => {
                        self.closer.close([stream.into()]);
                        continue;
                    }
                }
            }
            self.last_number += 1;
            match Client::accept(stream, self.last_number, self.guid) {
                Ok(client) => self.clients.push(client),
                Err(stream) => self.closer.close([stream.into()]),
            }
        }
    }
}

#[cfg(test)]
mod tests;
