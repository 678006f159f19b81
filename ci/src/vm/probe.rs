//! The client of the pod `probe`, which reports a node's state from inside and changes it for
//! checks.

use super::machine::TIMEOUT;
use osbuild::error::{Context, Error, Result};
use osbuild_abi::paths::{ADMIN_SOCKET, UPDATE_SOCKET};
use osbuild_protocol::{NodeStatus, Reply, Request, Slots, SlotsStatus};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The recipe with the pod.
pub const RECIPE: &str = "probe";

/// The recipe that has the kubelet of the minor after the peg instead.
pub const NEXT_RECIPE: &str = "probe-next";
/// The recipe of the node with the probe and with AppArmor.
pub const APPARMOR_RECIPE: &str = "probe-apparmor";
/// The recipe of the node with the probe and with the kernel's types.
pub const BTF_RECIPE: &str = "probe-btf";

/// A port of the pod: reports facts, one per line.
pub const FACTS: u16 = 7070;
/// Takes the URL of an API server and the certificate of its CA, and joins that cluster.
pub const JOIN: u16 = 7071;
/// Freezes PID 1.
pub const FREEZE: u16 = 7072;
/// Takes a number of files, writes them, and flushes each before the next.
pub const SYNC: u16 = 7073;
/// Takes a tar archive of a repository for the updater.
pub const UNPACK: u16 = 7074;
/// Takes the name of a partition and bytes, and writes them as `dd` would.
pub const COPY: u16 = 7075;
/// Takes the path of one of `init`'s sockets and a line for it.
pub const SOCKET: u16 = 7076;
/// Makes the disk read-only or writable.
pub const DISK: u16 = 7077;
/// Takes a tar archive for the node's writable paths.
pub const PLACE: u16 = 7078;
/// Takes a size in MiB, and writes that much without a flush.
pub const FILL: u16 = 7088;
/// Takes the name of a daemon, or of a pod's program, and a signal for it.
pub const SIGNAL: u16 = 7089;

/// Takes the name of a static pod, and returns its log.
pub const LOG: u16 = 7090;
/// Leads to the socket of the pod `osd`.
pub const OSD: u16 = 7091;
/// Takes `PATH` or `PATH TEXT`, overwrites that file with the text, and replies with its contents.
pub const FILE: u16 = 7092;
/// Leads to the socket of the plugin `full-name`.
pub const PLUGIN: u16 = 7093;
/// Takes the name of a table of nftables, removes it, and replies with the milliseconds until it is
/// back.
pub const TABLE: u16 = 7094;
/// Takes the device of a swap, turns that off, and replies with the milliseconds until it is on
/// again.
pub const SWAP: u16 = 7095;
/// Connects to containerd until the request ends, and says before which process identifier it has.
pub const RUNTIME: u16 = 7096;
/// Leads to the socket of containerd.
pub const CONTAINERD: u16 = 7097;
/// Replies with the bytes of the kernel's types.
pub const TYPES: u16 = 7098;

/// The start of a reply in place of what was asked for: the reason follows.
pub const ERROR: &str = "error: ";

/// How long a closed port may stay silent before it counts as such, on an emulated processor.
pub const FACTS_TIMEOUT: Duration = Duration::from_secs(20);

/// A free port of the loopback, another one at each call: the kernel may offer the same one again
/// until somebody listens there.
pub fn free_port() -> Result<u16> {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let cannot = || "cannot find a free port".to_owned();
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).or_build(cannot)?;
        let port = listener.local_addr().or_build(cannot)?.port();
        if GIVEN.lock().unwrap_or_else(PoisonError::into_inner).insert(port) {
            return Ok(port);
        }
    }
}

/// Sends a request to the port `port` of the loopback, whose answer has to be `ok`.
pub fn command(port: u16, send: impl FnOnce(&mut TcpStream) -> std::io::Result<()>) -> Result<()> {
    match request(port, send)?.as_str() {
        "ok" => Ok(()),
        answer => Err(Error::build("the probe cannot execute a command").cause(answer)),
    }
}

/// Sends a request to the port `port` of the loopback, and returns the line of the answer.
pub fn request(
    port: u16,
    send: impl FnOnce(&mut TcpStream) -> std::io::Result<()>,
) -> Result<String> {
    let exchange = || -> std::io::Result<String> {
        let mut stream = connect(port)?;
        send(&mut stream)?;
        stream.shutdown(Shutdown::Write)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.trim_end().to_owned())
    };
    exchange().or_build(|| "cannot send a request to the probe".to_owned())
}

/// Sends a request to one of `init`'s sockets, through the port of the loopback that leads to
/// [`SOCKET`], and returns the answer.
pub fn ask_init(port: u16, socket: &str, line: &impl Display) -> Result<String> {
    request(port, |stream| write!(stream, "{socket} {line}"))
}

/// Asks `init` about the slots, through the port of the loopback that leads to [`SOCKET`].
pub fn slots(port: u16) -> Result<SlotsStatus> {
    match ask(port, UPDATE_SOCKET, &Request::SlotsStatus)? {
        Reply::Slots(Slots::Known(slots)) => Ok(slots),
        other => Err(Error::build("`init` does not know its slots").cause(format!("{other:?}"))),
    }
}

/// Asks `init` about the node, through the same port.
pub fn status(port: u16) -> Result<NodeStatus> {
    match ask(port, ADMIN_SOCKET, &Request::Status)? {
        Reply::Node(status) => Ok(*status),
        other => Err(Error::build("`init` does not report its status").cause(format!("{other:?}"))),
    }
}

fn ask(port: u16, socket: &str, request: &Request) -> Result<Reply> {
    let answer = ask_init(port, socket, request)?;
    let lines: Vec<String> = answer.lines().map(str::to_owned).collect();
    Reply::decode(request, &lines).map_err(|why| {
        Error::build(format!("cannot read the reply to `{request}`: {why}")).cause(answer)
    })
}

/// Reads the kernel's types from the port of the loopback that leads to [`TYPES`].
pub fn types(port: u16) -> Result<Vec<u8>> {
    let mut types = Vec::new();
    connect(port)
        .and_then(|mut stream| stream.read_to_end(&mut types))
        .or_build(|| "cannot read the kernel's types".to_owned())?;
    Ok(types)
}

/// Reads a whole report from the port of the loopback that leads to [`FACTS`]. Its last line is
/// `end`.
pub fn report(port: u16) -> Result<String> {
    let cannot = || "cannot read the probe's report".to_owned();
    let mut report = String::new();
    connect(port).and_then(|mut stream| stream.read_to_string(&mut report)).or_build(cannot)?;
    match report.strip_suffix("end\n") {
        Some(facts) => Ok(facts.to_owned()),
        None => Err(Error::build("the probe's report was cut short").cause(report)),
    }
}

/// Whether a probe reports anything within this time, through the port of the loopback that leads
/// to [`FACTS`].
pub fn answers(port: u16, within: Duration) -> bool {
    let byte = connect(port).and_then(|mut stream| {
        stream.set_read_timeout(Some(within))?;
        stream.read(&mut [0])
    });
    byte.is_ok_and(|length| length > 0)
}

fn connect(port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_is_given_once() {
        // The kernel has some 28,000 of them, so chance would give one twice.
        let ports: BTreeSet<u16> = (0..1000).map(|_| free_port().unwrap()).collect();
        assert_eq!(ports.len(), 1000);
    }
}
