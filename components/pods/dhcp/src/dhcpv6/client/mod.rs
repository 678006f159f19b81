//! The client's state machine (RFC 8415, 18.2): events in, actions out. It uses neither clock nor
//! socket nor random numbers: all are arguments, as in [`crate::lease`].
//!
//! One recommendation of the RFC is left out because it delays every boot: the wait of up to a
//! second before the first message. What starts the client is an advertisement, which each node
//! gets at another time.

mod exchange;

use std::net::Ipv6Addr;
use std::time::Duration;

use super::Need;
use super::message::{Kind, Message, code};
use super::terms::{self, Leased, Terms, Unacceptable};
use crate::message::Mac;
use exchange::Exchange;

/// How often a server that has made an offer is asked for its address (`REQ_MAX_RC`).
const REQUESTS: u32 = 10;
/// How long the client asks whether its address still belongs to the link (`CNF_MAX_RD`).
const CONFIRM_TIME: Duration = Duration::from_secs(10);
/// How often a server is informed that another host has the address (`DEC_MAX_RC`).
const DECLINES: u32 = 4;
/// The longest wait after addresses in a row that the client could not use, as a server may give
/// such ones again and again (RFC 8415, 14.1). There is no wait after the first one, four seconds
/// after the second, and twice as long after each further one.
const MAX_REFUSAL_WAIT: Duration = Duration::from_secs(120);
/// How often options are asked for in vain before those from before are dropped.
const OPTION_REQUESTS: u32 = 6;
/// The preference of an offer that is taken at once.
const MAX_PREFERENCE: u8 = u8::MAX;
/// The limits of a server's value for the longest wait between two questions, in seconds.
const MAX_WAITS: std::ops::RangeInclusive<u32> = 60..=86_400;
/// The options that the client asks for.
const REQUESTED_OPTIONS: [u16; 6] = [
    code::NAME_SERVERS,
    code::SEARCH,
    code::REFRESH,
    code::NTP_SERVERS,
    code::MAX_SOLICIT_WAIT,
    code::MAX_INFORMATION_WAIT,
];

/// An event on the link.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The link has a carrier, and its routers leave this to DHCPv6.
    Needed(Need),
    /// The link has lost its carrier.
    CarrierLost,
    /// The link shall have no lease.
    Stop,
    /// A message arrived, from any sender.
    Message(&'a Message),
    /// Another host on the link has the address.
    Duplicate,
    /// Another program has removed the address.
    Gone,
    /// No event, but [`Client::deadline`] may have passed.
    Tick,
}

/// An action to carry out, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send to all servers and relays of the link.
    Send(Message),
    /// Set this address on the link, and remove an earlier one. Its spans count from now.
    Apply(Leased),
    /// Remove the address from the link, for this reason.
    Remove(&'static str),
    /// Write to the log.
    Note(String),
}

/// The client of one link.
#[derive(Debug)]
pub struct Client {
    mac: Mac,
    /// The identifier of its association (IAID).
    association: u32,
    /// The lease or the options of the link.
    held: Option<Held>,
    state: State,
    /// The addresses in a row that the client could not use.
    refusals: u32,
    /// The longest waits between two questions for an address and for options.
    max_solicit_wait: Duration,
    max_information_wait: Duration,
}

#[derive(Clone, Debug)]
struct Held {
    terms: Terms,
    /// When it was requested: all lifetimes count from then.
    since: Duration,
}

impl Held {
    /// When a span of the address ends; never without an address.
    fn when(&self, span: impl FnOnce(&Leased) -> Option<Duration>) -> Option<Duration> {
        self.terms.address.as_ref().and_then(span).map(|span| self.since.saturating_add(span))
    }

    /// The address with its spans from now on.
    fn left(&self, now: Duration) -> Option<Leased> {
        let passed = now.saturating_sub(self.since);
        let left = |span: Option<Duration>| span.map(|span| span.saturating_sub(passed));
        self.terms.address.map(|leased| Leased {
            preferred: left(leased.preferred),
            valid: left(leased.valid),
            ..leased
        })
    }
}

/// The states of the client. Each exchange repeats its question until it is answered.
#[derive(Clone, Debug)]
enum State {
    /// There is no carrier, or nothing to ask for.
    Idle,
    /// Looks for a server; the best offer so far has its preference.
    Soliciting(Exchange, Option<(u8, Terms)>),
    Requesting(Exchange, Terms),
    Confirming(Exchange),
    Bound,
    Renewing(Exchange),
    Rebinding(Exchange),
    Declining(Exchange, Terms),
    /// Asks for options alone.
    Informing(Exchange),
    Informed,
}

