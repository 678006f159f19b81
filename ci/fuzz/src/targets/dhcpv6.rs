//! DHCPv6: packets, which any host on the link can send, and the client under any events and
//! answers, up to the requests to `init`.

use std::time::Duration;

use pod_dhcp::dhcpv6::Need;
use pod_dhcp::dhcpv6::client::{Action, Client, Event};
use pod_dhcp::dhcpv6::message::{Kind, Message, Options, code};
use pod_dhcp::dhcpv6::packet;
use pod_dhcp::message::Mac;
use pod_dhcp::settings::Facts;

use super::dhcp_message::init_accepts;
use crate::target::{Memory, Outcome, Target};

/// See the module. An input is a sequence of events: one byte that names the event, and its fields.
/// A search list can repeat a domain with two bytes each time.
pub const TARGET: Target = Target { name: "dhcpv6", seeds, run, memory: Memory::per_byte(1024) };

const MAC: Mac = [2, 0, 0, 0, 0, 1];
const ADDRESSES: u8 = 0;
const OPTIONS: u8 = 1;
const LOST: u8 = 2;
const GONE: u8 = 3;
const DUPLICATE: u8 = 4;
/// Time passes until the client's deadline.
const PASS: u8 = 5;
/// Time passes. Two bytes: seconds.
const WAIT: u8 = 6;
/// A server answers the last question. Three bytes: the message type and the length of the options
/// that follow.
const ANSWER: u8 = 7;

struct Scene {
    client: Client,
    now: Duration,
    random: u32,
    /// The number of the last question.
    transaction: u32,
}

fn run(mut input: &[u8]) -> Outcome {
    let _ = packet::payload(input).and_then(Message::decode);
    if let Some(message) = Message::decode(input) {
        assert_eq!(message.encode(), input);
    }
    let (client, now) = (Client::new(MAC, 1), Duration::from_secs(100));
    let mut scene = Scene { client, now, random: 0, transaction: 0 };
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
        match event % 8 {
            ADDRESSES => self.handle(Event::Needed(Need::Addresses)),
            OPTIONS => self.handle(Event::Needed(Need::Options)),
            LOST => self.handle(Event::CarrierLost),
            GONE => self.handle(Event::Gone),
            DUPLICATE => self.handle(Event::Duplicate),
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
            _ => {
                let ([kind, length @ ..], rest) = rest.split_first_chunk::<3>()?;
                let (options, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
                self.answer(*kind, options);
                return Some(rest);
            }
        }
        Some(rest)
    }

    /// Handles an answer with these bytes as further options, if they can be decoded.
    fn answer(&mut self, kind: u8, options: &[u8]) {
        let kind = if kind.is_multiple_of(2) { Kind::Reply } else { Kind::Advertise };
        let mut message = Message::new(kind, self.transaction)
            .with(code::CLIENT, &self.client.identifier())
            .with(code::SERVER, &[1]);
        if let Some(options) = Options::decode(options) {
            message.options.0.extend(options.0);
            self.handle(Event::Message(&message));
        }
    }

    /// Checks that no event makes the client ask without listening, loop, or keep an address past
    /// its expiry, and that `init` accepts what follows from the lease.
    fn handle(&mut self, event: Event) {
        self.random = self.random.wrapping_mul(0x5DEE_CE6D).wrapping_add(11);
        for action in self.client.handle(event, self.now, self.random) {
            match action {
                Action::Send(message) => {
                    assert!(self.client.listens(), "the client listens for the answer");
                    self.transaction = message.transaction;
                }
                Action::Apply(leased) => {
                    assert_ne!(leased.valid, Some(Duration::ZERO), "the lease has not expired")
                }
                Action::Remove(_) | Action::Note(_) => {}
            }
        }
        let deadline = self.client.deadline();
        assert!(
            deadline.is_none_or(|deadline| deadline > self.now),
            "the deadline has passed: {:?}",
            self.client
        );
        self.are_valid();
    }

    fn are_valid(&self) {
        let facts = Facts {
            link: "eth0",
            terms: None,
            terms6: self.client.terms(),
            left: None,
            addresses4: &[],
            addresses6: &[],
            name_servers6: vec![],
            search6: vec![],
        };
        init_accepts(facts);
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let address = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    let lifetimes = [900_u32, 1000].map(u32::to_be_bytes).concat();
    let leased = Options(vec![(code::ADDRESS, [&address[..], &lifetimes].concat())]).encode();
    let association = [&[0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 2, 0][..], &leased].concat();
    let options = Options(vec![
        (code::ASSOCIATION, association),
        (code::NAME_SERVERS, address.to_vec()),
        (code::SEARCH, b"\x03eng\x07example\0\x02hq\xc0\x04".to_vec()),
        (code::NTP_SERVERS, [&[0, 1, 0, 16][..], &address].concat()),
        (code::PREFERENCE, vec![255]),
        (code::REFRESH, 1000_u32.to_be_bytes().to_vec()),
    ])
    .encode();
    let answer = |kind: u8, options: &[u8]| {
        [&[ANSWER, kind][..], &(options.len() as u16).to_le_bytes(), options].concat()
    };
    let status = |number: u8| Options(vec![(code::STATUS, vec![0, number])]).encode();
    let bound = [&[ADDRESSES][..], &answer(1, &options), &answer(0, &options)].concat();
    vec![
        bound.clone(),
        [&bound[..], &[PASS], &answer(0, &status(3)), &answer(0, &options)].concat(),
        [&bound[..], &[LOST, WAIT, 9, 0, ADDRESSES], &answer(0, &status(4))].concat(),
        [&bound[..], &[GONE, DUPLICATE], &answer(0, &status(0)), &[PASS, PASS]].concat(),
        [&[OPTIONS][..], &answer(0, &options), &[PASS, ADDRESSES]].concat(),
        Message::new(Kind::Solicit, 1).with(code::ELAPSED, &[0, 0]).encode(),
    ]
}
