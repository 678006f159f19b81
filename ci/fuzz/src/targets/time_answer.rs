//! Answers of time servers, which anybody on the way may send, and what several of them agree on.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};

use pod_time::agreement::agree;
use pod_time::exchange::{Datagrams, ask_over};

use crate::target::{Memory, Outcome, Target};

/// See the module. An input is the datagrams of several servers: a byte that says whether the
/// datagram answers the query and is its server's last, its length, and that many bytes.
pub const TARGET: Target = Target { name: "time_answer", seeds, run, memory: Memory::per_byte(64) };

/// The datagram answers the query: it has the time at which that was sent.
const ANSWERS: u8 = 1;
/// The next datagram is that of another server.
const LAST: u8 = 2;

/// Where a query has its time, and where an answer repeats it.
const SENT: usize = 40;
const ORIGIN: usize = 24;

/// The longest accepted round trip in microseconds.
const MAX_DELAY: u64 = 1_500_000;

/// A server that sends the datagrams of an input.
struct Server<'a> {
    rest: Cell<&'a [u8]>,
    query: RefCell<Vec<u8>>,
    is_silent: Cell<bool>,
}

impl Server<'_> {
    /// The next datagram.
    fn next(&self) -> Option<Vec<u8>> {
        if self.is_silent.get() {
            return None;
        }
        let ([flags, length], rest) = self.rest.get().split_first_chunk()?;
        let (bytes, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        self.rest.set(rest);
        self.is_silent.set(flags & LAST != 0);
        let mut bytes = bytes.to_vec();
        let query = self.query.borrow();
        if let (true, Some(origin), Some(sent)) =
            (flags & ANSWERS != 0, bytes.get_mut(ORIGIN..ORIGIN + 8), query.get(SENT..SENT + 8))
        {
            origin.copy_from_slice(sent);
        }
        Some(bytes)
    }
}

impl Datagrams for Server<'_> {
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.query.replace(bytes.to_vec());
        Ok(bytes.len())
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.next().ok_or(ErrorKind::WouldBlock)?;
        let length = bytes.len().min(buffer.len());
        buffer[..length].copy_from_slice(&bytes[..length]);
        Ok(length)
    }
}

fn run(input: &[u8]) -> Outcome {
    let (mut rest, mut samples) = (input, Vec::new());
    while !rest.is_empty() {
        let (query, is_silent) = (RefCell::default(), Cell::new(false));
        let server = Server { rest: Cell::new(rest), query, is_silent };
        let sample = ask_over(&server, SocketAddr::from((Ipv4Addr::LOCALHOST, 123)));
        if let Ok(sample) = sample {
            assert!(sample.delay <= MAX_DELAY && (1..16).contains(&sample.stratum), "{sample:?}");
            samples.push(sample);
        }
        if server.rest.get().len() == rest.len() {
            break;
        }
        rest = server.rest.get();
    }
    if let Some(agreement) = agree(&samples) {
        assert!(agreement.answered == samples.len() && agreement.agreeing * 2 > samples.len());
        assert!(samples.iter().any(|sample| sample.offset == agreement.offset), "{agreement:?}");
    }
    if samples.is_empty() { Outcome::Refused } else { Outcome::Accepted }
}

/// A datagram of version 4 (RFC 5905, 7.3) whose server received the query at this second since
/// 1900, and answered in the same moment.
fn datagram(flags: u8, mode: u8, stratum: u8, second: u32) -> Vec<u8> {
    let time = [&second.to_be_bytes()[..], &[0; 4]].concat();
    let root = [0, 0, 1, 0];
    let head = [0x20 | mode, stratum, 6, 0xEC];
    let reference = [10, 0, 0, 1];
    let packet = [&head[..], &root, &root, &reference, &time, &[0; 8], &time, &time].concat();
    [&[flags, packet.len() as u8][..], &packet].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    const SERVER: u8 = 4;
    let good = datagram(ANSWERS | LAST, SERVER, 2, 3_990_000_000);
    let early = datagram(ANSWERS | LAST, SERVER, 1, 3_900_000_000);
    let forged = datagram(0, SERVER, 2, 3_990_000_000);
    vec![
        good.clone(),
        [&good[..], &early, &good].concat(),
        [&forged[..], &good].concat(),
        // It refuses queries, its stratum is too high, and it is no server.
        datagram(ANSWERS | LAST, SERVER, 0, 3_990_000_000),
        datagram(ANSWERS | LAST, SERVER, 16, 3_990_000_000),
        datagram(ANSWERS | LAST, 3, 2, 3_990_000_000),
        good[..20].to_vec(),
    ]
}
