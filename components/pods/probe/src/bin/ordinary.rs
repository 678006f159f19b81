//! A pod for tests that has a network of its own: whoever connects to its port and says what there
//! is to do, in words to the end, gets an answer, or a line that begins with `error`.
//!
//! | words | what it does |
//! |---|---|
//! | `address` | says its own address, and that of whom it answers |
//! | `reach ADDRESS:PORT` | says what a server there says to the end |
//! | `list FOLDER` | lists it, `empty` if there is nothing in it |
//! | `read FILE`, `write FILE TEXT` | reads a file, or writes it |
//! | `execute FILE` | makes a program of the file and says what it said: `executed` |

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

/// Where it answers.
const PORT: u16 = 8080;

/// How long a server may take that it is to reach.
const TIMEOUT: Duration = Duration::from_secs(20);

/// What the program says, started with this word.
const EXECUTED: &str = "executed";

fn main() -> io::Result<()> {
    if std::env::args().nth(1).as_deref() == Some(EXECUTED) {
        println!("{EXECUTED}");
        return Ok(());
    }
    for stream in TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT))?.incoming().flatten() {
        let answer = answer(&stream).unwrap_or_else(|error| format!("error: {error}"));
        // A test ends the machine by a power cut, and what was answered has to be on the disk then.
        rustix::fs::sync();
        // Who went away before the end does not want the rest.
        let _ = writeln!(&stream, "{answer}");
    }
    Ok(())
}

fn answer(mut stream: &TcpStream) -> io::Result<String> {
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    let mut words = said.trim_end().splitn(3, ' ');
    match [words.next(), words.next(), words.next()] {
        [Some("address"), None, None] => {
            Ok(format!("{} {}", stream.local_addr()?.ip(), stream.peer_addr()?.ip()))
        }
        [Some("reach"), Some(address), None] => reach(address),
        [Some("list"), Some(folder), None] => list(folder),
        [Some("read"), Some(file), None] => fs::read_to_string(file),
        [Some("write"), Some(file), Some(text)] => fs::write(file, text).map(|()| "ok".to_owned()),
        [Some("execute"), Some(file), None] => execute(file),
        _ => Err(io::Error::other(format!("nobody knows how to `{said}`"))),
    }
}

fn reach(address: &str) -> io::Result<String> {
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    Ok(said)
}

fn list(folder: &str) -> io::Result<String> {
    let names =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    Ok(if names.is_empty() { "empty".to_owned() } else { names.join(" ") })
}

fn execute(file: &str) -> io::Result<String> {
    fs::copy(std::env::current_exe()?, file)?;
    fs::set_permissions(file, Permissions::from_mode(0o755))?;
    let ran = Command::new(file).arg(EXECUTED).output()?;
    Ok(String::from_utf8_lossy(&ran.stdout).trim_end().to_owned())
}
