//! The unix sockets, one for each role. `osbuild_protocol` has their requests and
//! replies.
//!
//! [`Sockets::poll`] returns requests, each with the identifier of its client; [`Sockets::reply`]
//! takes that identifier. `dispatcher/requests.rs` carries the requests out.

mod client;
pub mod closer;

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;

use osbuild_failure::{Explain, Outcome};
use osbuild_protocol::{MAX_REPLY, Refusal, Reply, Request, Socket};
use rustix::net::sockopt::set_socket_send_buffer_size_force;

use client::{Client, Read};
use closer::Closer;

/// The maximum number of clients of a socket at once. One more replaces one that has hung up, or
/// the oldest one.
const MAX_CLIENTS: usize = 8;

/// The open sockets and their clients.
#[derive(Default)]
pub struct Sockets {
    listeners: Vec<(Socket, UnixListener)>,
    clients: Vec<Client>,
    last_id: u64,
    closer: Closer,
}

/// Names a client as long as the node runs. A client that has closed keeps its identifier: the
/// reply to it is dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientId(u64);

/// A request that has arrived. Its client is not read again before the reply.
#[derive(Debug)]
pub struct Received {
    /// The client that waits for the reply.
    pub client: ClientId,
    /// The request.
    pub request: Request,
    /// The file in memory that came with it.
    pub descriptor: Option<OwnedFd>,
}

/// A reply, and the descriptor that is sent with it.
#[derive(Debug)]
pub struct Answer {
    /// The reply.
    pub reply: Reply,
    /// The descriptor.
    pub descriptor: Option<OwnedFd>,
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self { reply, descriptor: None }
    }
}

impl Sockets {
    /// Sockets whose clients' files are closed by this.
    pub fn new(closer: Closer) -> Self {
        Self { closer, ..Self::default() }
    }

    /// Opens all of them.
    pub fn open(&mut self) -> Outcome {
        Socket::ALL.into_iter().try_for_each(|socket| self.listen(socket, Path::new(socket.path())))
    }

    /// Opens one, in a folder of its own, so that a pod can be given it and not see the others.
    pub(crate) fn listen(&mut self, socket: Socket, path: &Path) -> Outcome {
        self.listeners.push((socket, listen(path)?));
        Ok(())
    }