impl Client {
    /// Makes a client for the link with this hardware address, without carrier. No two links with
    /// the same address have the same association.
    pub fn new(mac: Mac, association: u32) -> Self {
        let hour = Duration::from_secs(3600);
        Self {
            mac,
            association,
            held: None,
            state: State::Idle,
            refusals: 0,
            max_solicit_wait: hour,
            max_information_wait: hour,
        }
    }

    /// The identifier of the client, which has no state: that of its link (DUID-LL, RFC 8415,
    /// 11.4).
    pub fn identifier(&self) -> Vec<u8> {
        [&[0, 3, 0, 1], &self.mac[..]].concat()
    }

    /// When an [`Event::Tick`] is due, if ever.
    pub fn deadline(&self) -> Option<Duration> {
        let held = self.held.as_ref();
        let expiry = held.and_then(|held| held.when(|it| it.valid));
        let next = match &self.state {
            State::Idle => None,
            State::Bound => held.and_then(|held| held.when(|it| it.renew)),
            State::Informed => held.map(|held| held.since.saturating_add(held.terms.refresh)),
            State::Soliciting(exchange, _)
            | State::Requesting(exchange, _)
            | State::Declining(exchange, _)
            | State::Informing(exchange) => Some(exchange.again()),
            State::Confirming(exchange) => Some(exchange.again().min(exchange.end(CONFIRM_TIME))),
            State::Renewing(exchange) => {
                let rebind = held.and_then(|held| held.when(|it| it.rebind));
                rebind.into_iter().chain([exchange.again()]).min()
            }
            State::Rebinding(exchange) => Some(exchange.again()),
        };
        expiry.into_iter().chain(next).min()
    }

    /// Whether the client waits for an answer, so that the socket must be open.
    pub fn listens(&self) -> bool {
        !matches!(self.state, State::Idle | State::Bound | State::Informed)
    }

    /// The terms that a server has given to the link.
    pub fn terms(&self) -> Option<&Terms> {
        self.held.as_ref().map(|held| &held.terms)
    }

    /// Handles an event. `now` must not go backwards; `random` is a new random number.
    pub fn handle(&mut self, event: Event, now: Duration, random: u32) -> Vec<Action> {
        let mut actions = Vec::new();
        self.expire(now, random, &mut actions);
        match event {
            Event::Needed(need) => self.needed(need, now, random),
            Event::CarrierLost => (self.state, self.refusals) = (State::Idle, 0),
            Event::Stop => self.stop(&mut actions),
            Event::Message(message) => self.message(message, now, random, &mut actions),
            Event::Duplicate => self.duplicate(now, random, &mut actions),
            Event::Gone => actions
                .extend(self.held.as_ref().and_then(|held| held.left(now)).map(Action::Apply)),
            Event::Tick => {}
        }
        while self.advance(now, random, &mut actions) {}
        self.send(now, random, &mut actions);
        actions
    }

    /// Starts what the routers ask for, unless it runs. A link with an address may be connected to
    /// another network now: the client asks whether the address belongs to it.
    fn needed(&mut self, need: Need, now: Duration, random: u32) {
        let exchange = Exchange::new(random, now);
        let has_address = self.held.as_ref().is_some_and(|held| held.terms.address.is_some());
        self.state = match (&self.state, need) {
            (State::Idle, Need::Nothing) if !has_address => {
                self.held = None;
                return;
            }
            (_, Need::Nothing) => return,
            (State::Soliciting(_, None), Need::Options) if !has_address => {
                State::Informing(exchange)
            }
            (State::Idle, _) if has_address => State::Confirming(exchange),
            (State::Idle, Need::Options) => State::Informing(exchange),
            (State::Idle | State::Informing(_) | State::Informed, Need::Addresses) => {
                State::Soliciting(exchange, None)
            }
            _ => return,
        };
    }

    fn stop(&mut self, actions: &mut Vec<Action>) {
        self.state = State::Idle;
        if self.held.take().is_some_and(|held| held.terms.address.is_some()) {
            actions.push(Action::Remove("a setting switches DHCP off"));
        }
    }

