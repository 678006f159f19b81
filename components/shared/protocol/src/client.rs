//! The client of all sockets. It blocks.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::reply::OK;
use crate::{
    BlockDevice, HostSettings, InstallPermit, LastSeen, MAX_LINE, NetworkSettings, NodeStatus,
    Refusal, Reply, Request, Slots, fd_passing,
};

/// The maximum bytes of a reply; the longest has as many settings as `init` holds.
pub const MAX_REPLY: usize = 11 << 17;

/// A connection to one of `init`'s sockets.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
}

/// Why a request has no reply.
#[derive(Debug)]
pub enum ClientError {
    /// `init` cannot be reached, or does not reply in time.
    Connection(io::Error),
    /// `init` refuses. The code shows whether it may take the same request later.
    Refused(Refusal),
    /// The request or the reply does not have the protocol's form: the reason.
    Malformed(String),
}

type Result<T = (), E = ClientError> = std::result::Result<T, E>;

impl Client {
    /// Connects. No single wait for `init` is longer than `timeout`.
    pub fn connect(path: &Path, timeout: Duration) -> Result<Client> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Client { stream })
    }

    /// Sends a request whose reply has no data.
    pub fn send(&mut self, request: &Request) -> Result {
        self.ask(request, None).map(drop)
    }

    /// Asks for the state of the node.
    pub fn status(&mut self) -> Result<NodeStatus> {
        match self.ask(&Request::Status, None)? {
            (Reply::Node(status), _) => Ok(*status),
            _ => Err(unexpected()),
        }
    }

    /// Asks for the state of the slots.
    pub fn slots(&mut self) -> Result<Slots> {
        match self.ask(&Request::SlotsStatus, None)? {
            (Reply::Slots(slots), _) => Ok(slots),
            _ => Err(unexpected()),
        }
    }

    /// Takes the other slot, to write a release. Returns its descriptor, and its size in bytes.
    pub fn open_slot(&mut self, _: InstallPermit) -> Result<(OwnedFd, u64)> {
        match self.ask(&Request::OpenSlot, None)? {
            (Reply::Slot { length }, Some(descriptor)) => Ok((descriptor, length)),
            (Reply::Slot { .. }, None) => {
                Err(ClientError::Malformed("no descriptor came with the slot".to_owned()))
            }
            _ => Err(unexpected()),
        }
    }

    /// Opens the first volume with a document after the device `after`. Returns its device and its
    /// descriptor; none if there is no more.
    pub fn open_volume(
        &mut self,
        after: Option<BlockDevice>,
    ) -> Result<Option<(BlockDevice, OwnedFd)>> {
        match self.ask(&Request::OpenVolume { after }, None)? {
            (Reply::Volume(Some(device)), Some(descriptor)) => Ok(Some((device, descriptor))),
            (Reply::Volume(Some(_)), None) => {
                Err(ClientError::Malformed("no descriptor came with the volume".to_owned()))
            }
            (Reply::Volume(None), _) => Ok(None),
            _ => Err(unexpected()),
        }
    }

    /// Replaces slotboot with the contents of `program`, from its current offset on.
    pub fn replace_boot_program(&mut self, program: impl AsFd) -> Result {
        self.ask(&Request::ReplaceBootProgram, Some(program.as_fd())).map(drop)
    }

    /// Asks when the node last ran.
    pub fn last_seen(&mut self) -> Result<LastSeen> {
        match self.ask(&Request::LastSeen, None)? {
            (Reply::LastSeen(seen), _) => Ok(seen),
            _ => Err(unexpected()),
        }
    }

    /// Asks for the settings of the host.
    pub fn settings(&mut self) -> Result<HostSettings> {
        match self.ask(&Request::Observe, None)? {
            (Reply::Settings(settings), _) => Ok(settings),
            _ => Err(unexpected()),
        }
    }

    /// Asks for the settings of the network, and waits until their revision is another one than
    /// this, or the timeout is over.
    pub fn await_network(&mut self, revision: u64) -> Result<NetworkSettings> {
        match self.ask(&Request::AwaitNetwork(revision), None)? {
            (Reply::Network(settings), _) => Ok(settings),
            _ => Err(unexpected()),
        }
    }

    /// Sends a request, and returns the reply and the descriptor that came with it.
    pub fn ask(
        &mut self,
        request: &Request,
        descriptor: Option<BorrowedFd>,
    ) -> Result<(Reply, Option<OwnedFd>)> {
        let line = format!("{request}\n");
        if line.len() > MAX_LINE || !line.trim_end_matches('\n').bytes().all(is_printable) {
            return Err(ClientError::Malformed("the request is not one line of text".to_owned()));
        }
        fd_passing::send(&self.stream, &line, descriptor)?;
        let (lines, taken) = self.receive()?;
        let reply = Reply::decode(request, &lines).map_err(ClientError::Malformed)?;
        Ok((reply, taken))
    }

    /// Reads the lines of data of one reply, up to its last line.
    fn receive(&mut self) -> Result<(Vec<String>, Option<OwnedFd>)> {
        let (mut text, mut taken) = (Vec::new(), None);
        loop {
            let mut buffer = [0; MAX_LINE];
            let (read, descriptors) = fd_passing::receive(&self.stream, &mut buffer)?;
            if read == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            text.extend_from_slice(&buffer[..read]);
            taken = descriptors.into_iter().next().or(taken);
            if let Some(whole) = text.strip_suffix(b"\n") {
                let whole = String::from_utf8_lossy(whole);
                let (data, last) = whole.rsplit_once('\n').unwrap_or(("", &whole));
                if last == OK {
                    return Ok((data.lines().map(str::to_owned).collect(), taken));
                }
                if let Some(refusal) = Refusal::decode(last) {
                    return Err(ClientError::Refused(refusal));
                }
            }
            if text.len() > MAX_REPLY {
                return Err(ClientError::Malformed("the reply does not end".to_owned()));
            }
        }
    }
}

