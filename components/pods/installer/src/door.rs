//! `init`'s `admin` socket, from this side: of its verbs, the one that ends the installation.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use osbuild_abi::sockets::{OK, admin};
use osbuild_failure::{Explain, Failure, Outcome};

/// Has the machine reboot.
pub fn reboot(socket: &Path) -> Outcome {
    let what = || format!("reach init at {}", socket.display());
    let mut stream = UnixStream::connect(socket).explain(what())?;
    writeln!(stream, "{}", admin::REBOOT).explain(what())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).explain(what())?;
    match answer.trim_end() {
        OK => Ok(()),
        other => Err(Failure::new(format!("init does not reboot: {other}"))),
    }
}