    /// The server is informed, which gives another address from then on.
    fn duplicate(&mut self, now: Duration, random: u32, actions: &mut Vec<Action>) {
        if let Some(held) = self.held.take() {
            self.refusals += 1;
            actions.push(Action::Remove("another host on the link has it"));
            self.state = State::Declining(Exchange::new(random, now), held.terms);
        }
    }

    /// Handles an answer, if it belongs to the client's question.
    fn message(
        &mut self,
        message: &Message,
        now: Duration,
        random: u32,
        actions: &mut Vec<Action>,
    ) {
        let exchange = match &self.state {
            State::Idle | State::Bound | State::Informed => return,
            State::Soliciting(exchange, _)
            | State::Requesting(exchange, _)
            | State::Declining(exchange, _)
            | State::Informing(exchange)
            | State::Confirming(exchange)
            | State::Renewing(exchange)
            | State::Rebinding(exchange) => *exchange,
        };
        let is_ours = message.transaction == exchange.transaction()
            && message.options.first(code::CLIENT) == Some(&self.identifier()[..])
            && terms::server(message).is_some_and(|server| self.is_asked(server));
        if !is_ours {
            return;
        }
        self.take_max_waits(message);
        match (message.kind, &self.state) {
            (Kind::Advertise, State::Soliciting(..)) => self.offer(message, now, random, actions),
            (Kind::Reply, State::Requesting(..) | State::Renewing(_) | State::Rebinding(_)) => {
                self.lease(message, exchange, now, random, actions)
            }
            (Kind::Reply, State::Confirming(_)) => self.confirmed(message, now, random, actions),
            (Kind::Reply, State::Declining(..)) => self.state = self.soliciting(now, random),
            (Kind::Reply, State::Informing(_)) => self.inform(message, exchange, actions),
            _ => {}
        }
    }

    /// Whether the question is for this server: if it names one, for no other.
    fn is_asked(&self, server: &[u8]) -> bool {
        match (&self.state, &self.held) {
            (State::Requesting(_, asked) | State::Declining(_, asked), _) => asked.server == server,
            (State::Renewing(_), Some(held)) => held.terms.server == server,
            _ => true,
        }
    }

    /// Follows a server that has its clients ask less often, also one that has nothing to give.
    fn take_max_waits(&mut self, message: &Message) {
        let wait = |code| {
            let seconds = message.options.number(code).filter(|it| MAX_WAITS.contains(it));
            seconds.map(|seconds| Duration::from_secs(seconds.into()))
        };
        self.max_solicit_wait = wait(code::MAX_SOLICIT_WAIT).unwrap_or(self.max_solicit_wait);
        self.max_information_wait =
            wait(code::MAX_INFORMATION_WAIT).unwrap_or(self.max_information_wait);
    }

    /// Keeps the best offer of the first wait, and takes any offer after it (RFC 8415, 18.2.1).
    fn offer(&mut self, message: &Message, now: Duration, random: u32, actions: &mut Vec<Action>) {
        let association = self.association;
        let State::Soliciting(exchange, best) = &mut self.state else { return };
        let offered = match Terms::read(message, Some(association)) {
            Ok(offered) => offered,
            Err(reason) => {
                actions.push(Action::Note(format!("an offer of DHCPv6 is passed over: {reason}")));
                return;
            }
        };
        let preference = match message.options.first(code::PREFERENCE) {
            Some([preference]) => *preference,
            _ => 0,
        };
        if best.as_ref().is_none_or(|(other, _)| preference > *other) {
            *best = Some((preference, offered));
        }
        if (preference == MAX_PREFERENCE || exchange.times() > 1)
            && let Some((_, offered)) = best.take()
        {
            self.state = State::Requesting(Exchange::new(random, now), offered);
        }
    }

