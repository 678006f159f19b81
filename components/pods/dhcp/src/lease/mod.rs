//! The client's state machine (RFC 2131, 4.4): events in, actions out. It uses neither clock nor
//! socket nor random numbers: all are arguments. The time is since any fixed moment, and includes
//! suspend, so that a suspended machine's leases age too.
//!
//! Three of the RFC's recommendations are not followed because they delay every boot: the wait of
//! up to ten seconds before the first message, the ARP probe of a new address, and the first wait
//! for an answer, which is one second in the place of four.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::message::{Kind, Mac, Message, Side, code};
use crate::terms::{self, Lifetimes, Terms};

/// The first wait for an answer. Each further wait is twice as long, up to [`MAX_WAIT`]. RFC 2131,
/// 4.1, would start with four seconds, but switches lose the first message on a new link, and the
/// whole boot waits for this.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const MAX_WAIT: Duration = Duration::from_secs(64);
/// The minimum time between two requests to extend a lease (RFC 2131, 4.4.5).
const RENEWAL_WAIT: Duration = Duration::from_secs(60);
/// How often an offered address is requested before the client looks for another offer.
const REQUESTS: u32 = 4;
/// How often an address that the link had is requested before the client looks for any. A lease
/// that the client holds is put back on the link then, and requested on.
const REBOOT_REQUESTS: u32 = 2;
/// How often the address of the link is requested, within a minute (RFC 2131, 4.1), before the
/// client looks for an offer: the link may be connected to a network whose servers do not know the
/// address.
const HELD_REQUESTS: u32 = 6;
/// How often the client looks for an offer of the address of the link before it takes another.
const HELD_DISCOVERS: u32 = 3;
/// The largest UDP payload that fits into an Ethernet frame.
const MAX_SIZE: u16 = 1472;
/// The parameter request list, in order of preference. RFC 3442 requires classless routes before
/// routers.
const REQUESTED_OPTIONS: [u8; 12] = [
    code::SUBNET_MASK,
    code::CLASSLESS_ROUTES,
    code::ROUTERS,
    code::NAME_SERVERS,
    code::HOST_NAME,
    code::DOMAIN,
    code::SEARCH,
    code::MTU,
    code::NTP_SERVERS,
    code::LEASE_TIME,
    code::T1,
    code::T2,
];

/// An event on the link.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The link has a carrier.
    CarrierUp,
    /// The link has lost its carrier.
    CarrierLost,
    /// The link shall have no lease. A carrier begins anew.
    Stop,
    /// A DHCP message arrived, from any sender.
    Message(&'a Message),
    /// A part of the lease is not on the link any more: another program has removed it, or the
    /// kernel did while the link was off.
    Gone,
    /// No event, but [`Client::deadline`] may have passed.
    Tick,
}

/// An action to carry out, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Broadcast on the link, from this address (0.0.0.0 while the client has none).
    Broadcast(Ipv4Addr, Message),
    /// Send to one server, from this address.
    Unicast(Ipv4Addr, Ipv4Addr, Message),
    /// Configure the link with these terms, and remove those of earlier leases. The span is the
    /// rest of the lease.
    Apply(Terms, Option<Duration>),
    /// Remove the lease from the link, for this reason.
    Remove(&'static str),
    /// Write to the log.
    Note(String),
}

/// The client of one link.
#[derive(Debug)]
pub struct Client {
    mac: Mac,
    /// The address that the link has or had, which is requested first.
    last: Option<Ipv4Addr>,
    /// Whether an earlier client has left that address on the link. This one does not know the
    /// lease, but keeps the address as long as one that it has a lease of.
    is_left: bool,
    /// The lease that the link is configured with.
    held: Option<Held>,
    state: State,
    /// The number of refusals since the last lease.
    refusals: u32,
}

#[derive(Clone, Debug)]
struct Held {
    terms: Terms,
    /// When it was requested: all lifetimes count from then.
    since: Duration,
}

impl Held {
    fn when(&self, span: impl FnOnce(Lifetimes) -> Duration) -> Option<Duration> {
        self.terms.lifetimes.map(|lifetimes| self.since + span(lifetimes))
    }

