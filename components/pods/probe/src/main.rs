//! A pod for tests. Each of its ports (`PORTS`) takes a request, up to the end of the client's
//! stream, and sends a reply or a line that starts with `error`. Facts are read anew for each
//! connection.
//!
//! `/proc/1/root` is the host's root.
//!
//! With the argument `ends` it has no ports, and ends on SIGTERM. With `calls` it has none either,
//! and prints every second which system calls it may make. With `confined` it ends at once, with
//! its AppArmor profile as its message.

mod calls;
mod cgroups;
mod confined;
mod contents;
mod ending;
mod files;
mod filled;
mod freeze;
mod join;
mod kernel;
mod logs;
mod names;
mod partition;
mod place;
mod plain_copy;
mod processes;
mod read_only;
mod relay;
mod signals;
mod sockets;
mod swap;
mod synced;
mod sys;
mod tables;
mod versions;

use osbuild_abi::paths::{CONTAINERD_SOCKET, OSD_SOCKET};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Handles one connection and returns the reply.
type Handler = fn(&TcpStream) -> io::Result<String>;

/// The ports with their handlers.
const PORTS: [(u16, Handler); 20] = [
    (7070, report),
    (7071, join),
    (7072, freeze),
    (7073, write),
    (7074, unpack),
    (7075, copy),
    (7076, request),
    (7077, make_disk),
    (7078, put),
    (7088, fill),
    (7089, signal),
    (7090, log),
    (7091, relay),
    (7092, file),
    (7093, relay_to_plugin),
    (7094, remove_table),
    (7095, turn_swap_off),
    (7096, connect_to_containerd),
    (7097, relay_to_containerd),
    (7098, types),
];

/// The host's root, which is PID 1's.
const HOST: &str = "/proc/1/root";

/// The socket that the grant of the plugin makes.
const PLUGIN_SOCKET: &str = "/run/osbuild/plugins/full-name/socket";

/// Where the host's folder for releases is mounted.
const RELEASES: &str = "/releases";

/// The kernel's types, which only some kernels have.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

fn main() -> io::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("ends") => return ending::on_request(),
        Some("confined") => return confined::report(),
        Some("calls") => calls::print_for_ever(),
        _ => {}
    }
    let bound: io::Result<Vec<_>> = PORTS
        .iter()
        .map(|(port, handler)| Ok((TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port))?, *handler)))
        .collect();
    let bound = bound?;
    std::thread::scope(|threads| {
        threads.spawn(|| {
            names::serve(Path::new(HOST)).unwrap_or_else(|error| eprintln!("error: names: {error}"))
        });
        for (listener, handler) in &bound {
            threads.spawn(move || serve(listener, *handler));
        }
    });
    Ok(())
}

/// Serves one connection after another, forever.
fn serve(listener: &TcpListener, handler: Handler) {
    for stream in listener.incoming().flatten() {
        let reply = handler(&stream).unwrap_or_else(|error| format!("error: {error}\n"));
        // The client may have closed the connection.
        let _ = (&stream).write_all(reply.as_bytes());
    }
}

/// Reports all facts about the node, one per line. The last line is `end`, so that a truncated
/// report is recognized.
fn report(_: &TcpStream) -> io::Result<String> {
    let host = Path::new(HOST);
    let proc = Path::new("/proc");
    let facts = [
        cgroups::facts(host),
        files::facts(host),
        kernel::facts(host),
        processes::facts(proc, "1"),
        versions::facts(host),
    ];
    let facts = facts
        .into_iter()
        .flat_map(|facts| facts.unwrap_or_else(|error| vec![format!("error {error}")]));
    Ok(facts.chain(["end".to_owned()]).map(line).collect())
}

/// Takes a line with the URL of an API server and then the certificate of its clients' CA, and
/// makes the node join that cluster.
fn join(stream: &TcpStream) -> io::Result<String> {
    let cluster = read(stream)?;
    let (server, authority) = cluster.split_once('\n').unwrap_or((&cluster, ""));
    join::join(Path::new(HOST), server, authority)
}

/// Freezes PID 1.
fn freeze(_: &TcpStream) -> io::Result<String> {
    freeze::freeze(Path::new(HOST)).map(|()| line("end"))
}

/// Takes the name of a table of nftables, removes it, and waits until it is back. Replies with the
/// milliseconds that this took.
fn remove_table(stream: &TcpStream) -> io::Result<String> {
    tables::remove(read(stream)?.trim()).map(|took| line(took.as_millis()))
}

/// Takes the device of a swap, turns that off, and returns the milliseconds until it is on again.
fn turn_swap_off(stream: &TcpStream) -> io::Result<String> {
    swap::turn_off(Path::new(HOST), read(stream)?.trim()).map(|took| line(took.as_millis()))
}

