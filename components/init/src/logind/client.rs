//! One client of the bus.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use osbuild_logind::{Guid, Login1, Output, Session};
use osbuild_protocol::fd_passing;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use super::inhibitor::Inhibitor;

/// How many bytes of a client are read in a turn.
const MAX_READ: usize = 4096;

/// A client.
pub struct Client {
    stream: UnixStream,
    session: Session,
}

impl Client {
    /// Accepts a connection, unless it belongs to another user than this process.
    pub fn accept(stream: UnixStream, number: u64, guid: Guid) -> Option<Self> {
        let user = socket_peercred(&stream).ok()?.uid;
        let is_ours = user == geteuid() && stream.set_nonblocking(true).is_ok();
        let session = Session::new(user.as_raw(), number, guid);
        is_ours.then_some(Client { stream, session })
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
    /// stays open. Descriptors that a client sends are closed by the kernel.
    pub fn serve(&mut self, login1: &mut Login1, inhibitors: &mut Vec<Inhibitor>) -> bool {
        let mut buffer = [0; MAX_READ];
        let read = match self.stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(read) => read,
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