    /// All descriptors that may become readable. A client whose request is being carried out is not
    /// among them. There are none while too many files of clients are still open: the loop turns
    /// every few seconds in any case, and polls then.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let is_full = self.closer.is_full();
        let listeners = self.listeners.iter().map(|(_, listener)| listener.as_fd());
        let clients = self.clients.iter().filter(|client| !client.waits());
        let all = listeners.chain(clients.map(|client| client.stream().as_fd()));
        all.filter(move |_| !is_full)
    }

    /// The descriptors of clients whose requests are being carried out: they are watched for a
    /// hang-up alone. There are none while [`Sockets::descriptors`] has none.
    pub fn waiting(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let is_full = self.closer.is_full();
        let waiting = self.clients.iter().filter(move |client| !is_full && client.waits());
        waiting.map(|client| client.stream().as_fd())
    }

    /// Accepts new clients and reads what has arrived, at most one request of each client. Never
    /// blocks. Further requests of a client stay in its socket, whose descriptor stays readable.
    pub fn poll(&mut self) -> Vec<Received> {
        self.accept();
        let mut received = Vec::new();
        let closed = self.clients.extract_if(.., |client| match client.read(&self.closer) {
            Read::Nothing => false,
            Read::Request(request, descriptor) => {
                received.push(Received { client: client.id, request, descriptor });
                false
            }
            // A client that does not read its refusal is closed as well.
            Read::Refused(refusal) => client.send(&refusal.encode(), None).is_err(),
            Read::Closed => true,
        });
        self.closer.close(closed.map(OwnedFd::from));
        received
    }

    /// Replies to a client, and reads it from now on. A reply is short: a client that does not take
    /// it at once is closed. Returns whether the client was still there.
    pub fn reply(&mut self, client: ClientId, outcome: Result<Answer, Refusal>) -> bool {
        let (text, descriptor) = match outcome {
            Ok(Answer { reply, descriptor }) => (reply.encode(), descriptor),
            Err(refusal) => (refusal.encode(), None),
        };
        let place = self.clients.iter().position(|other| other.id == client);
        let is_sent = place.is_some_and(|at| {
            let given = descriptor.as_ref().map(AsFd::as_fd);
            let sent = self.clients[at].send(&text, given);
            if sent.is_err() {
                self.closer.close([self.clients.remove(at).into()]);
            }
            sent.is_ok()
        });
        if let Some(descriptor) = descriptor {
            self.close(descriptor);
        }
        is_sent
    }

    /// Closes the descriptor of a reply that no client gets, or has got. If it is that of a disk
    /// and the last one, the kernel writes to the disk first.
    pub fn close(&self, descriptor: OwnedFd) {
        self.closer.close([descriptor]);
    }

    /// Whether a client is still connected.
    pub fn is_connected(&self, client: ClientId) -> bool {
        self.clients.iter().any(|other| other.id == client)
    }

    fn accept(&mut self) {
        for (socket, listener) in &self.listeners {
            // More of them are accepted in the next turn.
            for _ in 0..MAX_CLIENTS {
                if self.closer.is_full() {
                    return;
                }
                let is_same = |client: &Client| client.socket == *socket;
                let is_gone = |client: &Client| is_same(client) && client.has_hung_up();
                let same = self.clients.iter().filter(|client| is_same(client)).count();
                let has_unread = || self.clients.iter().any(|one| !one.waits() && is_gone(one));
                if same >= MAX_CLIENTS && has_unread() {
                    // Its last request is read in this turn, and it leaves its place by the next.
                    break;
                }
                let Ok((stream, _)) = listener.accept() else { break };
                if stream.set_nonblocking(true).is_err() {
                    self.closer.close([stream.into()]);
                    continue;
                }
                if matches!(socket, Socket::Admin | Socket::Host) {
                    // The status and all settings may be longer than a socket's usual room.
                    let _ = set_socket_send_buffer_size_force(&stream, MAX_REPLY);
                }
                let place = |is_it: &dyn Fn(&Client) -> bool| self.clients.iter().position(is_it);
                if same >= MAX_CLIENTS
                    && let Some(at) = place(&is_gone).or_else(|| place(&is_same))
                {
                    self.closer.close([self.clients.remove(at).into()]);
                }
                self.last_id += 1;
                self.clients.push(Client::new(ClientId(self.last_id), *socket, stream));
            }
        }
    }
}

