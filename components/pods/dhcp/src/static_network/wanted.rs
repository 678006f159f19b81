//! Receives from `init` what the network shall be like, in a thread, as the client of `init`
//! blocks.

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
}

impl WantedSettings {
    /// Asks `init` at this socket, and waits shortly for the first reply: a link may have to be
    /// left alone. Without one, the settings come later.
    pub fn start(socket: &Path) -> io::Result<Self> {
        let (wakes, wake) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        let (sender, settings) = channel();
        let mut awaiting = Awaiting { socket: socket.to_owned(), revision: 0, sender, wake };
        awaiting.ask(FIRST_TIMEOUT);
        thread::Builder::new().name("settings".to_owned()).spawn(move || awaiting.run())?;
        Ok(Self { settings, wakes })
    }

    /// The newest settings, if there are new ones.
    pub fn take(&mut self) -> Option<NetworkSettings> {
        let mut buffer = [0; 64];
        while matches!(self.wakes.read(&mut buffer), Ok(1..)) {}
        self.settings.try_iter().last()
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
}

impl Awaiting {
    fn run(mut self) {
        loop {
            if !self.ask(TIMEOUT) {
                thread::sleep(PAUSE);
            }
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