    /// The action that configures the link with what is left of the lease, if anything is.
    fn apply(&self, now: Duration) -> Option<Action> {
        let left = self.when(|it| it.expire).map(|expiry| expiry.saturating_sub(now));
        (left != Some(Duration::ZERO)).then(|| Action::Apply(self.terms.clone(), left))
    }
}

/// The states of RFC 2131, figure 5. INIT-REBOOT and REBOOTING are `Init` and `Requesting` without
/// a server.
#[derive(Clone, Copy, Debug)]
enum State {
    Down,
    Init { at: Duration },
    Selecting(Exchange),
    Requesting(Exchange, Ipv4Addr, Option<Ipv4Addr>),
    Bound,
    Renewing(Exchange),
    Rebinding(Exchange),
}

/// A question, repeated until it is answered.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    xid: u32,
    since: Duration,
    sent: Duration,
    again: Duration,
    times: u32,
}

impl Exchange {
    fn new(xid: u32, now: Duration) -> Self {
        Self { xid, since: now, sent: now, again: now, times: 0 }
    }

    /// Counts one more message, and doubles the wait, with a random deviation of a quarter, at most
    /// a second.
    fn back_off(&mut self, now: Duration, random: u32) {
        let wait = MAX_WAIT.min(FIRST_WAIT * (1 << self.times.min(6)));
        let jitter = Duration::from_secs(1).min(wait / 4);
        let chance = f64::from(random) / f64::from(u32::MAX);
        self.wait(now, wait - jitter + (2 * jitter).mul_f64(chance));
    }

    /// Counts one more message, and waits half of the time until `limit`, at least a minute.
    fn halve(&mut self, now: Duration, limit: Duration) {
        let wait = (limit.saturating_sub(now) / 2).max(RENEWAL_WAIT);
        self.wait(now, wait.min(limit.saturating_sub(now)));
    }

    fn wait(&mut self, now: Duration, wait: Duration) {
        (self.sent, self.again) = (now, now + wait);
        self.times += 1;
    }

    fn message(&self, kind: Kind, mac: Mac) -> Message {
        let mut client = vec![1];
        client.extend(mac);
        let mut message = Message::request(kind, self.xid, mac)
            .with(code::CLIENT, &client)
            .with(code::MAX_SIZE, &MAX_SIZE.to_be_bytes())
            .with(code::REQUESTED_OPTIONS, &REQUESTED_OPTIONS);
        message.secs = (self.sent - self.since).as_secs().try_into().unwrap_or(u16::MAX);
        message
    }
}

impl Client {
    /// Makes a client for the link with this hardware address, without carrier. `last` is an
    /// address that an earlier client left on the link: the new one tries to keep it.
    pub fn new(mac: Mac, last: Option<Ipv4Addr>) -> Self {
        let is_left = last.is_some();
        Self { mac, last, is_left, held: None, state: State::Down, refusals: 0 }
    }

    /// When a [`Event::Tick`] is due, if ever.
    pub fn deadline(&self) -> Option<Duration> {
        let expiry = self.held.as_ref().and_then(|held| held.when(|it| it.expire));
        let next = match self.state {
            State::Down => None,
            State::Init { at } => Some(at),
            State::Selecting(exchange) | State::Requesting(exchange, ..) => Some(exchange.again),
            State::Renewing(exchange) | State::Rebinding(exchange) => Some(exchange.again),
            State::Bound => self.held.as_ref().and_then(|held| held.when(|it| it.renew)),
        };
        expiry.into_iter().chain(next).min()
    }

    /// Whether the client waits for an answer, so that the socket must be open.
    pub fn listens(&self) -> bool {
        !matches!(self.state, State::Down | State::Init { .. } | State::Bound)
    }

    /// The address that the link has.
    fn kept(&self) -> Option<Ipv4Addr> {
        let held = self.held.as_ref().map(|held| held.terms.address);
        held.or_else(|| self.last.filter(|_| self.is_left))
    }

    /// The terms that the link is configured with.
    pub fn terms(&self) -> Option<&Terms> {
        self.held.as_ref().map(|held| &held.terms)
    }

