//! The unix sockets into the host, one a role. `osbuild_abi::sockets` describes what is spoken on
//! them.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use osbuild_abi::paths::{ADMIN_SOCKET, NET_SOCKET, TIME_SOCKET, UPDATE_SOCKET};
use osbuild_abi::sockets::{ERROR, MAX_LINE, OK, update};
use osbuild_failure::{Explain, Failure, Outcome};

use crate::errand::{self, Work};
use crate::lines::Lines;
use crate::node::Node;
use crate::shutdown::End;
use crate::verbs::{Request, Role, parse};
use crate::{
    addresses, clock, hostname, kubelet, link, node_name, passing, resolver, servers, slot, status,
};

/// How many clients may be connected to a socket at once. One more pushes out the one that came
/// first.
const MOST_CLIENTS: usize = 8;

/// How many pieces of lines a client may have read in a turn.
const MOST_PIECES: usize = 16;

/// The open sockets.
#[derive(Default)]
pub struct Doors {
    doors: Vec<Door>,
}

struct Door {
    role: Role,
    listener: UnixListener,
    clients: Vec<Client>,
}

struct Client {
    stream: UnixStream,
    lines: Lines,
    /// The descriptor that it has sent last, until a line takes it.
    given: Option<OwnedFd>,
    /// Whether an errand of its is under way. It is not read meanwhile.
    waits: bool,
}

/// What a line is answered with.
enum Answer {
    /// These lines of data, and `ok`.
    Lines(String),
    /// The same, with a descriptor.
    Descriptor(String, OwnedFd),
    /// Nothing yet: an errand is under way.
    Later,
}

impl Doors {
    /// Everything that can become readable.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let listeners = self.doors.iter().map(|door| door.listener.as_fd());
        let clients =
            self.doors.iter().flat_map(|door| &door.clients).filter(|client| !client.waits);
        listeners.chain(clients.map(|client| client.stream.as_fd()))
    }
}

/// Opens the sockets, each in a folder of its own, so that a pod can be given one and not see the
/// others.
pub fn open(node: &mut Node) -> Outcome {
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
        node.doors.doors.push(Door { role, listener, clients: Vec::new() });
    }
    Ok(())
}

/// Takes new clients and answers lines that have come.
pub fn serve(node: &mut Node) {
    // While a line is obeyed the node is whole except for its doors, which no line is about.
    let mut doors = std::mem::take(&mut node.doors);
    for door in &mut doors.doors {
        // What is left over waits for the next turn: nobody keeps `init` from its other work.
        for _ in 0..MOST_CLIENTS {
            let Ok((stream, _)) = door.listener.accept() else { break };
            if stream.set_nonblocking(true).is_ok() {
                if door.clients.len() == MOST_CLIENTS {
                    door.clients.remove(0);
                }
                door.clients.push(Client {
                    stream,
                    lines: Lines::default(),
                    given: None,
                    waits: false,
                });
            }
        }
        let role = door.role;
        door.clients.retain_mut(|client| client.serve(role, node));
    }
    node.doors = doors;
}

/// Answers the client whose errand has ended. It may be gone.
pub fn finish(node: &mut Node, outcome: Outcome) {
    let done = Answer::Lines(String::new());
    let clients = node.doors.doors.iter_mut().flat_map(|door| &mut door.clients);
    for client in clients.filter(|client| client.waits) {
        client.waits = false;
        // Whether it hears that does not matter: that it has closed is noticed when it is read
        // next.
        let _ = client.tell(outcome.as_ref().map(|()| &done));
    }
}

impl Client {
    /// Answers the lines that have come, up to a number, and returns whether the client is still
    /// there.
    fn serve(&mut self, role: Role, node: &mut Node) -> bool {
        let mut buffer = [0u8; MAX_LINE];
        for _ in 0..MOST_PIECES {
            while !self.waits
                && let Some(line) = self.lines.take(MAX_LINE)
            {
                let answer =
                    parse(role, &line).and_then(|request| obey(request, self.given.take(), node));
                // An answer is short. A client that does not even take that is not waited for.
                if self.tell(answer.as_ref()).is_err() {
                    return false;
                }
                self.waits = matches!(answer, Ok(Answer::Later));
            }
            if self.waits {
                return true;
            }
            match passing::receive(&self.stream, &mut buffer) {
                Ok((0, _)) => return false,
                Ok((read, given)) => {
                    self.lines.push(&buffer[..read]);
                    self.given = given.or(self.given.take());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
        true
    }

    fn tell(&self, answer: Result<&Answer, &Failure>) -> io::Result<()> {
        match answer {
            Ok(Answer::Lines(data)) => passing::send(&self.stream, &format!("{data}{OK}\n"), None),
            Ok(Answer::Descriptor(data, given)) => {
                passing::send(&self.stream, &format!("{data}{OK}\n"), Some(given.as_fd()))
            }
            Ok(Answer::Later) => Ok(()),
            Err(failure) => passing::send(&self.stream, &format!("{ERROR}{failure}\n"), None),
        }
    }
}

/// Does what is asked, with the descriptor that came with it.
fn obey(request: Request, given: Option<OwnedFd>, node: &mut Node) -> Outcome<Answer> {
    let _cover = request.waits_for_a_disk().then(|| node.watchdog.cover());
    match request {
        Request::HostName(name) => {
            let set = hostname::set(node, &name);
            node_name::told(node);
            set?;
        }
        Request::Resolv { servers, search } => {
            resolver::note()?;
            servers::write_resolv(&servers, &search)?;
            resolver::renew(node);
        }
        Request::TimeServers(servers) => servers::write_time(node, &servers)?,
        Request::Addresses { addresses, link } => addresses::tell(node, &addresses, &link)?,
        Request::RouterAdvertisements(link) => link::hear_router_advertisements(&link)?,
        Request::LastClock => return Ok(Answer::Lines(node.clock.last())),
        Request::ClockSet(report) => clock::tell_set(node, &report),
        Request::ClockRefused(report) => clock::tell_refused(node, &report),
        Request::Status => return Ok(Answer::Lines(status::lines(node))),
        Request::SlotStatus => return Ok(Answer::Lines(slot::status(node)?)),
        Request::OpenSlot => {
            let (slot, length) = slot::open_other(node)?;
            return Ok(Answer::Descriptor(format!("{}{length}\n", update::LENGTH), slot));
        }
        Request::TrySlot => return begin(node, Work::Try, &slot::other_device(node)?, None),
        Request::ReplaceBootProgram => {
            let device = slot::system_device(node)?;
            let given = given.ok_or_else(|| Failure::new("no descriptor came with the line"))?;
            return begin(node, Work::BootProgram, &device, Some(given));
        }
        Request::RestartKubelet => kubelet::restart(node),
        Request::Reboot => node.end = Some(End::Reboot),
        Request::PowerOff => node.end = Some(End::PowerOff),
    }
    Ok(Answer::Lines(String::new()))
}

fn begin(node: &mut Node, work: Work, device: &Path, given: Option<OwnedFd>) -> Outcome<Answer> {
    errand::begin(node, work, device, given).map(|()| Answer::Later)
}
