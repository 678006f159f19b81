//! The clients of the container runtime: the processes that have connected to its socket, or to
//! that of its plugins, which makes each of them root on the node.
//!
//! The kernel notes at the runtime's end of a connection which process has made it. So this process
//! duplicates the sockets of the runtime one after another (pidfd_getfd(2)), asks, and closes them
//! again. It reads and writes nothing. A client is found whatever its network namespace is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use osbuild_protocol::{ClientProcess, MAX_RUNTIME_CLIENTS, RuntimeClient, RuntimeClients};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::readlinkat;
use rustix::io::Errno;
use rustix::net::sockopt::socket_acceptconn;
use rustix::net::{SocketAddrUnix, getsockname};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use init::process;

use crate::sys::peer::{self, Peer};

/// The most descriptors of the runtime, and folders of logs, that are looked at. A node has some
/// thousands of the former.
const MAX_DESCRIPTORS: usize = 1 << 16;
const MAX_LOGS: usize = 4096;

/// How the targets of the links of a process to its sockets begin.
const SOCKET: &[u8] = b"socket:";

/// Of a client, what tells it from the others: its process identifier, and whether it has ended, as
/// another process may have the same one by now.
type Key = (i32, bool);

/// The clients of the runtime, a process that listens at the paths `listening`. The folder `logs`
/// has the names of pods.
///
/// # Errors
/// The runtime has ended, it has too many descriptors, or this process may not see them.
pub fn clients(runtime: Pid, listening: &[PathBuf], logs: &Path) -> io::Result<RuntimeClients> {
    let opened = pidfd_open(runtime, PidfdFlags::empty())?;
    let mut found = Found::default();
    for number in sockets(runtime)? {
        if let Some(peer) = client(opened.as_fd(), number, listening)? {
            found.add(&peer);
        }
    }
    let mut clients: Vec<RuntimeClient> = found.clients.into_values().collect();
    name_pods(&mut clients, logs);
    Ok(RuntimeClients { left_out: found.left_out.len() as u64, clients })
}

/// The clients that were found so far.
#[derive(Default)]
struct Found {
    clients: BTreeMap<Key, RuntimeClient>,
    left_out: BTreeSet<Key>,
}

impl Found {
    /// Adds a connection, which this process has made.
    fn add(&mut self, peer: &Peer) {
        if is_running(peer)
            && let Some(known) = self.clients.get_mut(&(peer.pid, false))
        {
            known.connections += 1;
            return;
        }
        let process = read(peer);
        let key = (peer.pid, process.is_none());
        if self.clients.len() == MAX_RUNTIME_CLIENTS && !self.clients.contains_key(&key) {
            self.left_out.insert(key);
            return;
        }
        let new = RuntimeClient { pid: peer.pid, connections: 0, process };
        self.clients.entry(key).or_insert(new).connections += 1;
    }
}

/// The descriptors of a process that are sockets.
fn sockets(process: Pid) -> io::Result<Vec<RawFd>> {
    let path = format!("/proc/{}/fd", process.as_raw_nonzero());
    let folder = File::open(&path)?;
    let mut found = Vec::new();
    for (count, entry) in fs::read_dir(path)?.enumerate() {
        if count == MAX_DESCRIPTORS {
            return Err(io::Error::other(format!(
                "it has more than {MAX_DESCRIPTORS} descriptors"
            )));
        }
        let name = entry?.file_name();
        // One that was closed meanwhile has no target.
        let target = readlinkat(&folder, &name, Vec::new()).unwrap_or_default();
        if target.as_bytes().starts_with(SOCKET) {
            found.extend(name.to_str().and_then(|name| name.parse::<RawFd>().ok()));
        }
    }
    Ok(found)
}

/// The process that has made the connection which the runtime has as this descriptor. None if it is
/// no connection to one of the sockets, or has been closed.
fn client(runtime: BorrowedFd, number: RawFd, listening: &[PathBuf]) -> io::Result<Option<Peer>> {
    let descriptor = match pidfd_getfd(runtime, number, PidfdGetfdFlags::empty()) {
        Err(Errno::BADF) => return Ok(None),
        descriptor => descriptor?,
    };
    let name = getsockname(&descriptor).and_then(SocketAddrUnix::try_from);
    let is_there = name.is_ok_and(|name| {
        listening.iter().any(|path| name.path_bytes() == Some(path.as_os_str().as_bytes()))
    });
    if !is_there || socket_acceptconn(&descriptor)? || has(&descriptor, PollFlags::HUP)? {
        return Ok(None);
    }
    peer::of(descriptor).map(Some)
}

/// Whether this is so, without waiting for it.
fn has(descriptor: impl AsFd, event: PollFlags) -> io::Result<bool> {
    let mut polled = [PollFd::new(&descriptor, event)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    Ok(polled[0].revents().contains(event))
}

/// Whether the process has not ended.
fn is_running(peer: &Peer) -> bool {
    let has_ended = |process| has(process, PollFlags::IN).unwrap_or(true);
    peer.process.as_ref().is_some_and(|process| !has_ended(process))
}

/// The process; none if it has ended.
fn read(peer: &Peer) -> Option<ClientProcess> {
    let file = |name: &str| format!("/proc/{}/{name}", peer.pid);
    // It has none if its first thread has ended, and others have not.
    let program = fs::read_link(file("exe")).unwrap_or_default();
    let groups = fs::read_to_string(file("cgroup")).ok()?;
    let cgroup = process::control_group(&groups).unwrap_or_default().to_owned();
    let ticks = process::start(&fs::read(file("stat")).ok()?)?;
    let milliseconds = ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second().max(1);
    let found = ClientProcess {
        program: program.to_string_lossy().into_owned(),
        pod: process::pod(&cgroup).unwrap_or_default().to_owned(),
        cgroup,
        since: Duration::from_millis(milliseconds),
    };
    // Otherwise the files may have been those of another process with its number.
    is_running(peer).then_some(found)
}

/// Puts the names of pods in place of their identifiers. The kubelet names the folder with the logs
/// of a pod `NAMESPACE_NAME_UID`.
fn name_pods(clients: &mut [RuntimeClient], logs: &Path) {
    let processes = clients.iter_mut().filter_map(|client| client.process.as_mut());
    let mut of_pods: Vec<_> = processes.filter(|process| !process.pod.is_empty()).collect();
    if of_pods.is_empty() {
        return;
    }
    let entries = fs::read_dir(logs).into_iter().flatten().flatten().take(MAX_LOGS);
    let names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    for ClientProcess { pod, .. } in &mut of_pods {
        let name = names.iter().find_map(|name| {
            let (namespace, name) =
                name.strip_suffix(pod.as_str())?.strip_suffix('_')?.split_once('_')?;
            Some(format!("{namespace}/{name}"))
        });
        if let Some(name) = name {
            *pod = name;
        }
    }
}

#[cfg(test)]
mod tests;
