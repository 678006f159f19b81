//! A pod for tests: whoever connects to one of its ports and says what there is to say there gets
//! an answer, or a line that begins with `error`. `PORTS` names the ports. What it tells it asks
//! for anew for each connection.
//!
//! `/proc/1/root` is the host's root.

mod cgroups;
mod files;
mod filled;
mod freeze;
mod join;
mod kernel;
mod names;
mod partition;
mod place;
mod plain_copy;
mod processes;
mod read_only;
mod signals;
mod sockets;
mod synced;
mod sys;
mod versions;

use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;

/// What answers one connection.
type Answer = fn(&TcpStream) -> io::Result<String>;

/// The ports, each with what answers there.
const PORTS: [(u16, Answer); 11] = [
    (7070, tell),
    (7071, join),
    (7072, freeze),
    (7073, write),
    (7074, unpack),
    (7075, copy),
    (7076, say),
    (7077, make_disk),
    (7078, put),
    (7088, fill),
    (7089, signal),
];

/// The host's root, by way of PID 1.
const HOST: &str = "/proc/1/root";

/// Where the host's folder for releases is mounted.
const RELEASES: &str = "/releases";

fn main() -> io::Result<()> {
    let bound: io::Result<Vec<_>> = PORTS
        .iter()
        .map(|(port, answer)| Ok((TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port))?, *answer)))
        .collect();
    let bound = bound?;
    std::thread::scope(|threads| {
        threads.spawn(|| {
            names::serve(Path::new(HOST)).unwrap_or_else(|error| eprintln!("error: names: {error}"))
        });
        for (listener, answer) in &bound {
            threads.spawn(move || serve(listener, *answer));
        }
    });
    Ok(())
}

/// Serves one after another, for ever.
fn serve(listener: &TcpListener, answer: Answer) {
    for stream in listener.incoming().flatten() {
        let answer = answer(&stream).unwrap_or_else(|error| format!("error: {error}\n"));
        // Who went away before the end does not want the rest.
        let _ = (&stream).write_all(answer.as_bytes());
    }
}

/// Every fact about the node, one a line. The last line is `end`, so that a report that was cut
/// short is not taken for a whole one.
fn tell(_: &TcpStream) -> io::Result<String> {
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

/// Takes the URL of an API server, in a line, and then the certificate of the CA of its clients,
/// and makes the node join that cluster.
fn join(stream: &TcpStream) -> io::Result<String> {
    let cluster = said(stream)?;
    let (server, authority) = cluster.split_once('\n').unwrap_or((&cluster, ""));
    join::join(Path::new(HOST), server, authority)
}

/// Makes PID 1 stand still.
fn freeze(_: &TcpStream) -> io::Result<String> {
    freeze::freeze(Path::new(HOST)).map(|()| line("end"))
}

/// Takes a number, and writes so many files, each on the disk before the next.
fn write(stream: &TcpStream) -> io::Result<String> {
    let last = said(stream)?.trim().parse().map_err(io::Error::other)?;
    synced::write(Path::new(HOST), last).map(|()| line("ok"))
}

/// Takes a tar archive, and unpacks it where the node without a network looks for releases.
fn unpack(stream: &TcpStream) -> io::Result<String> {
    tar::Archive::new(stream).unpack(RELEASES).map(|()| line("ok"))
}

/// Takes the name of a partition, in a line, and then what to write over it, and says how many
/// seconds that took.
fn copy(stream: &TcpStream) -> io::Result<String> {
    let mut sent = BufReader::new(stream);
    let mut partition = String::new();
    sent.read_line(&mut partition)?;
    plain_copy::write(Path::new(HOST), partition.trim_end(), sent)
        .map(|took| line(took.as_secs_f64()))
}

/// Takes the path of one of `init`'s sockets, and behind a space a line, and gives what `init`
/// answers to that.
fn say(stream: &TcpStream) -> io::Result<String> {
    let words = said(stream)?;
    let (path, words) = words.split_once(' ').unwrap_or((&words, ""));
    sockets::say(Path::new(HOST), path, words)
}

/// Takes `read-only` or `writable`, and makes the node's disk so.
fn make_disk(stream: &TcpStream) -> io::Result<String> {
    let is_read_only = match said(stream)?.as_str() {
        "read-only" => true,
        "writable" => false,
        other => return Err(io::Error::other(format!("no disk is made `{other}`"))),
    };
    read_only::set(Path::new(HOST), is_read_only).map(|()| line("ok"))
}

/// Takes a tar archive of files, and puts them below the node's root.
fn put(stream: &TcpStream) -> io::Result<String> {
    place::place(Path::new(HOST), stream).map(|()| line("ok"))
}

/// Takes a number of MiB, and writes so much without a flush.
fn fill(stream: &TcpStream) -> io::Result<String> {
    let mib = said(stream)?.trim().parse().map_err(io::Error::other)?;
    filled::write(Path::new(HOST), mib).map(|()| line("ok"))
}

/// Takes `NAME STOP`, and has that daemon of the host stand still.
fn signal(stream: &TcpStream) -> io::Result<String> {
    signals::send(Path::new("/proc"), &said(stream)?).map(|()| line("ok"))
}

/// What somebody says on `stream`, to the end.
fn said(mut stream: &TcpStream) -> io::Result<String> {
    let mut said = String::new();
    stream.read_to_string(&mut said).map(|_| said)
}

fn line(words: impl Display) -> String {
    format!("{words}\n")
}
