//! What `init` knows of the clock and is told about it: it has the console, and DATA, where it
//! keeps when the node last ran.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use osbuild_abi::sockets::{ERROR, OK, time};

use crate::agreement::Agreement;

/// How long `init` may take for an answer: it has a hundred other things to do at boot, but none
/// takes long.
const TIMEOUT: Duration = Duration::from_secs(2);

/// When the node was last seen running, in seconds since 1970 (0 if it never was), and whether the
/// machine kept the time since then.
pub fn last(socket: &Path) -> io::Result<(u64, bool)> {
    let lines = ask(socket, time::LAST)?;
    let value = |key: &str| lines.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    let last = value(time::SEEN).and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
    Ok((last, value(time::KEPT) == Some("yes")))
}

/// Tells that the clock was set by an agreement, or was not, which is the verb.
pub fn tell(socket: &Path, verb: &str, agreement: &Agreement) -> io::Result<()> {
    let Agreement { offset, agreeing, answered } = agreement;
    ask(socket, &format!("{verb} {offset} by {agreeing} of {answered}")).map(drop)
}

/// Sends one line and returns the lines of data in the answer.
fn ask(socket: &Path, line: &str) -> io::Result<Vec<String>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    let mut data = Vec::new();
    for line in BufReader::new(stream).lines() {
        let line = line?;
        match line.strip_prefix(ERROR) {
            Some(reason) => return Err(io::Error::other(reason.to_owned())),
            None if line == OK => return Ok(data),
            None => data.push(line),
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}
