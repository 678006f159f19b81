//! Sends a test's lines to `init`'s sockets, valid or not.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use osbuild_protocol::{ERROR, OK};

/// Sends a line to the socket at `path` below the root `host`, and returns the reply with its last
/// line.
pub fn request(host: &Path, path: &str, line: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(host.join(path.trim_start_matches('/')))?;
    writeln!(stream, "{line}")?;
    let mut reply = String::new();
    for line in BufReader::new(stream).lines() {
        let line = line?;
        reply.push_str(&line);
        reply.push('\n');
        if line == OK || line.starts_with(ERROR) {
            break;
        }
    }
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_reply_ends_with_its_last_line() {
        let host = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(host.path().join("socket")).unwrap();
        let init = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            stream.write_all(b"slot SLOT-A\nok\nmore\n").unwrap();
            line
        });
        assert_eq!(request(host.path(), "/socket", "status").unwrap(), "slot SLOT-A\nok\n");
        assert_eq!(init.join().unwrap(), "status\n");
    }
}
