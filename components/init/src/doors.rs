//! The unix sockets into the host, one a role. `osbuild_abi::sockets` describes what is spoken on
//! them.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use osbuild_abi::paths::{ADMIN_SOCKET, NET_SOCKET, TIME_SOCKET, UPDATE_SOCKET};
use osbuild_abi::sockets::{ERROR, MAX_LINE, OK};
use osbuild_failure::{Explain, Outcome};

use crate::lines::Lines;
use crate::passing;
use crate::verbs::{Request, Role, parse};

/// How many clients may be connected to a socket at once. One more pushes out the one that came
/// first.
const MOST_CLIENTS: usize = 8;

/// How many pieces of lines a client may have read in a turn.
const MOST_PIECES: usize = 16;

/// The open sockets.
#[derive(Default)]
pub struct Doors {
    doors: Vec<Door>,
    /// How many clients have come so far.
    clients: u64,
}

struct Door {
    role: Role,
    listener: UnixListener,
    clients: Vec<Client>,
}

/// A client. No two have the same identifier in one boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientId(u64);

struct Client {
    id: ClientId,
    stream: UnixStream,
    lines: Lines,
    /// The descriptor that it has sent last, until a line takes it.
    given: Option<OwnedFd>,
    /// Whether a request of its is under way. It is not read meanwhile.
    waits: bool,
    /// Whether more of its lines may have come.
    has_more: bool,
}

/// A request of a client, which waits for the reply.
pub struct Asked {
    /// The client.
    pub client: ClientId,
    /// What it asks for.
    pub request: Request,
    /// The descriptor that came with it.
    pub given: Option<OwnedFd>,
}

/// The reply to a request that was fulfilled.
#[derive(Default)]
pub struct Answer {
    /// Lines of data, each with its end.
    pub lines: String,
    /// A descriptor that goes with them.
    pub descriptor: Option<OwnedFd>,
}

impl Doors {
    /// Opens the sockets, each in a folder of its own, so that a pod can be given one and not see
    /// the others.
    pub fn open(&mut self) -> Outcome {
        let sockets = [
            (Role::Net, NET_SOCKET),
            (Role::Admin, ADMIN_SOCKET),
            (Role::Update, UPDATE_SOCKET),
            (Role::Time, TIME_SOCKET),
        ];
        for (role, path) in sockets {
            let parent = Path::new(path).parent().unwrap_or(Path::new("/"));
            fs::create_dir_all(parent).explain(format_args!("make {}", parent.display()))?;
            let listener = UnixListener::bind(path).explain(format_args!("listen on {path}"))?;
            listener
                .set_nonblocking(true)
                .explain(format_args!("listen on {path} without blocking"))?;
            self.doors.push(Door { role, listener, clients: Vec::new() });
        }
        Ok(())
    }

    /// Everything that can become readable.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let listeners = self.doors.iter().map(|door| door.listener.as_fd());
        let clients =
            self.doors.iter().flat_map(|door| &door.clients).filter(|client| !client.waits);
        listeners.chain(clients.map(|client| client.stream.as_fd()))
    }

    /// Whether a client may have more lines that were read already.
    pub fn has_more(&self) -> bool {
        let mut clients = self.doors.iter().flat_map(|door| &door.clients);
        clients.any(|client| client.has_more && !client.waits)
    }

    /// Takes new clients and returns the requests that have come, one of each client at most.
    pub fn read(&mut self) -> Vec<Asked> {
        let mut asked = Vec::new();
        for door in &mut self.doors {
            // What is left over waits for the next turn: nobody keeps `init` from its other work.
            for _ in 0..MOST_CLIENTS {
                let Ok((stream, _)) = door.listener.accept() else { break };
                if stream.set_nonblocking(true).is_ok() {
                    if door.clients.len() == MOST_CLIENTS {
                        door.clients.remove(0);
                    }
                    self.clients += 1;
                    door.clients.push(Client::new(ClientId(self.clients), stream));
                }
            }
            let role = door.role;
            door.clients.retain_mut(|client| match client.read(role) {
                Ok(request) => {
                    asked.extend(request);
                    true
                }
                Err(Gone) => false,
            });
        }
        asked
    }

    /// Replies to a client. It may be gone.
    pub fn reply(&mut self, client: ClientId, outcome: &Outcome<Answer>) {
        for door in &mut self.doors {
            door.clients.retain_mut(|one| {
                if one.id != client {
                    return true;
                }
                one.waits = false;
                one.tell(outcome).is_ok()
            });
        }
    }
}

/// The client has closed, or does not take its replies.
struct Gone;

impl Client {
    fn new(id: ClientId, stream: UnixStream) -> Self {
        let lines = Lines::default();
        Client { id, stream, lines, given: None, waits: false, has_more: false }
    }

    /// Reads its next request, if one has come, and refuses lines that are none.
    fn read(&mut self, role: Role) -> Result<Option<Asked>, Gone> {
        let mut buffer = [0u8; MAX_LINE];
        for _ in 0..MOST_PIECES {
            if self.waits {
                return Ok(None);
            }
            self.has_more = true;
            while let Some(line) = self.lines.take(MAX_LINE) {
                match parse(role, &line) {
                    Ok(request) => {
                        self.waits = true;
                        let (client, given) = (self.id, self.given.take());
                        return Ok(Some(Asked { client, request, given }));
                    }
                    Err(failure) => self.tell(&Err(failure)).map_err(|_| Gone)?,
                }
            }
            self.has_more = false;
            match passing::receive(&self.stream, &mut buffer) {
                Ok((0, _)) => return Err(Gone),
                Ok((read, given)) => {
                    self.lines.push(&buffer[..read]);
                    self.given = given.or(self.given.take());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(_) => return Err(Gone),
            }
        }
        self.has_more = true;
        Ok(None)
    }

    /// A reply is short. A client that does not even take that is not waited for.
    fn tell(&self, outcome: &Outcome<Answer>) -> io::Result<()> {
        match outcome {
            Ok(Answer { lines, descriptor }) => {
                let descriptor = descriptor.as_ref().map(AsFd::as_fd);
                passing::send(&self.stream, &format!("{lines}{OK}\n"), descriptor)
            }
            Err(failure) => passing::send(&self.stream, &format!("{ERROR}{failure}\n"), None),
        }
    }
}
