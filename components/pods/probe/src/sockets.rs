//! Sends lines to `init`'s sockets as a test gives them, right or wrong.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use osbuild_protocol::{ERROR, OK};

/// Sends a line to the socket at `path` below the root `host`, and gives the reply up to its last
/// line.
pub fn say(host: &Path, path: &str, line: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(host.join(path.trim_start_matches('/')))?;
    writeln!(stream, "{line}")?;
    let mut answer = String::new();
    for line in BufReader::new(stream).lines() {
        let line = line?;
        answer.push_str(&line);
        answer.push('\n');
        if line == OK || line.starts_with(ERROR) {
            break;
        }
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn an_answer_goes_to_its_last_line_and_no_further() {
        let host = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(host.path().join("socket")).unwrap();
        let init = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            stream.write_all(b"slot SLOT-A\nok\nmore\n").unwrap();
            line
        });
        assert_eq!(say(host.path(), "/socket", "status").unwrap(), "slot SLOT-A\nok\n");
        assert_eq!(init.join().unwrap(), "status\n");
    }
}
