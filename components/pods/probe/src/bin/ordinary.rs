//! A pod for tests that has a network of its own. Its port takes a request, up to the end of the
//! client's stream, and sends a reply or a line that starts with `error`.
//!
//! | request | reply |
//! |---|---|
//! | `address` | the pod's address and the client's |
//! | `reach ADDRESS:PORT` | all that the server there sends |
//! | `list FOLDER` | the folder's entries, or `empty` |
//! | `read FILE`, `write FILE TEXT` | the file's text, or `ok` once it is written |
//! | `execute FILE` | the output of a program copied to the file: `executed` |

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

/// The port to listen on.
const PORT: u16 = 8080;

/// How long to wait for a server that a client asks to reach.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The program prints this word if it is started with it.
const EXECUTED: &str = "executed";

fn main() -> io::Result<()> {
    if std::env::args().nth(1).as_deref() == Some(EXECUTED) {
        println!("{EXECUTED}");
        return Ok(());
    }
    for stream in TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT))?.incoming().flatten() {
        let reply = handle(&stream).unwrap_or_else(|error| format!("error: {error}"));
        // A write that the reply confirms must survive the power cut that ends a test.
        rustix::fs::sync();
        // The client may have closed the connection.
        let _ = writeln!(&stream, "{reply}");
    }
    Ok(())
}

fn handle(mut stream: &TcpStream) -> io::Result<String> {
    let mut request = String::new();
    stream.read_to_string(&mut request)?;
    let mut words = request.trim_end().splitn(3, ' ');
    match [words.next(), words.next(), words.next()] {
        [Some("address"), None, None] => {
            Ok(format!("{} {}", stream.local_addr()?.ip(), stream.peer_addr()?.ip()))
        }
        [Some("reach"), Some(address), None] => reach(address),
        [Some("list"), Some(folder), None] => list(folder),
        [Some("read"), Some(file), None] => fs::read_to_string(file),
        [Some("write"), Some(file), Some(text)] => fs::write(file, text).map(|()| "ok".to_owned()),
        [Some("execute"), Some(file), None] => execute(file),
        _ => Err(io::Error::other(format!("unknown request `{request}`"))),
    }
}

fn reach(address: &str) -> io::Result<String> {
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
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