    /// Handles an event. `now` must not go backwards; `random` is a new random number.
    pub fn handle(&mut self, event: Event, now: Duration, random: u32) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::CarrierUp => self.carrier_up(now, random),
            Event::CarrierLost => self.state = State::Down,
            Event::Stop => self.stop(&mut actions),
            Event::Message(message) => self.message(message, now, &mut actions),
            Event::Gone => self.put_back(now, &mut actions),
            Event::Tick => {}
        }
        self.expire(now, &mut actions);
        self.advance(now, random, &mut actions);
        actions
    }

    /// The link may be connected to another network now: the client requests confirmation of its
    /// address (INIT-REBOOT).
    fn carrier_up(&mut self, now: Duration, random: u32) {
        self.state = match self.last {
            Some(address) => State::Requesting(Exchange::new(random, now), address, None),
            None => State::Init { at: now },
        };
    }

    /// Configures the link with the lease again. One that is yet to be confirmed waits for that,
    /// but not for long.
    fn put_back(&self, now: Duration, actions: &mut Vec<Action>) {
        let waits = match self.state {
            State::Down => true,
            State::Requesting(exchange, _, None) => exchange.times <= REBOOT_REQUESTS,
            _ => false,
        };
        if !waits {
            actions.extend(self.held.as_ref().and_then(|held| held.apply(now)));
        }
    }

    fn stop(&mut self, actions: &mut Vec<Action>) {
        self.state = State::Down;
        // An earlier client may have left its address.
        if self.last.take().is_some() {
            self.held = None;
            actions.push(Action::Remove("a setting switches DHCP off"));
        }
    }

    /// Handles an answer, if it belongs to the client's question.
    fn message(&mut self, message: &Message, now: Duration, actions: &mut Vec<Action>) {
        let (exchange, chosen) = match self.state {
            State::Selecting(exchange) | State::Renewing(exchange) | State::Rebinding(exchange) => {
                (exchange, None)
            }
            State::Requesting(exchange, _, server) => (exchange, server),
            State::Down | State::Init { .. } | State::Bound => return,
        };
        if message.side != Side::Server || message.xid != exchange.xid || message.chaddr != self.mac
        {
            return;
        }
        if chosen.is_some() && chosen != terms::server(message) {
            return;
        }
        match (message.kind(), self.state) {
            (Some(Kind::Offer), State::Selecting(_)) => self.offer(message, exchange, now, actions),
            (_, State::Selecting(_)) => {}
            (Some(Kind::Ack), _) => self.ack(message, exchange, now, actions),
            (Some(Kind::Nak), _) => self.nak(now, actions),
            _ => {}
        }
    }

    /// Takes the first acceptable offer. As long as the link has an address, that is one of the
    /// same: its server may only be slow or away for a moment (RFC 2131, 3.2).
    fn offer(
        &mut self,
        message: &Message,
        exchange: Exchange,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        let kept = self.kept().filter(|_| exchange.times <= HELD_DISCOVERS);
        match Terms::read(message) {
            Ok(terms) if kept.is_some_and(|address| address != terms.address) => {
                let Terms { address, server, .. } = terms;
                let note = format!(
                    "an offer of {address} from {server} is passed over: the link has an address"
                );
                actions.push(Action::Note(note));
            }
            Ok(terms) => {
                // The same number, as RFC 2131, 4.4.1, requires; the waits start over.
                let exchange = Exchange { again: now, times: 0, ..exchange };
                self.state = State::Requesting(exchange, terms.address, Some(terms.server));
            }
            Err(reason) => actions.push(Action::Note(format!("an offer is passed over: {reason}"))),
        }
    }

    /// Takes a lease. A lease that expired in transit, as on a machine that slept, changes nothing:
    /// the question is repeated.
    fn ack(
        &mut self,
        message: &Message,
        exchange: Exchange,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        match Terms::read(message) {
            Ok(terms) => {
                let (last, held) = (terms.address, Held { terms, since: exchange.sent });
                let Some(apply) = held.apply(now) else {
                    actions.push(Action::Note(
                        "a lease is passed over: it has expired on its way".to_owned(),
                    ));
                    return;
                };
                (self.last, self.is_left, self.held) = (Some(last), false, Some(held));
                (self.refusals, self.state) = (0, State::Bound);
                actions.push(apply);
            }
            Err(reason) => actions.push(Action::Note(format!("a lease is passed over: {reason}"))),
        }
    }

    /// The server refuses the address, now or for the future. The client slows down for a server
    /// that refuses what it offers.
    fn nak(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if self.last.take().is_some() {
            self.held = None;
            actions.push(Action::Remove("the server refuses it"));
        }
        let wait = if self.refusals == 0 {
            Duration::ZERO
        } else {
            FIRST_WAIT * (1 << self.refusals.min(5))
        };
        self.refusals += 1;
        self.state = State::Init { at: now + wait };
    }

    /// Ends the lease at its expiry, in any state.
    fn expire(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let expiry = self.held.as_ref().and_then(|held| held.when(|it| it.expire));
        if expiry.is_none_or(|expiry| now < expiry) {
            return;
        }
        self.held = None;
        actions.push(Action::Remove("the lease has expired"));
        if matches!(self.state, State::Bound | State::Renewing(_) | State::Rebinding(_)) {
            self.state = State::Init { at: now };
        }
    }

    /// Moves to the state that the time requires, and sends the message that is due.
    fn advance(&mut self, now: Duration, random: u32, actions: &mut Vec<Action>) {
        self.give_up(now, actions);
        self.state = match (self.state, &self.held) {
            (State::Init { at }, _) if now >= at => State::Selecting(Exchange::new(random, now)),
            (State::Bound, Some(held)) if held.when(|it| it.renew).is_some_and(|t1| now >= t1) => {
                State::Renewing(Exchange::new(random, now))
            }
            (state, _) => state,
        };
        if let (State::Renewing(_), Some(held)) = (self.state, &self.held)
            && held.when(|it| it.rebind).is_some_and(|t2| now >= t2)
        {
            self.state = State::Rebinding(Exchange::new(random, now));
        }
        self.send(now, random, actions);
    }

    /// Ends a request that was repeated often enough.
    fn give_up(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let State::Requesting(exchange, _, server) = self.state else { return };
        if now < exchange.again {
            return;
        }
        // Without an answer a lease from before stays (RFC 2131, 3.2), also on a link that was off,
        // whose routes the kernel has removed.
        if server.is_none() && exchange.times == REBOOT_REQUESTS {
            actions.extend(self.held.as_ref().and_then(|held| held.apply(now)));
        }
        let most = match (server, self.kept()) {
            (Some(_), _) => REQUESTS,
            (None, Some(_)) => HELD_REQUESTS,
            (None, None) => REBOOT_REQUESTS,
        };
        if exchange.times >= most {
            self.state = State::Init { at: now };
        }
    }

    /// Sends the question of this state if it is due.
    fn send(&mut self, now: Duration, random: u32, actions: &mut Vec<Action>) {
        let mac = self.mac;
        match (&mut self.state, &self.held) {
            (State::Selecting(exchange), _) if now >= exchange.again => {
                exchange.back_off(now, random);
                let last = self.last.map(|address| address.octets());
                let message = exchange.message(Kind::Discover, mac);
                let message = message
                    .with(code::REQUESTED_ADDRESS, last.as_ref().map_or(&[], |octets| octets));
                actions.push(Action::Broadcast(Ipv4Addr::UNSPECIFIED, message));
            }
            (State::Requesting(exchange, address, server), _) if now >= exchange.again => {
                exchange.back_off(now, random);
                let server = server.map(|address| address.octets());
                let message = exchange
                    .message(Kind::Request, mac)
                    .with(code::REQUESTED_ADDRESS, &address.octets());
                let message =
                    message.with(code::SERVER, server.as_ref().map_or(&[], |octets| octets));
                actions.push(Action::Broadcast(Ipv4Addr::UNSPECIFIED, message));
            }
            (State::Renewing(exchange), Some(held)) if now >= exchange.again => {
                exchange.halve(now, held.when(|it| it.rebind).unwrap_or(now));
                let ciaddr = held.terms.address;
                let message = Message { ciaddr, ..exchange.message(Kind::Request, mac) };
                actions.push(Action::Unicast(ciaddr, held.terms.server, message));
            }
            (State::Rebinding(exchange), Some(held)) if now >= exchange.again => {
                exchange.halve(now, held.when(|it| it.expire).unwrap_or(now));
                let ciaddr = held.terms.address;
                let message = Message { ciaddr, ..exchange.message(Kind::Request, mac) };
                actions.push(Action::Broadcast(ciaddr, message));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
