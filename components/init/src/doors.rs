//! The unix sockets into the host, one a role. `osbuild_abi::sockets` describes what is spoken on them.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use osbuild_abi::console::ADDRESS;
use osbuild_abi::paths::{ADMIN_SOCKET, NET_SOCKET};
use osbuild_abi::sockets::{ERROR, MAX_LINE, OK};

use crate::failure::{Explain, Outcome};
use crate::lines::Lines;
use crate::node::Node;
use crate::shutdown::End;
use crate::verbs::{Request, Role, parse};
use crate::{hostname, kubelet, servers, status};

/// How many clients may be connected to a socket at once. One more pushes out the one that came first.
const MOST_CLIENTS: usize = 8;

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
}

impl Doors {
    /// Everything that can become readable.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let listeners = self.doors.iter().map(|door| door.listener.as_fd());
        listeners.chain(self.doors.iter().flat_map(|door| &door.clients).map(|client| client.stream.as_fd()))
    }
}

/// Opens the sockets, each in a folder of its own, so that a pod can be given one and not see the others.
pub fn open(node: &mut Node) -> Outcome {
    for (role, path) in [(Role::Net, NET_SOCKET), (Role::Admin, ADMIN_SOCKET)] {
        let parent = Path::new(path).parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent).explain(format_args!("make {}", parent.display()))?;
        let listener = UnixListener::bind(path).explain(format_args!("listen on {path}"))?;
        listener.set_nonblocking(true).explain(format_args!("listen on {path} without blocking"))?;
        node.doors.doors.push(Door { role, listener, clients: Vec::new() });
    }
    Ok(())
}

/// Takes new clients and answers all lines that have come.
pub fn serve(node: &mut Node) {
    // While a line is obeyed the node is whole except for its doors, which no line is about.
    let mut doors = std::mem::take(&mut node.doors);
    for door in &mut doors.doors {
        while let Ok((stream, _)) = door.listener.accept() {
            if stream.set_nonblocking(true).is_ok() {
                if door.clients.len() == MOST_CLIENTS {
                    door.clients.remove(0);
                }
                door.clients.push(Client { stream, lines: Lines::default() });
            }
        }
        let role = door.role;
        door.clients.retain_mut(|client| client.serve(role, node));
    }
    node.doors = doors;
}

impl Client {
    /// Answers all lines that have come, and returns whether the client is still there.
    fn serve(&mut self, role: Role, node: &mut Node) -> bool {
        let mut buffer = [0u8; MAX_LINE];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(read) => self.lines.push(&buffer[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
            while let Some(line) = self.lines.take(MAX_LINE) {
                // An answer is short. A client that does not even take that is not waited for.
                if self.stream.write_all(answer(role, &line, node).as_bytes()).is_err() {
                    return false;
                }
            }
        }
    }
}

fn answer(role: Role, line: &str, node: &mut Node) -> String {
    match parse(role, line).and_then(|request| obey(request, node)) {
        Ok(data) => format!("{data}{OK}\n"),
        Err(failure) => format!("{ERROR}{failure}\n"),
    }
}

/// Does what is asked and returns the lines to answer.
fn obey(request: Request, node: &mut Node) -> Outcome<String> {
    match request {
        Request::HostName(name) => hostname::set(node, &name)?,
        Request::Resolv { servers, search } => servers::write_resolv(&servers, &search)?,
        Request::TimeServers(servers) => servers::write_time(&servers)?,
        Request::Address { address, link } => tell_address(node, &address, &link),
        Request::Status => return Ok(status::lines(node)),
        Request::RestartKubelet => kubelet::restart(node),
        Request::Reboot => node.end = Some(End::Reboot),
        Request::PowerOff => node.end = Some(End::PowerOff),
    }
    Ok(String::new())
}

/// Remembers one address a link, and prints it when it is new.
fn tell_address(node: &mut Node, address: &str, link: &str) {
    let told = format!("{address} on {link}");
    if node.addresses.contains(&told) {
        return;
    }
    let same_link = format!(" on {link}");
    node.addresses.retain(|other| !other.ends_with(&same_link));
    node.console.line(&format!("{ADDRESS}{told}"));
    node.addresses.push(told);
}
