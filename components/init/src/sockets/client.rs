//! One client of a socket: its connection, the start of its next line, and whether it waits.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use osbuild_protocol::{MAX_LINE, Refusal, Request, Socket, fd_passing};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::ClientId;
use super::closer::Closer;
use crate::lines::Lines;

/// A client.
pub struct Client {
    /// Its identifier.
    pub id: ClientId,
    /// The socket that it is connected to.
    pub socket: Socket,
    stream: UnixStream,
    /// The start of its next line.
    line: Lines,
    /// The file in memory that came with that line.
    descriptor: Option<OwnedFd>,
    /// Whether a request of it is being carried out.
    waits: bool,
}

/// The result of a read from a client.
pub enum Read {
    /// No whole line.
    Nothing,
    /// A request, and the descriptor that came with it.
    Request(Request, Option<OwnedFd>),
    /// A line that is not a request.
    Refused(Refusal),
    /// The end.
    Closed,
}

impl Client {
    /// A client that has just connected.
    pub fn new(id: ClientId, socket: Socket, stream: UnixStream) -> Self {
        Self { id, socket, stream, line: Lines::default(), descriptor: None, waits: false }
    }

    /// Its connection.
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Whether it waits for a reply. It is not read until then.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// Whether it has closed its connection. One that has closed its sending half only may still
    /// read a reply.
    pub fn has_hung_up(&self) -> bool {
        let mut polled = [PollFd::new(&self.stream, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().contains(PollFlags::HUP)
    }

    /// Reads one line at most, and does not block. Nothing is read while `closer` is full, and from
    /// a client that waits only that it has hung up.
    pub fn read(&mut self, closer: &Closer) -> Read {
        if closer.is_full() {
            return Read::Nothing;
        }
        if self.waits {
            return if self.has_hung_up() { Read::Closed } else { Read::Nothing };
        }
        let line = match self.next_line(closer) {
            Ok(Some(line)) => line,
            Ok(None) => return Read::Nothing,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Read::Nothing,
            Err(_) => return Read::Closed,
        };
        let descriptor = self.descriptor.take();
        match Request::decode(self.socket, &line) {
            Ok(request) => {
                self.waits = true;
                Read::Request(request, descriptor)
            }
            Err(refusal) => Read::Refused(refusal),
        }
    }

    /// Takes from the socket what belongs to one line and no more, so that the socket stays
    /// readable as long as there is more. A line that is too long is cut.
    fn next_line(&mut self, closer: &Closer) -> io::Result<Option<String>> {
        let mut buffer = [0u8; MAX_LINE];
        let max = self.socket.max_line();
        let free = max - self.line.pending();
        let arrived = fd_passing::peek(&self.stream, &mut buffer[..free])?;
        let end = buffer[..arrived].iter().position(|byte| *byte == b'\n');
        let length = end.map_or(arrived, |end| end + 1);
        let (read, descriptors) = fd_passing::receive(&self.stream, &mut buffer[..length])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // Only requests of this socket have a descriptor.
        if self.socket == Socket::Update {
            self.descriptor = closer.first_in_memory(descriptors).or(self.descriptor.take());
        } else {
            closer.close(descriptors);
        }
        self.line.push(&buffer[..read]);
        Ok(self.line.take(max))
    }

    /// Sends a reply, with which it no longer waits.
    ///
    /// # Errors
    /// The client does not take all of it at once.
    pub fn send(&mut self, text: &str, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.waits = false;
        fd_passing::send(&self.stream, text, descriptor)
    }
}

/// The connection, to be closed.
impl From<Client> for OwnedFd {
    fn from(client: Client) -> OwnedFd {
        client.stream.into()
    }
}
