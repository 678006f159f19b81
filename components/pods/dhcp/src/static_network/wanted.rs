//! Receives from `init` what the network shall be like, in a thread, as the client of `init`
//! blocks. The thread asks for the next settings once the last ones were carried out: `init` takes
//! that for an acknowledgement.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use osbuild_protocol::{Client, ClientError, NetworkSettings};

/// How long `init` may take for the first reply, which it gives at once.
const FIRST_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a request waits for a change. Then the program asks again, in case the connection is
/// lost without a trace.
const TIMEOUT: Duration = Duration::from_secs(3600);
/// The wait before `init` is asked again, when it cannot be reached or refuses.
const PAUSE: Duration = Duration::from_secs(1);

/// The receiving end. It is readable as a descriptor when there are new settings.
pub struct WantedSettings {
    settings: Receiver<NetworkSettings>,
    wakes: UnixStream,
    carried_out: Sender<()>,
    /// Whether the last settings were taken and not carried out yet.
    is_due: bool,
}

impl WantedSettings {
    /// Asks `init` at this socket, and waits shortly for the first reply: a link may have to be
    /// left alone. Without one, the settings come later.
    pub fn start(socket: &Path) -> io::Result<Self> {
        let (wakes, wake) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        let (sender, settings) = channel();
        let (carried_out, acknowledged) = channel();
        let mut awaiting =
            Awaiting { socket: socket.to_owned(), revision: 0, sender, wake, acknowledged };
        let has_asked = awaiting.ask(FIRST_TIMEOUT);
        let thread = thread::Builder::new().name("settings".to_owned());
        thread.spawn(move || awaiting.run(has_asked))?;
        Ok(Self { settings, wakes, carried_out, is_due: false })
    }

    /// The newest settings, if there are new ones.
    pub fn take(&mut self) -> Option<NetworkSettings> {
        let mut buffer = [0; 64];
        while matches!(self.wakes.read(&mut buffer), Ok(1..)) {}
        let newest = self.settings.try_iter().last();
        self.is_due |= newest.is_some();
        newest
    }

    /// The settings that were taken are carried out, as far as the host lets them.
    pub fn on_carried_out(&mut self) {
        if std::mem::take(&mut self.is_due) {
            // The other end is as old as the process.
            let _ = self.carried_out.send(());
        }
    }
}

impl AsFd for WantedSettings {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakes.as_fd()
    }
}

struct Awaiting {
    socket: PathBuf,
    /// The revision of the last settings.
    revision: u64,
    sender: Sender<NetworkSettings>,
    wake: UnixStream,
    /// Receives something when the last settings are carried out.
    acknowledged: Receiver<()>,
}

impl Awaiting {
    fn run(mut self, mut has_asked: bool) {
        loop {
            if !has_asked {
                thread::sleep(PAUSE);
            } else if self.acknowledged.recv().is_err() {
                // The process ends.
                return;
            }
            has_asked = self.ask(TIMEOUT);
        }
    }

    /// Asks once. Returns whether `init` has replied.
    fn ask(&mut self, timeout: Duration) -> bool {
        let client = Client::connect(&self.socket, timeout);
        match client.and_then(|mut client| client.await_network(self.revision)) {
            Ok(settings) => {
                self.revision = settings.revision;
                // The other end is as old as the process.
                let _ = self.sender.send(settings);
                let _ = self.wake.write_all(&[1]);
                true
            }
            Err(ClientError::Connection(_)) => false,
            Err(refused) => {
                eprintln!("init does not say what the network shall be like: {refused}");
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_next_settings_are_asked_for_once_the_last_ones_are_carried_out() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("net");
        let init = UnixListener::bind(&socket).unwrap();
        let first = thread::spawn(move || {
            let (mut client, _) = init.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&client).read_line(&mut line).unwrap();
            client.write_all(b"revision 1\nok\n").unwrap();
            (init, line)
        });
        let mut wanted = WantedSettings::start(&socket).unwrap();
        let (init, line) = first.join().unwrap();
        assert_eq!(line, "await-network 0\n");
        assert_eq!(wanted.take().unwrap().revision, 1);
        init.set_nonblocking(true).unwrap();
        thread::sleep(Duration::from_millis(50));
        assert!(init.accept().is_err(), "they are not carried out yet");
        wanted.on_carried_out();
        init.set_nonblocking(false).unwrap();
        let (client, _) = init.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&client).read_line(&mut line).unwrap();
        assert_eq!(line, "await-network 1\n");
    }
}
