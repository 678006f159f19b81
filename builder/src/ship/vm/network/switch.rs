//! Carries Ethernet frames between a machine, its user network and the other nodes.
//!
//! A node's user network never sees a frame of another node, and no other node sees a frame of it:
//! all of them have the same addresses, and each would answer for the host.

use super::member::Member;
use super::{Port, number_of};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The longest frame that QEMU sends.
const MAX_FRAME: usize = 64 << 10;

/// How often to look for nodes that have joined.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// How long to wait for a node that does not receive. Waiting slows the sender down while the other
/// node is busy; a network may lose frames, but each one costs TCP more.
const SEND_TIMEOUT: Duration = Duration::from_millis(250);

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Destination {
    /// To the user network, and so to the host and its networks.
    Host,
    /// To one node.
    Node(u8),
    /// To all other nodes.
    Nodes,
    /// To the user network and all other nodes.
    Everyone,
}

/// The destination of a frame from a machine; `None` if it has no whole address.
fn destination(frame: &[u8]) -> Option<Destination> {
    let mac: [u8; 6] = frame.get(..6)?.try_into().ok()?;
    Some(match (mac, number_of(mac)) {
        // The user network's own addresses (libslirp: `special_ethaddr`).
        ([0x52, 0x55 | 0x56, ..], _) => Destination::Host,
        (_, Some(number)) => Destination::Node(number),
        ([first, ..], _) if first & 1 == 1 => Destination::Everyone,
        // A pod may have a hardware address of its own.
        _ => Destination::Nodes,
    })
}

/// Connects a machine. The connection ends with the machine.
pub fn connect(member: Member) -> io::Result<Port> {
    let (card, its_card) = UnixStream::pair()?;
    let (host, its_host) = UnixStream::pair()?;
    let number = member.number;
    let to_card = Arc::new(Mutex::new(card.try_clone()?));
    let socket = member.socket.try_clone()?;
    let from_host = host.try_clone()?;
    let nodes = Nodes::new(member)?;
    // Each thread ends when the machine has closed its end.
    let from_host = Frames(from_host);
    let also_to_card = Arc::clone(&to_card);
    thread::spawn(move || carry_from_host(from_host, &to_card));
    thread::spawn(move || carry_from_nodes(&socket, &also_to_card));
    thread::spawn(move || carry_from_card(Frames(card), host, nodes));
    Ok(Port { number, card: Arc::new(its_card), host: Arc::new(its_host) })
}

fn carry_from_card(mut card: Frames, mut host: UnixStream, mut nodes: Nodes) {
    let mut frame = Vec::new();
    while card.next(&mut frame) {
        let Some(destination) = destination(&frame) else { continue };
        if matches!(destination, Destination::Host | Destination::Everyone)
            && send(&mut host, &frame).is_err()
        {
            break;
        }
        match destination {
            Destination::Host => {}
            Destination::Node(number) => nodes.send(number, &frame),
            Destination::Nodes | Destination::Everyone => nodes.send_to_all(&frame),
        }
    }
    // Ends the thread that waits for frames of other nodes. It fails only if that has ended.
    let _ = nodes.member.socket.shutdown(std::net::Shutdown::Both);
}

fn carry_from_host(mut host: Frames, card: &Mutex<UnixStream>) {
    let mut frame = Vec::new();
    while host.next(&mut frame) && send_locked(card, &frame).is_ok() {}
}

fn carry_from_nodes(socket: &UnixDatagram, card: &Mutex<UnixStream>) {
    let mut frame = vec![0; MAX_FRAME];
    // An empty datagram is the end of the socket: a frame has an address at least.
    while let Ok(length @ 1..) = socket.recv(&mut frame) {
        if send_locked(card, &frame[..length]).is_err() {
            break;
        }
    }
}

/// The frames of a stream. QEMU sends the length of each before it, as a big-endian `u32`
/// (`net/net.c`: `net_socket_rs_init`).
struct Frames(UnixStream);