fn is_printable(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

fn unexpected() -> ClientError {
    ClientError::Malformed("the reply is to another request".to_owned())
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        Self::Connection(error)
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                f.write_str("init closed the connection before it replied")
            }
            Self::Connection(error) if error.kind() == io::ErrorKind::WouldBlock => {
                f.write_str("init did not reply within the time limit")
            }
            Self::Connection(error) => error.fmt(f),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Malformed(how) => f.write_str(how),
        }
    }
}

impl std::error::Error for ClientError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;

    /// The result for a reply that arrives in these pieces, and the line that the client sent.
    fn asks(request: &Request, pieces: &'static [&'static str]) -> (Result<Reply>, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let init = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            pieces.iter().for_each(|piece| stream.write_all(piece.as_bytes()).unwrap());
            line
        });
        let mut client = Client::connect(&path, Duration::from_secs(5)).unwrap();
        let reply = client.ask(request, None).map(|(reply, _)| reply);
        (reply, init.join().unwrap())
    }

    #[test]
    fn a_reply_may_arrive_in_pieces() {
        let pieces = &["seen 17\nke", "pt yes\n", "o", "k\n"];
        let (reply, line) = asks(&Request::LastSeen, pieces);
        let seen = LastSeen { seconds: 17, clock_kept: true };
        assert_eq!((reply.unwrap(), line.as_str()), (Reply::LastSeen(seen), "last\n"));
    }

    #[test]
    fn a_refusal_has_its_code_and_a_closed_connection_is_not_one() {
        let (reply, _) = asks(&Request::TrySlot, &["error: SLOT-A is on trial [code=5]\n"]);
        assert!(matches!(
            reply,
            Err(ClientError::Refused(refusal)) if refusal.code == crate::RefusalCode::OnTrial
        ));
        for pieces in [&["o"][..], &[], &["length 3\n"]] {
            let (reply, _) = asks(&Request::OpenSlot, pieces);
            assert!(matches!(reply, Err(ClientError::Connection(_))), "{pieces:?}");
        }
    }

    #[test]
    fn an_init_that_does_not_reply_in_time_is_named_as_such() {
        let (one, _other) = UnixStream::pair().unwrap();
        one.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let error = Client { stream: one }.status().unwrap_err();
        assert_eq!(error.to_string(), "init did not reply within the time limit");
    }

    #[test]
    fn a_request_that_is_more_than_one_line_is_not_sent() {
        let (one, _other) = UnixStream::pair().unwrap();
        let mut client = Client { stream: one };
        for name in ["a\nreboot", &"a".repeat(MAX_LINE)] {
            let error = client.send(&Request::HostName(name.to_owned())).unwrap_err();
            assert!(matches!(error, ClientError::Malformed(_)), "{error}");
        }
    }
}
