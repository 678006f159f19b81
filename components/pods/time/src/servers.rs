//! The servers to query: those of the command line, or else those from DHCP or the image, in the
//! file that `init` writes.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

/// The port of NTP.
const PORT: u16 = 123;
/// The maximum number of servers.
const MAX_SERVERS: usize = 4;

/// Reads a list, one server per line. Empty lines are skipped.
pub fn parse(list: &str) -> Vec<String> {
    list.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take(MAX_SERVERS)
        .map(str::to_owned)
        .collect()
}

/// Resolves a server: an address or a name, with an optional port.
pub fn resolve(server: &str) -> io::Result<SocketAddr> {
    let bare = server.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(server);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok((address, PORT).into());
    }
    let first = |mut addresses: std::vec::IntoIter<SocketAddr>| {
        addresses.next().ok_or(ErrorKind::NotFound.into())
    };
    match server.rsplit_once(':') {
        Some(_) => server.to_socket_addrs().and_then(first),
        None => (server, PORT).to_socket_addrs().and_then(first),
    }
}

/// The source of the list.
pub enum Source {
    /// The command line.
    Fixed(Vec<String>),
    /// A file, and a watch on its folder, because the file is replaced and may not exist yet.
    File(PathBuf, OwnedFd),
}

impl Source {
    /// Takes the servers from a file that may appear, change and disappear.
    pub fn file(path: &Path) -> io::Result<Self> {
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
        let folder = path.parent().ok_or(ErrorKind::InvalidInput)?;
        let changes = inotify::WatchFlags::MOVED_TO
            | inotify::WatchFlags::CLOSE_WRITE
            | inotify::WatchFlags::DELETE;
        inotify::add_watch(&watch, folder, changes)?;
        Ok(Self::File(path.to_owned(), watch))
    }

    /// The current servers.
    pub fn list(&self) -> io::Result<Vec<String>> {
        match self {
            Self::Fixed(servers) => Ok(servers.clone()),
            Self::File(path, _) => match std::fs::read_to_string(path) {
                Ok(list) => Ok(parse(&list)),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(vec![]),
                Err(error) => Err(error),
            },
        }
    }

    /// Waits for `span`, or forever without one, or until the list may have changed.
    pub fn wait(&self, span: Option<Duration>) -> io::Result<()> {
        let watch = match self {
            Self::Fixed(_) => None,
            Self::File(_, watch) => Some(watch),
        };
        let mut fds: Vec<_> =
            watch.map(|watch| PollFd::new(watch, PollFlags::IN)).into_iter().collect();
        let timeout = span.map(|span| Timespec {
            tv_sec: span.as_secs() as i64,
            tv_nsec: span.subsec_nanos().into(),
        });
        match poll(&mut fds, timeout.as_ref()) {
            // EINTR: the process was stopped and continued.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // The change itself does not matter: the list is read again.
        let mut events = [0; 4096];
        while watch.is_some_and(|watch| rustix::io::read(watch, &mut events).is_ok()) {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_one_server_a_line() {
        assert_eq!(parse("10.0.0.1\n\n  10.0.0.2 \n"), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(parse("a\nb\nc\nd\ne\n").len(), MAX_SERVERS);
    }

    #[test]
    fn an_address_may_have_a_port() {
        assert_eq!(resolve("10.0.0.1").unwrap(), "10.0.0.1:123".parse().unwrap());
        assert_eq!(resolve("10.0.0.1:124").unwrap(), "10.0.0.1:124".parse().unwrap());
        assert_eq!(resolve("fd00::1").unwrap(), "[fd00::1]:123".parse().unwrap());
        assert_eq!(resolve("[fd00::1]").unwrap(), "[fd00::1]:123".parse().unwrap());
        assert_eq!(resolve("[fd00::1]:124").unwrap(), "[fd00::1]:124".parse().unwrap());
    }
}