/// Connects to containerd, sends the process identifier of the pod, and keeps the connection until
/// the request ends.
fn connect_to_containerd(mut stream: &TcpStream) -> io::Result<String> {
    let path = Path::new(HOST).join(CONTAINERD_SOCKET.trim_start_matches('/'));
    let _connected = UnixStream::connect(path)?;
    stream.write_all(line(std::process::id()).as_bytes())?;
    read(stream).map(|_| line("ok"))
}

/// Takes a number, and writes that many files, each flushed before the next.
fn write(stream: &TcpStream) -> io::Result<String> {
    let last = read(stream)?.trim().parse().map_err(io::Error::other)?;
    synced::write(Path::new(HOST), last).map(|()| line("ok"))
}

/// Takes a tar archive, and unpacks it to the folder in which a node without a network looks for
/// releases.
fn unpack(stream: &TcpStream) -> io::Result<String> {
    tar::Archive::new(stream).unpack(RELEASES).map(|()| line("ok"))
}

/// Takes a line with the name of a partition and then the bytes to write to it. Replies with the
/// seconds that it took.
fn copy(stream: &TcpStream) -> io::Result<String> {
    let mut sent = BufReader::new(stream);
    let mut partition = String::new();
    sent.read_line(&mut partition)?;
    plain_copy::write(Path::new(HOST), partition.trim_end(), sent)
        .map(|took| line(took.as_secs_f64()))
}

/// Takes the path of one of `init`'s sockets, a space and a request line. Replies with `init`'s
/// reply.
fn request(stream: &TcpStream) -> io::Result<String> {
    let request = read(stream)?;
    let (path, line) = request.split_once(' ').unwrap_or((&request, ""));
    sockets::request(Path::new(HOST), path, line)
}

/// Takes `read-only` or `writable`, and sets the node's disk to that.
fn make_disk(stream: &TcpStream) -> io::Result<String> {
    let is_read_only = match read(stream)?.as_str() {
        "read-only" => true,
        "writable" => false,
        other => {
            return Err(io::Error::other(format!("`{other}` is not `read-only` or `writable`")));
        }
    };
    read_only::set(Path::new(HOST), is_read_only).map(|()| line("ok"))
}

/// Takes a tar archive of files, and unpacks it below the node's root.
fn put(stream: &TcpStream) -> io::Result<String> {
    place::place(Path::new(HOST), stream).map(|()| line("ok"))
}

/// Takes a number of MiB, and writes that much without a flush.
fn fill(stream: &TcpStream) -> io::Result<String> {
    let mib = read(stream)?.trim().parse().map_err(io::Error::other)?;
    filled::write(Path::new(HOST), mib).map(|()| line("ok"))
}

/// Takes `NAME STOP`, `NAME CONT` or `NAME KILL`, and stops, continues or kills that program.
fn signal(stream: &TcpStream) -> io::Result<String> {
    signals::send(Path::new("/proc"), &read(stream)?).map(|()| line("ok"))
}

/// Takes the name of a static pod, and replies with its log.
fn log(stream: &TcpStream) -> io::Result<String> {
    logs::of_pod(Path::new(HOST), read(stream)?.trim())
}

/// Connects the client to the socket of the pod `osd`.
fn relay(stream: &TcpStream) -> io::Result<String> {
    relay::relay(stream, Path::new(HOST), OSD_SOCKET).map(|()| String::new())
}

/// Connects the client to the socket of the plugin `full-name`.
fn relay_to_plugin(stream: &TcpStream) -> io::Result<String> {
    relay::relay(stream, Path::new(HOST), PLUGIN_SOCKET).map(|()| String::new())
}

/// Connects the client to the socket of containerd.
fn relay_to_containerd(stream: &TcpStream) -> io::Result<String> {
    relay::relay(stream, Path::new(HOST), CONTAINERD_SOCKET).map(|()| String::new())
}

/// Takes `PATH` or `PATH TEXT`, overwrites that file with the text, and replies with its contents.
fn file(stream: &TcpStream) -> io::Result<String> {
    contents::request(Path::new(HOST), &read(stream)?)
}

/// Replies with the bytes of the kernel's types.
fn types(mut stream: &TcpStream) -> io::Result<String> {
    io::copy(&mut File::open(TYPES)?, &mut stream).map(|_| String::new())
}

/// Reads the request, up to the end of the client's stream.
fn read(mut stream: &TcpStream) -> io::Result<String> {
    let mut request = String::new();
    stream.read_to_string(&mut request).map(|_| request)
}

fn line(text: impl Display) -> String {
    format!("{text}\n")
}
