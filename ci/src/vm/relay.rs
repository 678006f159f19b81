//! A port of the IPv6 loopback that leads to the same one of IPv4, where the servers of the tests
//! listen: QEMU's user network leads guests that use IPv6 to that loopback.

use osbuild::error::{Context, Result};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, TcpListener, TcpStream};
use std::thread;

/// Leads connections to the port on until the check ends.
pub fn start(port: u16) -> Result<()> {
    let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, port))
        .or_build(|| format!("cannot listen on [::1]:{port}"))?;
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // A connection that fails is repeated or reported by the client.
            thread::spawn(move || lead_on(&client, port));
        }
    });
    Ok(())
}

/// Copies in both directions until both have ended.
fn lead_on(client: &TcpStream, port: u16) -> io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    thread::scope(|scope| {
        let answers = scope.spawn(|| copy(&server, client));
        copy(client, &server)?;
        answers.join().map_err(|_| io::Error::other("the other direction panicked"))?
    })
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    let copied = io::copy(&mut from, &mut to);
    to.shutdown(Shutdown::Write).and(copied).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_client_of_ipv6_reaches_a_server_of_ipv4() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = server.local_addr().unwrap().port();
        start(port).unwrap();
        thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut sent = String::new();
            stream.read_to_string(&mut sent).unwrap();
            write!(stream, "{sent} pong").unwrap();
        });
        let mut client = TcpStream::connect((Ipv6Addr::LOCALHOST, port)).unwrap();
        client.write_all(b"ping").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "ping pong");
    }
}
