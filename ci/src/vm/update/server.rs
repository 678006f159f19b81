//! A web server on the loopback that serves the files of a folder, as any web server would.

use osbuild::error::{Context, Result};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// A server, until it is dropped.
pub struct Server {
    port: u16,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves what is in the folder at the time of each request, at this port, or at a free one if it is 0.
    pub fn start(folder: &Path, port: u16) -> Result<Self> {
        let cannot = || "cannot serve on the loopback".to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).or_build(cannot)?;
        let port = listener.local_addr().or_build(cannot)?.port();
        let folder = folder.to_owned();
        let ends = Arc::new(AtomicBool::new(false));
        let ended = ends.clone();
        let thread = thread::spawn(move || {
            for stream in listener.incoming().map_while(io::Result::ok).take_while(|_| !ended.load(Ordering::SeqCst)) {
                let folder = folder.clone();
                // A client that hangs up early is no matter of ours.
                thread::spawn(move || drop(serve(&stream, &folder)));
            }
        });
        Ok(Server { port, ends, thread: Some(thread) })
    }

    /// The port, of this machine alone; machines that QEMU runs see it at 10.0.2.2.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        // One more client wakes the thread up, which then gives the port back.
        if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok() {
            drop(self.thread.take().map(JoinHandle::join));
        }
    }
}

/// Answers one request.
fn serve(mut stream: &TcpStream, folder: &Path) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut request, mut header) = (String::new(), String::new());
    reader.read_line(&mut request)?;
    while reader.read_line(&mut header)? > 2 {
        header.clear();
    }
    let path: PathBuf = Path::new(request.split(' ').nth(1).unwrap_or_default())
        .components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .collect();
    match File::open(folder.join(path)).and_then(|file| Ok((file.metadata()?, file))) {
        Ok((about, mut file)) if about.is_file() => {
            write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", about.len())?;
            io::copy(&mut file, &mut stream)?;
        }
        _ => stream.write_all(b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")?,
    }
    stream.shutdown(Shutdown::Write)
}
