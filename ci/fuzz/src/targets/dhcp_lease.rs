//! The DHCP client's state machine, under any events on the link and any answers of servers.

use std::time::Duration;

use pod_dhcp::lease::{Action, Client, Event};
use pod_dhcp::message::{Mac, Message, Side, code};

use crate::target::{Memory, Outcome, Target};

/// See the module. An input is a sequence of events: one byte that names the event, and its fields.
pub const TARGET: Target = Target { name: "dhcp_lease", seeds, run, memory: Memory::per_byte(256) };

const MAC: Mac = [2, 0, 0, 0, 0, 1];
const UP: u8 = 0;
const LOST: u8 = 1;
/// Time passes until the client's deadline.
const PASS: u8 = 2;
/// Time passes. Two bytes: seconds.
const WAIT: u8 = 3;
/// A server answers the last request. Six bytes: the message type, the last octets of the host's
/// and the server's address, T1, T2 and the lease time in seconds.
const ANSWER: u8 = 4;
/// A server answers with any options: a length, and that many bytes.
const OPTIONS: u8 = 5;

struct Scene {
    client: Client,
    now: Duration,
    random: u32,
    /// The transaction id of the last request.
    xid: u32,
}

fn run(mut input: &[u8]) -> Outcome {
    let (client, now) = (Client::new(MAC, None), Duration::from_secs(100));
    let mut scene = Scene { client, now, random: 0, xid: 0 };
    let mut outcome = Outcome::Refused;
    while let Some(rest) = scene.step(input) {
        input = rest;
        if scene.client.terms().is_some() {
            outcome = Outcome::Accepted;
        }
    }
    outcome
}

impl Scene {
    /// Handles the first event of the input and returns the rest; `None` at the end.
    fn step<'a>(&mut self, input: &'a [u8]) -> Option<&'a [u8]> {
        let (event, rest) = input.split_first()?;
        match event % 6 {
            UP => self.handle(Event::CarrierUp),
            LOST => self.handle(Event::CarrierLost),
            PASS => {
                self.now = self.client.deadline().unwrap_or(self.now);
                self.handle(Event::Tick);
            }
            WAIT => {
                let (seconds, rest) = rest.split_first_chunk()?;
                self.now += Duration::from_secs(u16::from_le_bytes(*seconds).into());
                self.handle(Event::Tick);
                return Some(rest);
            }
            ANSWER => {
                let (bytes, rest) = rest.split_first_chunk()?;
                self.handle(Event::Message(&self.answer(*bytes)));
                return Some(rest);
            }
            _ => {
                let (length, rest) = rest.split_first()?;
                let (options, rest) = rest.split_at_checked((*length).into())?;
                self.answer_with(options);
                return Some(rest);
            }
        }
        Some(rest)
    }

    fn answer(&self, [kind, host, server, times @ ..]: [u8; 6]) -> Message {
        let [t1, t2, lease] = times.map(|seconds| u32::from(seconds).to_be_bytes());
        let options = vec![(code::KIND, vec![kind])];
        let message =
            Message { options, ..self.empty(host) }.with(code::SERVER, &[10, 0, 0, server]);
        message.with(code::LEASE_TIME, &lease).with(code::T1, &t1).with(code::T2, &t2)
    }

    fn empty(&self, host: u8) -> Message {
        let (ciaddr, yiaddr) = ([0; 4].into(), [10, 0, 0, host].into());
        Message {
            side: Side::Server,
            xid: self.xid,
            secs: 0,
            ciaddr,
            yiaddr,
            chaddr: MAC,
            options: Vec::new(),
        }
    }

    /// Handles an answer with these bytes as options, if they can be decoded.
    fn answer_with(&mut self, options: &[u8]) {
        let mut bytes = self.empty(9).encode();
        bytes.truncate(240);
        bytes.extend(options);
        if let Ok(message) = Message::decode(&bytes) {
            self.handle(Event::Message(&message));
        }
    }

    /// Checks that no event makes the client send without a carrier, loop, or keep an address past
    /// its expiry.
    fn handle(&mut self, event: Event) {
        self.random = self.random.wrapping_mul(0x5DEE_CE6D).wrapping_add(11);
        for action in self.client.handle(event, self.now, self.random) {
            match action {
                Action::Broadcast(_, message) | Action::Unicast(_, _, message) => {
                    assert!(self.client.listens(), "the client listens for the answer");
                    self.xid = message.xid;
                }
                Action::Apply(_, left) => {
                    assert_ne!(left, Some(Duration::ZERO), "an applied lease has not expired")
                }
                Action::Remove(_) | Action::Note(_) => {}
            }
        }
        assert!(
            self.client.deadline().is_none_or(|deadline| deadline > self.now),
            "the deadline has passed: {:?}",
            self.client
        );
        let expiry = self.client.terms().and_then(|terms| terms.lifetimes);
        assert!(
            expiry.is_none() || self.client.deadline().is_some(),
            "a lease that expires has a deadline"
        );
    }
}

fn seeds() -> Vec<Vec<u8>> {
    const OFFER: u8 = 2;
    const ACK: u8 = 5;
    const NAK: u8 = 6;
    let answer = |kind: u8| [ANSWER, kind, 9, 1, 50, 80, 100];
    let bound = [&[UP][..], &answer(OFFER), &answer(ACK)].concat();
    let options = [
        OPTIONS,
        15,
        code::KIND,
        1,
        ACK,
        code::SERVER,
        4,
        10,
        0,
        0,
        1,
        code::LEASE_TIME,
        4,
        0,
        0,
        1,
        0,
    ];
    vec![
        bound.clone(),
        [bound.as_slice(), &[PASS], &answer(ACK), &[PASS, PASS, PASS, PASS]].concat(),
        [bound.as_slice(), &[LOST, WAIT, 9, 0, UP], &answer(NAK), &[PASS]].concat(),
        [bound.as_slice(), &[PASS], &options].concat(),
        [UP, PASS, PASS, WAIT, 0xFF, 0xFF].to_vec(),
    ]
}
