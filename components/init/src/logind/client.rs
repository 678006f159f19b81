//! One client of the bus.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use osbuild_logind::{Guid, Login1, Output, Session};
use osbuild_protocol::fd_passing;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use super::inhibitor::Inhibitor;
use crate::sockets::closer::Closer;

/// How many bytes of a client are read in a turn.
const MAX_READ: usize = 4096;

/// A client.
pub struct Client {
    stream: UnixStream,
    session: Session,
}

impl Client {
    /// Accepts a connection.
    ///
    /// # Errors
    /// It belongs to another user than this process. It is to be closed.
    pub fn accept(stream: UnixStream, number: u64, guid: Guid) -> Result<Self, UnixStream> {
        let own = geteuid();
        let is_ours = socket_peercred(&stream).is_ok_and(|peer| peer.uid == own)
            && stream.set_nonblocking(true).is_ok();
        if !is_ours {
            return Err(stream);
        }
        Ok(Client { stream, session: Session::new(own.as_raw(), number, guid) })
    }

    /// Its connection.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether it has introduced itself.
    pub fn has_name(&self) -> bool {
        self.session.has_name()
    }

    /// Answers what has arrived, and adds the locks that it takes. Returns whether the connection
    /// stays open. Descriptors that a client sends go to `closer`; while it is full, nothing is
    /// read.
    pub fn serve(
        &mut self,
        login1: &mut Login1,
        inhibitors: &mut Vec<Inhibitor>,
        closer: &Closer,
    ) -> bool {
        if closer.is_full() {
            return true;
        }
        let mut buffer = [0; MAX_READ];
        let read = match fd_passing::receive(&self.stream, &mut buffer) {
            Ok((0, _)) => return false,
            Ok((read, descriptors)) => {
                closer.close(descriptors);
                read
            }
            Err(error) => {
                return matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                );
            }
        };
        let received = self.session.receive(&buffer[..read], login1);
        for output in received.outputs {
            match self.send(output) {
                Ok(inhibitor) => inhibitors.extend(inhibitor),
                // A client that does not read its replies is closed as well.
                Err(_) => return false,
            }
        }
        received.malformed.is_none()
    }

    /// Sends the signal that the shutdown begins, if the client wants it. Returns whether the
    /// connection stays open.
    pub fn announce(&mut self) -> bool {
        let signal = self.session.prepare_for_shutdown();
        signal.is_none_or(|bytes| fd_passing::send(&self.stream, &bytes, None).is_ok())
    }

    fn send(&self, output: Output) -> io::Result<Option<Inhibitor>> {
        match output {
            Output::Bytes(bytes) => fd_passing::send(&self.stream, &bytes, None).map(|()| None),
            Output::Inhibitor { bytes, who } => {
                let (inhibitor, given) = Inhibitor::new(who)?;
                fd_passing::send(&self.stream, &bytes, Some(given.as_fd()))?;
                Ok(Some(inhibitor))
            }
        }
    }
}

/// The connection, to be closed.
impl From<Client> for OwnedFd {
    fn from(client: Client) -> OwnedFd {
        client.stream.into()
    }
}