    /// Takes a lease, or what a server answers in its place.
    fn lease(
        &mut self,
        message: &Message,
        exchange: Exchange,
        now: Duration,
        random: u32,
        actions: &mut Vec<Action>,
    ) {
        match (Terms::read(message, Some(self.association)), &self.state) {
            (Ok(terms), _) => {
                let held = Held { terms, since: exchange.sent() };
                let left = held.left(now);
                if left.is_none_or(|left| left.valid == Some(Duration::ZERO)) {
                    let note = "a lease of DHCPv6 is passed over: it has expired on its way";
                    actions.push(Action::Note(note.to_owned()));
                    return;
                }
                if matches!(self.state, State::Renewing(_) | State::Rebinding(_)) {
                    self.refusals = 0;
                }
                (self.held, self.state) = (Some(held), State::Bound);
                actions.extend(left.map(Action::Apply));
            }
            // A server that has lost its leases may give the same address again.
            (Err(Unacceptable::NoBinding), State::Renewing(_) | State::Rebinding(_)) => {
                let terms = self.held.as_ref().map(|held| held.terms.clone());
                let server = terms::server(message).map(<[u8]>::to_vec);
                if let (Some(terms), Some(server)) = (terms, server) {
                    let asked = Terms { server, ..terms };
                    self.state = State::Requesting(Exchange::new(random, now), asked);
                }
            }
            (Err(Unacceptable::Withdrawn(address)), State::Renewing(_) | State::Rebinding(_))
                if self.has(address) =>
            {
                self.start_over("the server takes it back", now, random, actions)
            }
            (Err(reason @ Unacceptable::NotOnLink), _) => {
                actions.push(Action::Note(format!("a lease of DHCPv6 is refused: {reason}")));
                self.start_over("the server refuses it", now, random, actions);
            }
            // It has nothing to give, and another server may have (RFC 8415, 18.2.10.1). A lease
            // from before stays for its time.
            (Err(reason @ Unacceptable::NoAddress), State::Requesting(..)) => {
                actions.push(Action::Note(format!("a lease of DHCPv6 is refused: {reason}")));
                self.refusals += 1;
                self.state = self.soliciting(now, random);
            }
            // The question is repeated, and another server may answer.
            (Err(reason), _) => {
                actions.push(Action::Note(format!("a lease of DHCPv6 is passed over: {reason}")))
            }
        }
    }

    fn has(&self, address: Ipv6Addr) -> bool {
        let leased = self.held.as_ref().and_then(|held| held.terms.address);
        leased.is_some_and(|leased| leased.address == address)
    }

    /// A server knows whether the address belongs to the link.
    fn confirmed(
        &mut self,
        message: &Message,
        now: Duration,
        random: u32,
        actions: &mut Vec<Action>,
    ) {
        match terms::status(&message.options) {
            Ok(()) => self.keep(now, actions),
            Err(Unacceptable::NotOnLink) => {
                self.start_over("it does not belong to this network", now, random, actions)
            }
            Err(_) => {}
        }
    }

    /// Keeps the address, which the kernel has removed if the link was switched off.
    fn keep(&mut self, now: Duration, actions: &mut Vec<Action>) {
        self.state = State::Bound;
        actions.extend(self.held.as_ref().and_then(|held| held.left(now)).map(Action::Apply));
    }

    fn inform(&mut self, message: &Message, exchange: Exchange, actions: &mut Vec<Action>) {
        match Terms::read(message, None) {
            Ok(terms) => {
                self.held = Some(Held { terms, since: exchange.sent() });
                self.state = State::Informed;
            }
            Err(reason) => {
                actions.push(Action::Note(format!("options of DHCPv6 are passed over: {reason}")))
            }
        }
    }

    /// Removes the address, and looks for another one.
    fn start_over(
        &mut self,
        reason: &'static str,
        now: Duration,
        random: u32,
        actions: &mut Vec<Action>,
    ) {
        if self.held.take().is_some_and(|held| held.terms.address.is_some()) {
            actions.push(Action::Remove(reason));
        }
        self.refusals += 1;
        self.state = self.soliciting(now, random);
    }

    /// Looks for a server: at once, unless several addresses in a row could not be used.
    fn soliciting(&self, now: Duration, random: u32) -> State {
        let wait = match self.refusals {
            0 | 1 => Duration::ZERO,
            refusals => MAX_REFUSAL_WAIT.min(Duration::from_secs(1 << refusals.min(7))),
        };
        State::Soliciting(Exchange::new(random, now.saturating_add(wait)), None)
    }

    /// Ends the lease at its expiry, in any state.
    fn expire(&mut self, now: Duration, random: u32, actions: &mut Vec<Action>) {
        let expiry = self.held.as_ref().and_then(|held| held.when(|it| it.valid));
        if expiry.is_none_or(|expiry| now < expiry) {
            return;
        }
        self.held = None;
        actions.push(Action::Remove("the lease has expired"));
        if self.has_lease() {
            self.refusals += 1;
            self.state = self.soliciting(now, random);
        }
    }

    fn has_lease(&self) -> bool {
        matches!(
            self.state,
            State::Bound | State::Renewing(_) | State::Rebinding(_) | State::Confirming(_)
        )
    }

