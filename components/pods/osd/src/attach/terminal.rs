//! The terminal of a command, and the step between: a process has to become the leader of a session
//! before its terminal can be its own, so this program starts itself, which then becomes the
//! command.

use osbuild_cosi::v1::DebugSize;
use rustix::process::{ioctl_tiocsctty, setsid};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// The word with which this program becomes a command on a terminal.
pub const ON_TERMINAL: &str = "on-terminal";

/// The exit codes of a shell for a program that does not exist, and for one that cannot start.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Makes a terminal (pty(7)). Returns the side that controls it, and that of the command.
pub fn open(size: Option<DebugSize>) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let control = openpt(flags)?;
    grantpt(&control)?;
    unlockpt(&control)?;
    let own = ioctl_tiocgptpeer(&control, flags)?;
    if let Some(size) = size {
        resize(&control, size)?;
    }
    Ok((control, own))
}

/// Tells the programs on the terminal that it has another size.
pub fn resize(control: impl AsFd, DebugSize { columns, rows }: DebugSize) -> io::Result<()> {
    let [ws_col, ws_row] = [columns, rows].map(|count| count.try_into().unwrap_or(u16::MAX));
    let size = Winsize { ws_col, ws_row, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(control, size)?)
}

/// Becomes the command, on the terminal that is stdin. Returns only if that fails.
pub fn become_command(command: &[String]) -> ExitCode {
    let Some((name, arguments)) = command.split_first() else {
        return ExitCode::from(NOT_EXECUTABLE);
    };
    if let Err(error) = setsid().and_then(|_| ioctl_tiocsctty(io::stdin())) {
        eprintln!("error: cannot take the terminal: {error}");
        return ExitCode::from(NOT_EXECUTABLE);
    }
    let error = Command::new(name).args(arguments).exec();
    eprintln!("error: cannot start `{name}`: {error}");
    ExitCode::from(code(&error))
}

/// The exit code for a program that cannot be started.
pub fn code(error: &io::Error) -> u8 {
    match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    }
}