/// Makes a unix socket and its folder, and listens on it without blocking.
pub fn listen(path: &Path) -> Outcome<UnixListener> {
    let (parent, place) = (path.parent().unwrap_or(Path::new("/")), path.display());
    fs::create_dir_all(parent).explain(format_args!("make {}", parent.display()))?;
    let listener = UnixListener::bind(path).explain(format_args!("listen on {place}"))?;
    listener.set_nonblocking(true).explain(format_args!("listen on {place} without blocking"))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;
    use closer::tests::{SOON, fill, lingering};
    use osbuild_protocol::{ClientError, HostSettings, Observed, RefusalCode, Single, fd_passing};
    use rustix::fs::{MemfdFlags, memfd_create};
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;
    use std::time::{Duration, Instant};
    use tempfile::TempDir;

    fn listening() -> (Sockets, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let mut sockets = Sockets::default();
        for socket in [Socket::Admin, Socket::Update, Socket::Host] {
            sockets.listen(socket, &place(&folder, socket)).unwrap();
        }
        (sockets, folder)
    }

    fn place(folder: &TempDir, socket: Socket) -> PathBuf {
        folder.path().join(Path::new(socket.path()).parent().unwrap().file_name().unwrap())
    }

    fn in_memory() -> OwnedFd {
        memfd_create("file", MemfdFlags::CLOEXEC).unwrap()
    }

    fn connect(folder: &TempDir) -> UnixStream {
        connect_to(folder, Socket::Admin)
    }

    fn connect_to(folder: &TempDir, socket: Socket) -> UnixStream {
        let stream = UnixStream::connect(place(folder, socket)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream
    }

    fn line(stream: &UnixStream) -> String {
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line
    }

    fn requests(sockets: &mut Sockets) -> Vec<Request> {
        sockets.poll().into_iter().map(|received| received.request).collect()
    }

    #[test]
    fn a_reply_goes_to_the_client_that_asked() {
        let (mut sockets, folder) = listening();
        let (mut one, mut other) = (connect(&folder), connect(&folder));
        one.write_all(b"reboot\n").unwrap();
        other.write_all(b"power-off\n").unwrap();
        let received = sockets.poll();
        assert_eq!(received.len(), 2);
        for Received { client, request, .. } in received.into_iter().rev() {
            let refusal = Refusal::new(RefusalCode::Failed, request.to_string());
            sockets.reply(client, Err(refusal));
        }
        assert_eq!(line(&one), "error: reboot [code=3]\n");
        assert_eq!(line(&other), "error: power-off [code=3]\n");
    }

    #[test]
    fn the_second_request_of_a_client_waits_for_the_first_reply() {
        let (mut sockets, folder) = listening();
        let mut client = connect(&folder);
        client.write_all(b"reboot\npower-off\nsta").unwrap();
        let first = sockets.poll().remove(0);
        assert_eq!(first.request, Request::Reboot);
        assert!(sockets.poll().is_empty());
        assert_eq!(sockets.descriptors().count(), 3, "only the listeners are watched");
        sockets.reply(first.client, Ok(Reply::Done.into()));
        let second = sockets.poll().remove(0);
        assert_eq!(second.request, Request::PowerOff);
        sockets.reply(second.client, Ok(Reply::Done.into()));
        assert!(sockets.poll().is_empty());
        client.write_all(b"tus\n").unwrap();
        assert_eq!(requests(&mut sockets), [Request::Status]);
    }

    #[test]
    fn a_line_that_is_not_a_request_is_refused_at_once() {
        let (mut sockets, folder) = listening();
        let mut client = connect(&folder);
        client.write_all(b"dance\n").unwrap();
        assert!(sockets.poll().is_empty());
        assert_eq!(line(&client), "error: `dance` is not a verb of this socket [code=1]\n");
        client.write_all(&[b'x'; 5000]).unwrap();
        assert!(sockets.poll().is_empty());
        assert!(line(&client).ends_with("[code=1]\n"), "4096 bytes without an end are a line");
    }

    #[test]
    fn the_line_of_a_seccomp_profile_is_longer_than_that_of_another_socket() {
        let (mut sockets, folder) = listening();
        let names = vec!["a".repeat(20); 500].join(",");
        let line = format!("apply seccomp-profile a default=ALLOW calls=LOG:{names}\n");
        let mut client = connect_to(&folder, Socket::Host);
        client.write_all(line.as_bytes()).unwrap();
        assert_eq!(requests(&mut sockets)[0].to_string(), line.trim_end());
        let mut client = connect_to(&folder, Socket::Admin);
        client.write_all(line.as_bytes()).unwrap();
        assert!(requests(&mut sockets).is_empty());
        assert!(self::line(&client).ends_with("[code=1]\n"));
    }

    #[test]
    fn the_longest_reply_with_settings_waits_for_a_slow_client() {
        let (mut sockets, folder) = listening();
        let mut client = connect_to(&folder, Socket::Host);
        client.write_all(b"observe\n").unwrap();
        let request = sockets.poll().remove(0);
        let motd = Observed {
            name: Single::Motd.into(),
            wanted: None,
            source: None,
            current: "a".repeat(MAX_REPLY - 100),
            error: String::new(),
        };
        let settings = HostSettings { settings: vec![motd], ..HostSettings::default() };
        assert!(sockets.reply(request.client, Ok(Reply::Settings(settings).into())));
        let mut reply = BufReader::new(client).lines();
        assert!(reply.any(|line| line.unwrap() == "ok"));
    }

    #[test]
    fn a_bad_report_of_the_updater_is_refused_and_a_good_one_follows() {
        let (mut sockets, folder) = listening();
        let mut client = connect_to(&folder, Socket::Update);
        let too_long = format!("progress {} [phase=idle]\n", "x".repeat(513));
        let endless = format!("progress {}\n", "x".repeat(5000));
        for (bytes, refusals) in [
            (&b"progress a\x1b[2J [phase=idle]\n"[..], 1),
            (b"progress \xff\xfe [phase=idle]\n", 1),
            (b"progress a [phase=dancing]\n", 1),
            (b"progress a [phase=failed offered=../1]\n", 1),
            (too_long.as_bytes(), 1),
            (endless.as_bytes(), 2),
        ] {
            client.write_all(bytes).unwrap();
            for _ in 0..refusals {
                assert!(sockets.poll().is_empty());
                let reply = line(&client);
                assert!(reply.starts_with("error: "), "{reply}");
            }
        }
        client.write_all(b"progress a [phase=failed]\n").unwrap();
        let report = osbuild_protocol::UpdateReport::parse("a [phase=failed]").unwrap();
        let received = sockets.poll().remove(0);
        assert_eq!(received.request, Request::Progress(report));
        sockets.reply(received.client, Ok(Reply::Done.into()));
        assert!(sockets.is_connected(received.client));
        drop(client);
        sockets.poll();
        assert!(!sockets.is_connected(received.client), "its updater has ended");
    }

    #[test]
    fn the_ninth_client_replaces_the_oldest() {
        let (mut sockets, folder) = listening();
        let mut clients: Vec<UnixStream> = (0..MAX_CLIENTS).map(|_| connect(&folder)).collect();
        clients[0].write_all(b"reboot\n").unwrap();
        let first = sockets.poll().remove(0).client;
        clients.push(connect(&folder));
        assert!(sockets.poll().is_empty());
        assert_eq!(sockets.clients.len(), MAX_CLIENTS);
        sockets.reply(first, Ok(Reply::Done.into()));
        assert_eq!(line(&clients[0]), "", "it is closed, and its reply is dropped");
        clients[1].write_all(b"status\n").unwrap();
        assert_eq!(requests(&mut sockets), [Request::Status]);
    }

    #[test]
    fn a_client_that_has_closed_is_forgotten() {
        let (mut sockets, folder) = listening();
        drop(connect(&folder));
        assert!(sockets.poll().is_empty());
        assert!(sockets.clients.is_empty());
    }

    #[test]
    fn a_file_belongs_to_the_line_that_it_came_with() {
        let (mut sockets, folder) = listening();
        let client = connect_to(&folder, Socket::Update);
        fd_passing::send(&client, "boot-program\n", Some(in_memory().as_fd())).unwrap();
        fd_passing::send(&client, "status\n", None).unwrap();
        let first = sockets.poll().remove(0);
        assert!(first.request == Request::ReplaceBootProgram && first.descriptor.is_some());
        sockets.reply(first.client, Ok(Reply::Done.into()));
        let second = sockets.poll().remove(0);
        assert!(second.request == Request::SlotsStatus && second.descriptor.is_none());
    }

    #[test]
    fn clients_that_have_hung_up_leave_their_places_before_one_that_lives() {
        let (mut sockets, folder) = listening();
        let mut updater = connect_to(&folder, Socket::Update);
        updater.write_all(b"await-check\n").unwrap();
        let waiting = sockets.poll().remove(0).client;
        // They wait, or have sent a request, or nothing.
        for verb in ["await-check\n", "status\n", ""] {
            let mut others: Vec<UnixStream> =
                (1..MAX_CLIENTS).map(|_| connect_to(&folder, Socket::Update)).collect();
            others.iter_mut().for_each(|other| other.write_all(verb.as_bytes()).unwrap());
            if verb.starts_with("await") {
                assert_eq!(sockets.poll().len(), others.len());
            }
            drop(others);
            let _last = connect_to(&folder, Socket::Update);
            for _ in 0..3 {
                sockets.poll();
            }
            assert!(sockets.is_connected(waiting), "{verb}");
        }
        sockets.reply(waiting, Ok(Reply::Done.into()));
        assert_eq!(line(&updater), "ok\n");
    }

    #[test]
    fn a_client_that_hangs_up_while_it_waits_is_noticed_without_another() {
        let (mut sockets, folder) = listening();
        let mut client = connect_to(&folder, Socket::Update);
        client.write_all(b"await-check\n").unwrap();
        let waiting = sockets.poll().remove(0).client;
        assert_eq!(sockets.waiting().count(), 1);
        client.shutdown(std::net::Shutdown::Write).unwrap();
        sockets.poll();
        assert!(sockets.is_connected(waiting), "it may still read its reply");
        drop(client);
        sockets.poll();
        assert!(!sockets.is_connected(waiting));
        assert_eq!(sockets.waiting().count(), 0);
    }

    #[test]
    fn only_a_file_in_memory_on_the_update_socket_is_received() {
        let (mut sockets, folder) = listening();
        let on_disk = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap().into();
        for (socket, verb, file) in
            [(Socket::Update, "boot-program\n", on_disk), (Socket::Admin, "reboot\n", in_memory())]
        {
            let client = connect_to(&folder, socket);
            fd_passing::send(&client, verb, Some(file.as_fd())).unwrap();
            assert!(sockets.poll().remove(0).descriptor.is_none(), "{verb}");
        }
    }

    #[test]
    fn a_file_whose_close_hangs_does_not_hold_up_any_socket() {
        let (mut sockets, folder) = listening();
        for (socket, verb) in [
            (Socket::Admin, "reboot\n"),
            (Socket::Update, "status\n"),
            (Socket::Host, "observe\n"),
            (Socket::Admin, "dance\n"),
        ] {
            let client = connect_to(&folder, socket);
            let (file, _peer) = lingering();
            fd_passing::send(&client, verb, Some(file.as_fd())).unwrap();
            drop(file);
            let since = Instant::now();
            sockets.poll();
            assert!(since.elapsed() < SOON, "{verb}");
        }
    }

    #[test]
    fn a_file_that_was_not_received_does_not_hold_up_the_end_of_its_client() {
        let (mut sockets, folder) = listening();
        let mut client = connect(&folder);
        client.write_all(b"reboot\n").unwrap();
        assert_eq!(requests(&mut sockets), [Request::Reboot]);
        let (file, _peer) = lingering();
        fd_passing::send(&client, "reboot\n", Some(file.as_fd())).unwrap();
        drop((client, file));
        let _others: Vec<_> = (0..MAX_CLIENTS).map(|_| connect(&folder)).collect();
        let since = Instant::now();
        sockets.poll();
        assert_eq!(sockets.clients.len(), MAX_CLIENTS);
        assert!(since.elapsed() < SOON);
    }

    #[test]
    fn a_descriptor_of_a_reply_whose_close_hangs_does_not_hold_up_the_reply() {
        let (mut sockets, folder) = listening();
        let mut client = connect_to(&folder, Socket::Update);
        client.write_all(b"await-check\n").unwrap();
        let waiting = sockets.poll().remove(0).client;
        drop(client);
        let since = Instant::now();
        // The first reply fails, and for the second there is no client.
        for _ in 0..2 {
            let (file, _peer) = lingering();
            let reply = Answer { reply: Reply::Slot { length: 1 }, descriptor: Some(file) };
            assert!(!sockets.reply(waiting, Ok(reply)));
        }
        assert!(since.elapsed() < SOON);
    }

    #[test]
    fn clients_wait_while_too_many_files_are_open() {
        let (mut sockets, folder) = listening();
        let mut client = connect(&folder);
        assert!(sockets.poll().is_empty());
        let peers = fill(&sockets.closer);
        client.write_all(b"reboot\n").unwrap();
        let _other = connect(&folder);
        assert!(sockets.poll().is_empty());
        assert_eq!((sockets.descriptors().count(), sockets.clients.len()), (0, 1));
        drop(peers);
        let since = Instant::now();
        while requests(&mut sockets) != [Request::Reboot] {
            assert!(since.elapsed() < SOON);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(sockets.clients.len(), 2);
    }

    #[test]
    fn the_protocols_own_client_is_served() {
        let (mut sockets, folder) = listening();
        let path = folder.path().join("admin");
        let client = std::thread::spawn(move || {
            let mut client = osbuild_protocol::Client::connect(&path, Duration::from_secs(5))?;
            client.send(&Request::RestartKubelet)?;
            client.send(&Request::Reboot)
        });
        let mut served = Vec::new();
        while served.len() < 2 {
            for received in sockets.poll() {
                served.push(received.request);
                let refusal = Refusal::new(RefusalCode::Busy, "later");
                let is_first = served.len() == 1;
                let outcome = if is_first { Ok(Reply::Done.into()) } else { Err(refusal) };
                sockets.reply(received.client, outcome);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(served, [Request::RestartKubelet, Request::Reboot]);
        let refused = client.join().unwrap().unwrap_err();
        assert!(
            matches!(refused, ClientError::Refused(refusal) if refusal.code == RefusalCode::Busy)
        );
    }
}
