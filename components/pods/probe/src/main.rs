//! A pod for tests: whoever connects to its port gets what the node looks like from inside, a fact a line.
//!
//! `/proc/1/root` is the host's root. The facts are asked for anew for each connection.

mod files;
mod processes;
mod versions;

use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

/// The port on which it answers.
const PORT: u16 = 7070;

fn main() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
    for stream in listener.incoming() {
        // Who went away before the end does not want the rest.
        let _ = stream.and_then(|mut stream| tell(&mut stream));
    }
    Ok(())
}

/// Writes every fact. The last line is `end`, so that a report that was cut short is not taken for a whole one.
fn tell(out: &mut impl Write) -> io::Result<()> {
    let host = Path::new("/proc/1/root");
    let proc = Path::new("/proc");
    let facts = [files::facts(host), processes::facts(proc, "1"), versions::facts(host)];
    for fact in facts.into_iter().flat_map(|facts| facts.unwrap_or_else(|error| vec![format!("error {error}")])) {
        writeln!(out, "{fact}")?;
    }
    writeln!(out, "end")
}