    /// Moves to the state that the time requires. Returns whether it is another one.
    fn advance(&mut self, now: Duration, random: u32, actions: &mut Vec<Action>) -> bool {
        match &self.state {
            // Without an answer the address stays (RFC 8415, 18.2.3).
            State::Confirming(exchange) if now >= exchange.end(CONFIRM_TIME) => {
                self.keep(now, actions);
                return true;
            }
            State::Informing(exchange) if exchange.is_over(OPTION_REQUESTS, now) => {
                self.held = None;
            }
            State::Declining(exchange, _) if exchange.is_over(DECLINES, now) => {
                self.state = self.soliciting(now, random);
                return true;
            }
            _ => {}
        }
        let new = || Exchange::new(random, now);
        let is_due = |at: Option<Duration>| at.is_some_and(|at| now >= at);
        let held = self.held.as_ref();
        let when = |span: fn(&Leased) -> Option<Duration>| held.and_then(|held| held.when(span));
        let state = match &mut self.state {
            State::Soliciting(exchange, best) if now >= exchange.again() => {
                best.take().map(|(_, offered)| State::Requesting(new(), offered))
            }
            State::Requesting(exchange, _) if exchange.is_over(REQUESTS, now) => {
                Some(State::Soliciting(new(), None))
            }
            State::Bound | State::Renewing(_) if is_due(when(|it| it.rebind)) => {
                Some(State::Rebinding(new()))
            }
            State::Bound if is_due(when(|it| it.renew)) => Some(State::Renewing(new())),
            State::Informed if is_due(held.map(|it| it.since.saturating_add(it.terms.refresh))) => {
                Some(State::Informing(new()))
            }
            _ => None,
        };
        let is_other = state.is_some();
        self.state = state.unwrap_or_else(|| std::mem::replace(&mut self.state, State::Idle));
        is_other
    }

    /// Sends the question of this state if it is due.
    fn send(&mut self, now: Duration, random: u32, actions: &mut Vec<Action>) {
        let max_waits = (self.max_solicit_wait, self.max_information_wait);
        let held = self.held.as_ref().map(|held| &held.terms);
        let (kind, exchange, terms) = match &mut self.state {
            State::Idle | State::Bound | State::Informed => return,
            State::Soliciting(exchange, _) => (Kind::Solicit, exchange, held),
            State::Requesting(exchange, offered) => (Kind::Request, exchange, Some(&*offered)),
            State::Declining(exchange, refused) => (Kind::Decline, exchange, Some(&*refused)),
            State::Confirming(exchange) => (Kind::Confirm, exchange, held),
            State::Renewing(exchange) => (Kind::Renew, exchange, held),
            State::Rebinding(exchange) => (Kind::Rebind, exchange, held),
            State::Informing(exchange) => (Kind::InformationRequest, exchange, None),
        };
        if now >= exchange.again() {
            exchange.back_off(kind, max_waits, now, random);
            let (exchange, terms) = (*exchange, terms.cloned());
            actions.push(Action::Send(self.question(kind, exchange, terms.as_ref())));
        }
    }

    /// The question of this type: to the server of the terms where the type names one, and about
    /// their address.
    fn question(&self, kind: Kind, exchange: Exchange, terms: Option<&Terms>) -> Message {
        let mut message = Message::new(kind, exchange.transaction())
            .with(code::CLIENT, &self.identifier())
            .with(code::ELAPSED, &exchange.elapsed().to_be_bytes());
        if let (Kind::Request | Kind::Renew | Kind::Decline, Some(terms)) = (kind, terms) {
            message = message.with(code::SERVER, &terms.server);
        }
        if kind != Kind::InformationRequest {
            // The identifier, and times and lifetimes of zero: the server chooses them.
            let mut association = [self.association, 0, 0].map(u32::to_be_bytes).concat();
            if let Some(leased) = terms.and_then(|terms| terms.address) {
                association.extend([code::ADDRESS, 24].map(u16::to_be_bytes).concat());
                association.extend([&leased.address.octets()[..], &[0; 8]].concat());
            }
            message = message.with(code::ASSOCIATION, &association);
        }
        if !matches!(kind, Kind::Confirm | Kind::Decline) {
            let requested = REQUESTED_OPTIONS.map(u16::to_be_bytes).concat();
            message = message.with(code::REQUESTED_OPTIONS, &requested);
        }
        message
    }
}

#[cfg(test)]
mod tests;
