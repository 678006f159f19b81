//! A pod for tests: whoever connects to its first port gets what the node looks like from inside, a fact a line; whoever sends the URL
//! of an API server and the certificate of a CA to its second one makes the node join that cluster; whoever connects to its third one makes
//! PID 1 stand still; whoever sends a number to its fourth one makes it write so many files, each on the disk before the next; whoever sends a
//! tar archive to its fifth one has it unpacked where the node without a network looks for releases; what somebody sends to its sixth one it
//! writes over the partition that the first line names, and says how long that took; and whoever sends the path of one of `init`'s sockets and
//! a line to its seventh one gets what `init` answers to that.
//!
//! `/proc/1/root` is the host's root. The facts are asked for anew for each connection.

mod files;
mod freeze;
mod join;
mod kernel;
mod plain_copy;
mod processes;
mod sockets;
mod synced;
mod sys;
mod versions;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;

/// The port on which it tells.
const TELL: u16 = 7070;
/// The port on which it takes the URL of an API server, in a line, and then the certificate of the CA of its clients, to the end.
const JOIN: u16 = 7071;
/// The port on which it takes the number of files to write, to the end.
const WRITE: u16 = 7073;
/// The port on which it freezes PID 1.
const FREEZE: u16 = 7072;
/// The port on which it takes a tar archive, to the end.
const UNPACK: u16 = 7074;
/// The port on which it takes the name of a partition, in a line, and then what to write there, to the end.
const COPY: u16 = 7075;
/// The port on which it takes the path of a socket, and behind a space what is said there, to the end.
const SAY: u16 = 7076;

/// The host's root, by way of PID 1.
const HOST: &str = "/proc/1/root";

/// Where the host's folder for releases is mounted.
const RELEASES: &str = "/releases";

fn main() -> io::Result<()> {
    let joins = TcpListener::bind((Ipv4Addr::UNSPECIFIED, JOIN))?;
    std::thread::spawn(move || serve(&joins, join));
    let writes = TcpListener::bind((Ipv4Addr::UNSPECIFIED, WRITE))?;
    std::thread::spawn(move || serve(&writes, write));
    let freezes = TcpListener::bind((Ipv4Addr::UNSPECIFIED, FREEZE))?;
    std::thread::spawn(move || serve(&freezes, freeze));
    let unpacks = TcpListener::bind((Ipv4Addr::UNSPECIFIED, UNPACK))?;
    std::thread::spawn(move || serve(&unpacks, unpack));
    let copies = TcpListener::bind((Ipv4Addr::UNSPECIFIED, COPY))?;
    std::thread::spawn(move || serve(&copies, copy));
    let says = TcpListener::bind((Ipv4Addr::UNSPECIFIED, SAY))?;
    std::thread::spawn(move || serve(&says, say));
    serve(&TcpListener::bind((Ipv4Addr::UNSPECIFIED, TELL))?, tell);
    Ok(())
}

/// Serves one after another, for ever.
fn serve(listener: &TcpListener, answer: fn(&mut TcpStream) -> io::Result<()>) {
    for stream in listener.incoming() {
        // Who went away before the end does not want the rest.
        let _ = stream.and_then(|mut stream| answer(&mut stream));
    }
}

fn join(stream: &mut TcpStream) -> io::Result<()> {
    let mut cluster = String::new();
    stream.read_to_string(&mut cluster)?;
    let (server, authority) = cluster.split_once('\n').unwrap_or((&cluster, ""));
    let answer = join::join(Path::new(HOST), server, authority).unwrap_or_else(|error| format!("error: {error}\n"));
    stream.write_all(answer.as_bytes())
}

fn write(stream: &mut TcpStream) -> io::Result<()> {
    let mut number = String::new();
    stream.read_to_string(&mut number)?;
    let written = number.trim().parse().map_err(io::Error::other).and_then(|last| synced::write(Path::new(HOST), last));
    stream.write_all(written.map_or_else(|error| format!("error: {error}\n"), |()| "ok\n".to_owned()).as_bytes())
}

fn freeze(stream: &mut TcpStream) -> io::Result<()> {
    let answer = freeze::freeze(Path::new(HOST)).map_or_else(|error| format!("error: {error}\n"), |()| "end\n".to_owned());
    stream.write_all(answer.as_bytes())
}

fn unpack(stream: &mut TcpStream) -> io::Result<()> {
    let unpacked = tar::Archive::new(&mut *stream).unpack(RELEASES);
    stream.write_all(unpacked.map_or_else(|error| format!("error: {error}\n"), |()| "ok\n".to_owned()).as_bytes())
}

fn copy(stream: &mut TcpStream) -> io::Result<()> {
    let mut sent = BufReader::new(&*stream);
    let mut partition = String::new();
    sent.read_line(&mut partition)?;
    let took = plain_copy::write(Path::new(HOST), partition.trim_end(), sent);
    let answer = took.map_or_else(|error| format!("error: {error}\n"), |took| format!("{}\n", took.as_secs_f64()));
    stream.write_all(answer.as_bytes())
}

fn say(stream: &mut TcpStream) -> io::Result<()> {
    let mut words = String::new();
    stream.read_to_string(&mut words)?;
    let (path, line) = words.split_once(' ').unwrap_or((&words, ""));
    let answer = sockets::say(Path::new(HOST), path, line).unwrap_or_else(|error| format!("error: {error}\n"));
    stream.write_all(answer.as_bytes())
}

/// Writes every fact. The last line is `end`, so that a report that was cut short is not taken for a whole one.
fn tell(out: &mut TcpStream) -> io::Result<()> {
    let host = Path::new(HOST);
    let proc = Path::new("/proc");
    let facts = [files::facts(host), kernel::facts(host), processes::facts(proc, "1"), versions::facts(host)];
    for fact in facts.into_iter().flat_map(|facts| facts.unwrap_or_else(|error| vec![format!("error {error}")])) {
        writeln!(out, "{fact}")?;
    }
    writeln!(out, "end")
}
