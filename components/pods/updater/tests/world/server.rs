//! A web server on the loopback, which may be malicious.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The fault of a server with files whose paths contain a given word.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Nothing.
    None,
    /// It appends zeros to such a file without end.
    Endless(&'static str),
    /// It sends such a file a byte at a time.
    Slow(&'static str),
    /// It accepts the request for such a file, and never responds.
    Silent(&'static str),
    /// It flips a bit in the middle of such a file.
    Flipped(&'static str),
    /// It closes the connection in the middle of such a file.
    Short(&'static str),
}

/// A server, until it is dropped.
pub struct Server {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
}

impl Server {
    /// Serves a folder with this fault.
    pub fn start(folder: &Path, fault: Fault) -> Server {
        Server::start_at(Ipv4Addr::LOCALHOST, folder, fault)
    }

    /// The same, at another address of this machine.
    pub fn start_at(address: Ipv4Addr, folder: &Path, fault: Fault) -> Server {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let (address, ended) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let (folder, is_over) = (folder.to_owned(), Arc::clone(&ended));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let (folder, is_over) = (folder.clone(), Arc::clone(&is_over));
                // A client may close the connection at any time.
                thread::spawn(move || drop(serve(stream, folder, fault, &is_over)));
            }
        });
        Server { address, ended }
    }

    /// The server's address.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for a connection.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(
    stream: TcpStream,
    folder: PathBuf,
    fault: Fault,
    is_over: &AtomicBool,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let mut request = String::new();
        reader.read_line(&mut request)?;
        let mut header = String::new();
        while reader.read_line(&mut header)? > 2 {
            header.clear();
        }
        let Some(path) = request.split(' ').nth(1) else { return Ok(()) };
        let Ok(bytes) = fs::read(folder.join(path.trim_start_matches('/'))) else {
            stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?;
            continue;
        };
        send(&mut stream, path, bytes, fault, is_over)?;
    }
}

fn send(
    stream: &mut TcpStream,
    path: &str,
    mut bytes: Vec<u8>,
    fault: Fault,
    is_over: &AtomicBool,
) -> std::io::Result<()> {
    let head = |length: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
    let half = bytes.len() / 2;
    match fault {
        Fault::Endless(word) if path.contains(word) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            stream.write_all(&bytes)?;
            while !is_over.load(Ordering::Relaxed) {
                stream.write_all(&[0; 4096])?;
            }
            Ok(())
        }
        Fault::Slow(word) if path.contains(word) => {
            stream.write_all(head(bytes.len()).as_bytes())?;
            for byte in bytes.chunks(1).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                stream.write_all(byte)?;
                thread::sleep(Duration::from_millis(20));
            }
            Ok(())
        }
        Fault::Silent(word) if path.contains(word) => {
            while !is_over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(20));
            }
            Ok(())
        }
        Fault::Short(word) if path.contains(word) => {
            stream.write_all(head(bytes.len()).as_bytes())?;
            stream.write_all(&bytes[..half])?;
            Err(std::io::ErrorKind::ConnectionAborted.into())
        }
        _ => {
            if matches!(fault, Fault::Flipped(word) if path.contains(word)) {
                bytes[half] ^= 1;
            }
            stream.write_all(head(bytes.len()).as_bytes())?;
            stream.write_all(&bytes)
        }
    }
}
