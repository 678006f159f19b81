//! The socket on which clients connect.

use osbuild_failure::{Explain, Failure, Outcome};
use rustix::fs::Mode;
use rustix::process::umask;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::Path;
use tokio::net::UnixListener;

/// Listens at the path, in place of a socket that a former process left there. Only the user of
/// this process may connect.
pub fn listen(path: &Path) -> Outcome<UnixListener> {
    match UnixStream::connect(path) {
        Ok(_) => return Err(Failure::new(format!("`{}` is in use", path.display()))),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).explain(format_args!("remove `{}`", path.display()))?;
        }
        Err(_) => {}
    }
    umask(Mode::RWXG | Mode::RWXO);
    UnixListener::bind(path).explain(format_args!("listen at `{}`", path.display()))
}