impl Frames {
    /// Reads the next frame, and returns whether there is one.
    fn next(&mut self, frame: &mut Vec<u8>) -> bool {
        let mut length = [0; 4];
        if self.0.read_exact(&mut length).is_err() {
            return false;
        }
        let length = u32::from_be_bytes(length) as usize;
        frame.resize(length.min(MAX_FRAME), 0);
        length <= MAX_FRAME && self.0.read_exact(frame).is_ok()
    }
}

fn send_locked(stream: &Mutex<UnixStream>, frame: &[u8]) -> io::Result<()> {
    send(&mut stream.lock().unwrap_or_else(PoisonError::into_inner), frame)
}

fn send(stream: &mut UnixStream, frame: &[u8]) -> io::Result<()> {
    let length = u32::try_from(frame.len()).expect("a frame is at most MAX_FRAME");
    stream.write_all(&[&length.to_be_bytes(), frame].concat())
}

/// The other nodes of the network.
struct Nodes {
    member: Member,
    sender: Sender,
    found: Vec<Node>,
    /// When to look for nodes again.
    refresh: Instant,
}

struct Node {
    number: u8,
    socket: PathBuf,
    /// Whether it did not receive the last frame in time: a process that is stopped.
    is_stalled: bool,
}

/// Sends to the sockets of other nodes.
struct Sender {
    /// Waits up to [`SEND_TIMEOUT`].
    waiting: UnixDatagram,
    /// Never waits.
    hasty: UnixDatagram,
}

impl Nodes {
    fn new(member: Member) -> io::Result<Self> {
        let sender = Sender { waiting: UnixDatagram::unbound()?, hasty: UnixDatagram::unbound()? };
        sender.waiting.set_write_timeout(Some(SEND_TIMEOUT))?;
        sender.hasty.set_nonblocking(true)?;
        Ok(Nodes { member, sender, found: Vec::new(), refresh: Instant::now() })
    }

    fn send(&mut self, number: u8, frame: &[u8]) {
        self.look();
        for node in self.found.iter_mut().filter(|node| node.number == number) {
            node.send(&self.sender, frame);
        }
    }

    fn send_to_all(&mut self, frame: &[u8]) {
        self.look();
        for node in &mut self.found {
            node.send(&self.sender, frame);
        }
    }

    /// Finds the nodes that have joined, and forgets those that have left.
    fn look(&mut self) {
        let now = Instant::now();
        if now < self.refresh {
            return;
        }
        self.refresh = now + REFRESH_INTERVAL;
        let entries = fs::read_dir(&self.member.sockets).into_iter().flatten().flatten();
        let numbers: Vec<u8> =
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        self.found.retain(|node| numbers.contains(&node.number));
        for number in numbers {
            let is_known = self.found.iter().any(|node| node.number == number);
            if !is_known && number != self.member.number {
                let socket = self.member.sockets.join(number.to_string());
                self.found.push(Node { number, socket, is_stalled: false });
            }
        }
    }
}

