//! Connects a test to a unix socket of the host.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Copies bytes between the stream and the socket at `path` below the root `host`, in both
/// directions, until both ends have closed.
pub fn relay(stream: &TcpStream, host: &Path, path: &str) -> io::Result<()> {
    let socket = UnixStream::connect(host.join(path.trim_start_matches('/')))?;
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let _ = io::copy(&mut &*stream, &mut &socket);
            let _ = socket.shutdown(Shutdown::Write);
        });
        let _ = io::copy(&mut &socket, &mut &*stream);
        let _ = stream.shutdown(Shutdown::Both);
    });
    Ok(())
}