impl Node {
    /// Sends a frame. A node that has left, or that does not receive, loses it; only the first
    /// frame waits for a node that is stopped.
    fn send(&mut self, sender: &Sender, frame: &[u8]) {
        let sender = if self.is_stalled { &sender.hasty } else { &sender.waiting };
        let sent = sender.send_to(frame, &self.socket);
        self.is_stalled = matches!(&sent, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Protocols, mac};
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    /// How long a frame may take; and how long none must come.
    const TIMEOUT: Duration = Duration::from_secs(10);
    const SILENCE: Duration = Duration::from_millis(200);

    const HOST: [u8; 6] = [0x52, 0x55, 10, 0, 2, 2];
    const BROADCAST: [u8; 6] = [0xff; 6];

    fn mac_of(number: u8) -> [u8; 6] {
        let bytes: Vec<u8> =
            mac(number).split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        bytes.try_into().unwrap()
    }

    fn machine(folder: &Path, name: &str) -> Port {
        connect(Member::join(folder, name, Protocols::Both).unwrap()).unwrap()
    }

    fn put(stream: &UnixStream, to: [u8; 6], text: &str) {
        send(&mut stream.try_clone().unwrap(), &[&to[..], text.as_bytes()].concat()).unwrap();
    }

    fn got(stream: &UnixStream, timeout: Duration) -> Option<String> {
        stream.set_read_timeout(Some(timeout)).unwrap();
        let mut frame = Vec::new();
        Frames(stream.try_clone().unwrap())
            .next(&mut frame)
            .then(|| String::from_utf8_lossy(&frame[6..]).into_owned())
    }

    fn gets(stream: &UnixStream, text: &str) {
        assert_eq!(got(stream, TIMEOUT).as_deref(), Some(text));
    }

    #[test]
    fn a_frame_reaches_only_its_node() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| machine(folder.path(), name));
        put(&a.card, mac_of(1), "to b");
        gets(&b.card, "to b");
        for stream in [&c.card, &a.host, &b.host, &a.card] {
            assert_eq!(got(stream, SILENCE), None);
        }
    }

    #[test]
    fn a_broadcast_reaches_the_host_and_each_other_node_once() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| machine(folder.path(), name));
        put(&a.card, BROADCAST, "who has");
        for stream in [&b.card, &c.card, &a.host] {
            gets(stream, "who has");
            assert_eq!(got(stream, SILENCE), None);
        }
        for stream in [&b.host, &c.host, &a.card] {
            assert_eq!(got(stream, SILENCE), None);
        }
    }

    #[test]
    fn the_host_answers_only_its_own_machine() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| machine(folder.path(), name));
        put(&a.card, HOST, "to the host");
        gets(&a.host, "to the host");
        put(&a.host, BROADCAST, "from the host");
        gets(&a.card, "from the host");
        for stream in [&b.card, &b.host] {
            assert_eq!(got(stream, SILENCE), None);
        }
    }

    #[test]
    fn a_pods_own_hardware_address_is_found_on_another_node() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| machine(folder.path(), name));
        put(&a.card, [0x02, 1, 2, 3, 4, 5], "to a pod");
        gets(&b.card, "to a pod");
        assert_eq!(got(&a.host, SILENCE), None);
    }

    #[test]
    fn a_node_that_joins_later_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let a = machine(folder.path(), "a");
        for _ in 0..2 {
            put(&a.card, BROADCAST, "too early");
            gets(&a.host, "too early");
        }
        let b = machine(folder.path(), "b");
        thread::sleep(REFRESH_INTERVAL);
        put(&a.card, mac_of(1), "in time");
        gets(&b.card, "in time");
    }

    #[test]
    fn a_node_that_does_not_receive_does_not_stop_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| machine(folder.path(), name));
        // A process that is stopped.
        let _stopped = Member::join(folder.path(), "stopped", Protocols::Both).unwrap();
        let started = Instant::now();
        for _ in 0..100 {
            put(&a.card, BROADCAST, "again");
            gets(&a.host, "again");
            while got(&b.card, Duration::from_millis(1)).is_some() {}
        }
        // Waiting for each frame would take longer.
        assert!(started.elapsed() < 90 * SEND_TIMEOUT);
        // On a busy host some of the frames above arrive late, and the next one may be lost.
        let end = Instant::now() + TIMEOUT;
        while got(&b.card, SILENCE).as_deref() != Some("to b") {
            assert!(Instant::now() < end, "b receives nothing more");
            put(&a.card, mac_of(1), "to b");
        }
    }

    #[test]
    fn a_machine_that_ends_leaves_the_network() {
        let folder = tempfile::tempdir().unwrap();
        drop(machine(folder.path(), "a"));
        let end = Instant::now() + TIMEOUT;
        let socket = folder.path().join("sockets/0");
        while socket.exists() && Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
        assert!(!socket.exists());
        assert_eq!(machine(folder.path(), "a").number, 0);
    }

    #[test]
    fn a_length_that_no_frame_has_ends_the_stream() {
        let (mut writer, reader) = UnixStream::pair().unwrap();
        writer.write_all(&u32::MAX.to_be_bytes()).unwrap();
        let mut frame = Vec::new();
        assert!(!Frames(reader).next(&mut frame) && frame.len() <= MAX_FRAME);
    }

    proptest! {
        #[test]
        fn every_whole_address_has_a_destination(frame: Vec<u8>) {
            prop_assert_eq!(destination(&frame).is_some(), frame.len() >= 6);
        }
    }
}
