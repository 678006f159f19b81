use std::net::Ipv6Addr;

use proptest::prelude::*;

use super::super::message::Options;
use super::*;

const MAC: Mac = [2, 0, 0, 0, 0, 1];
const ASSOCIATION: u32 = 7;
const SERVER: u8 = 1;
const OTHER_SERVER: u8 = 2;
const HOST: u8 = 9;
/// T1, T2, preferred and valid lifetime of the leases here.
const LEASE: [u32; 4] = [500, 800, 900, 1000];

/// A client and the clock that it sees. The random number, and so every transaction, counts up.
struct Scene {
    client: Client,
    now: Duration,
    random: u32,
}

impl Scene {
    fn new() -> Self {
        Self { client: Client::new(MAC, ASSOCIATION), now: Duration::from_secs(100), random: 0 }
    }

    /// A client that holds a lease, at the moment it got it: a second after its first question.
    fn bound() -> Self {
        let mut scene = Self::new();
        let solicit = sent(&scene.handle(Event::Needed(Need::Addresses)));
        scene.receive(&answer(&solicit, Kind::Advertise, SERVER, HOST));
        let request = sent(&scene.pass());
        assert_eq!(request.kind, Kind::Request);
        scene.receive(&answer(&request, Kind::Reply, SERVER, HOST));
        scene
    }

    fn handle(&mut self, event: Event) -> Vec<Action> {
        self.random += 1;
        self.client.handle(event, self.now, self.random)
    }

    fn receive(&mut self, message: &Message) -> Vec<Action> {
        self.handle(Event::Message(message))
    }

    /// Lets the time pass up to the client's deadline and returns what it does then.
    fn pass(&mut self) -> Vec<Action> {
        self.now = self.client.deadline().expect("the client waits for nothing");
        self.handle(Event::Tick)
    }

    /// Lets the time pass until the client sends a message of this type.
    fn pass_to(&mut self, kind: Kind) -> Message {
        for _ in 0..100 {
            if let [Action::Send(message)] = &self.pass()[..]
                && message.kind == kind
            {
                return message.clone();
            }
        }
        panic!("{kind:?} is not sent: {:?}", self.client);
    }

    /// The whole seconds since the lease.
    fn seconds(&self) -> u64 {
        (self.now - self.client.held.as_ref().unwrap().since).as_secs()
    }
}

fn host(host: u8) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host.into())
}

fn empty(question: &Message, kind: Kind, server: u8) -> Message {
    let client = question.options.first(code::CLIENT).unwrap();
    Message::new(kind, question.transaction)
        .with(code::CLIENT, client)
        .with(code::SERVER, &[server])
}

fn answer(question: &Message, kind: Kind, server: u8, host: u8) -> Message {
    answer_with(question, kind, server, host, LEASE)
}

fn answer_with(
    question: &Message,
    kind: Kind,
    server: u8,
    host_number: u8,
    [t1, t2, preferred, valid]: [u32; 4],
) -> Message {
    let lifetimes = [preferred, valid].map(u32::to_be_bytes).concat();
    let address = [&host(host_number).octets()[..], &lifetimes].concat();
    let association = [ASSOCIATION, t1, t2].map(u32::to_be_bytes).concat();
    let options = Options(vec![(code::ADDRESS, address)]).encode();
    empty(question, kind, server).with(code::ASSOCIATION, &[association, options].concat())
}

fn with_status(question: &Message, server: u8, status: u8) -> Message {
    empty(question, Kind::Reply, server).with(code::STATUS, &[0, status])
}

/// The one message among the actions.
fn sent(actions: &[Action]) -> Message {
    let mut messages = actions.iter().filter_map(|action| match action {
        Action::Send(message) => Some(message.clone()),
        _ => None,
    });
    let only = messages.next().unwrap_or_else(|| panic!("nothing is sent: {actions:?}"));
    assert_eq!(messages.next(), None);
    only
}

fn applied(actions: &[Action]) -> Leased {
    match actions {
        [Action::Apply(leased)] => *leased,
        other => panic!("{other:?}"),
    }
}

fn server_of(message: &Message) -> Option<&[u8]> {
    message.options.first(code::SERVER)
}

#[test]
fn an_offer_is_taken_after_the_first_wait() {
    let mut scene = Scene::new();
    let solicit = sent(&scene.handle(Event::Needed(Need::Addresses)));
    assert_eq!((solicit.kind, server_of(&solicit)), (Kind::Solicit, None));
    assert_eq!(scene.receive(&answer(&solicit, Kind::Advertise, SERVER, HOST)), []);
    let better = answer(&solicit, Kind::Advertise, OTHER_SERVER, 8).with(code::PREFERENCE, &[7]);
    assert_eq!(scene.receive(&better), []);
    let request = sent(&scene.pass());
    assert_eq!((request.kind, server_of(&request)), (Kind::Request, Some(&[OTHER_SERVER][..])));
    assert!(scene.now >= Duration::from_secs(101));
    let leased = applied(&scene.receive(&answer(&request, Kind::Reply, OTHER_SERVER, 8)));
    assert_eq!(leased.address, host(8));
    assert!(!scene.client.listens());
}

#[test]
fn an_offer_of_the_highest_preference_is_taken_at_once() {
    let mut scene = Scene::new();
    let solicit = sent(&scene.handle(Event::Needed(Need::Addresses)));
    let offer = answer(&solicit, Kind::Advertise, SERVER, HOST).with(code::PREFERENCE, &[255]);
    assert_eq!(sent(&scene.receive(&offer)).kind, Kind::Request);
}

#[test]
fn an_offer_after_the_first_wait_is_taken_at_once() {
    let mut scene = Scene::new();
    scene.handle(Event::Needed(Need::Addresses));
    let solicit = sent(&scene.pass());
    let offer = answer(&solicit, Kind::Advertise, SERVER, HOST);
    assert_eq!(sent(&scene.receive(&offer)).kind, Kind::Request);
}

#[test]
fn questions_are_repeated_ever_more_rarely() {
    let mut scene = Scene::new();
    scene.handle(Event::Needed(Need::Addresses));
    let mut waits = Vec::new();
    for _ in 0..15 {
        let before = scene.now;
        assert_eq!(sent(&scene.pass()).kind, Kind::Solicit);
        waits.push((scene.now - before).as_secs_f64());
    }
    assert!((1.0..=1.1).contains(&waits[0]), "{waits:?}");
    assert!((3200.0..=4000.0).contains(&waits[14]), "{waits:?}");
}

#[test]
fn a_server_without_addresses_slows_the_questions_down() {
    let mut scene = Scene::new();
    let solicit = sent(&scene.handle(Event::Needed(Need::Addresses)));
    let none = empty(&solicit, Kind::Advertise, SERVER)
        .with(code::STATUS, &[0, 2])
        .with(code::MAX_SOLICIT_WAIT, &60_u32.to_be_bytes());
    assert!(
        matches!(&scene.receive(&none)[..], [Action::Note(note)] if note.contains("no address"))
    );
    for _ in 0..10 {
        scene.pass();
    }
    let before = scene.now;
    scene.pass();
    assert!((54.0..=66.0).contains(&(scene.now - before).as_secs_f64()));
}

#[test]
fn an_answer_to_another_question_or_client_is_ignored() {
    let mut scene = Scene::new();
    let solicit = sent(&scene.handle(Event::Needed(Need::Addresses)));
    let offer = answer(&solicit, Kind::Advertise, SERVER, HOST).with(code::PREFERENCE, &[255]);
    let mut others = vec![Message { transaction: offer.transaction ^ 1, ..offer.clone() }];
    others.push(Message { kind: Kind::Reply, ..offer.clone() });
    for left_out in [code::CLIENT, code::SERVER] {
        let mut other = offer.clone();
        other.options.0.retain(|(code, _)| *code != left_out);
        others.push(other);
    }
    let mut of_other = offer.clone();
    of_other.options.0[0].1[9] ^= 1;
    others.push(of_other);
    for other in others {
        assert_eq!(scene.receive(&other), [], "{other:?}");
    }
    sent(&scene.receive(&offer));
}

#[test]
fn only_the_requested_server_gives_the_lease() {
    let mut scene = Scene::new();
    scene.handle(Event::Needed(Need::Addresses));
    let solicit = sent(&scene.pass());
    let request = sent(&scene.receive(&answer(&solicit, Kind::Advertise, SERVER, HOST)));
    assert_eq!(scene.receive(&answer(&request, Kind::Reply, OTHER_SERVER, HOST)), []);
    assert_eq!(scene.receive(&with_status(&request, OTHER_SERVER, 4)), []);
    applied(&scene.receive(&answer(&request, Kind::Reply, SERVER, HOST)));
}

#[test]
fn a_server_that_does_not_answer_requests_is_left() {
    let mut scene = Scene::new();
    scene.handle(Event::Needed(Need::Addresses));
    let solicit = sent(&scene.pass());
    scene.receive(&answer(&solicit, Kind::Advertise, SERVER, HOST));
    for _ in 1..REQUESTS {
        assert_eq!(sent(&scene.pass()).kind, Kind::Request);
    }
    assert_eq!(sent(&scene.pass()).kind, Kind::Solicit);
}

#[test]
fn a_lease_is_renewed_then_rebound_then_lost() {
    let mut scene = Scene::bound();
    let renew = sent(&scene.pass());
    assert_eq!((renew.kind, scene.seconds()), (Kind::Renew, 500));
    assert_eq!(server_of(&renew), Some(&[SERVER][..]));
    let rebind = scene.pass_to(Kind::Rebind);
    assert_eq!((server_of(&rebind), scene.seconds()), (None, 800));
    loop {
        match &scene.pass()[..] {
            [Action::Send(message)] => assert_eq!(message.kind, Kind::Rebind),
            [Action::Remove("the lease has expired"), Action::Send(message)] => {
                assert_eq!(message.kind, Kind::Solicit);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(scene.client.terms(), None);
}

#[test]
fn a_renewed_lease_counts_from_its_question() {
    let mut scene = Scene::bound();
    let renew = sent(&scene.pass());
    let asked_at = scene.now;
    scene.now += Duration::from_secs(4);
    let leased = applied(&scene.receive(&answer(&renew, Kind::Reply, SERVER, HOST)));
    assert_eq!(leased.valid, Some(Duration::from_secs(996)));
    assert_eq!(leased.preferred, Some(Duration::from_secs(896)));
    assert_eq!(scene.client.deadline(), Some(asked_at + Duration::from_secs(500)));
}

#[test]
fn a_server_that_has_lost_its_leases_is_asked_for_the_same_address() {
    let mut scene = Scene::bound();
    let renew = sent(&scene.pass());
    let request = sent(&scene.receive(&with_status(&renew, SERVER, 3)));
    assert_eq!((request.kind, server_of(&request)), (Kind::Request, Some(&[SERVER][..])));
    let association = request.options.first(code::ASSOCIATION).unwrap();
    assert!(association.windows(16).any(|bytes| bytes == host(HOST).octets()));
    applied(&scene.receive(&answer(&request, Kind::Reply, SERVER, HOST)));
}

#[test]
fn a_server_that_refuses_its_own_offer_is_left_and_a_lease_stays() {
    let mut scene = Scene::new();
    let mut solicit = sent(&scene.handle(Event::Needed(Need::Addresses)));
    let mut waits = Vec::new();
    for _ in 0..3 {
        let offer = answer(&solicit, Kind::Advertise, SERVER, HOST).with(code::PREFERENCE, &[255]);
        let request = sent(&scene.receive(&offer));
        let start = scene.now;
        let mut actions = scene.receive(&with_status(&request, SERVER, 2));
        assert!(
            matches!(&actions[0], Action::Note(note) if note.contains("no address")),
            "{actions:?}"
        );
        if actions.len() == 1 {
            actions = scene.pass();
        }
        solicit = sent(&actions);
        assert_eq!(solicit.kind, Kind::Solicit);
        waits.push((scene.now - start).as_secs());
    }
    assert_eq!(waits, [0, 4, 8]);

    let mut scene = Scene::bound();
    let renew = sent(&scene.pass());
    let request = sent(&scene.receive(&with_status(&renew, SERVER, 3)));
    let actions = scene.receive(&with_status(&request, SERVER, 2));
    assert_eq!(sent(&actions).kind, Kind::Solicit);
    assert!(scene.client.terms().is_some() && !actions.iter().any(is_removal), "{actions:?}");
}

fn is_removal(action: &Action) -> bool {
    matches!(action, Action::Remove(_))
}

#[test]
fn a_cable_that_was_pulled_asks_whether_the_address_belongs_to_the_link() {
    let mut scene = Scene::bound();
    assert_eq!(scene.handle(Event::CarrierLost), []);
    let confirm = sent(&scene.handle(Event::Needed(Need::Addresses)));
    assert_eq!(confirm.kind, Kind::Confirm);
    assert_eq!(
        applied(&scene.receive(&with_status(&confirm, OTHER_SERVER, 0))).address,
        host(HOST)
    );
    scene.handle(Event::CarrierLost);
    let confirm = sent(&scene.handle(Event::Needed(Need::Addresses)));
    let actions = scene.receive(&with_status(&confirm, OTHER_SERVER, 4));
    assert_eq!(actions[0], Action::Remove("it does not belong to this network"));
    assert_eq!(sent(&actions).kind, Kind::Solicit);
}

#[test]
fn an_address_that_no_server_confirms_stays() {
    let mut scene = Scene::bound();
    scene.handle(Event::CarrierLost);
    scene.handle(Event::Needed(Need::Addresses));
    let start = scene.now;
    // The kernel has removed it if the link was off.
    let leased = loop {
        match &scene.pass()[..] {
            [Action::Send(message)] => assert_eq!(message.kind, Kind::Confirm),
            other => break applied(other),
        }
    };
    assert_eq!((leased.address, scene.now - start), (host(HOST), CONFIRM_TIME));
    assert_eq!(scene.client.terms().unwrap().address.unwrap().address, host(HOST));
}

#[test]
fn a_lease_expires_without_carrier_too() {
    let mut scene = Scene::bound();
    scene.handle(Event::CarrierLost);
    assert_eq!(scene.pass(), [Action::Remove("the lease has expired")]);
    assert_eq!(scene.client.deadline(), None);
}

#[test]
fn an_address_of_another_host_is_declined() {
    let mut scene = Scene::bound();
    let actions = scene.handle(Event::Duplicate);
    assert_eq!(actions[0], Action::Remove("another host on the link has it"));
    let decline = sent(&actions);
    assert_eq!((decline.kind, server_of(&decline)), (Kind::Decline, Some(&[SERVER][..])));
    let solicit = sent(&scene.receive(&with_status(&decline, SERVER, 0)));
    assert_eq!(solicit.kind, Kind::Solicit);
}

#[test]
fn a_decline_that_nobody_answers_ends() {
    let mut scene = Scene::bound();
    scene.handle(Event::Duplicate);
    for _ in 1..DECLINES {
        assert_eq!(sent(&scene.pass()).kind, Kind::Decline);
    }
    assert_eq!(sent(&scene.pass()).kind, Kind::Solicit);
}

#[test]
fn addresses_that_cannot_be_used_slow_the_client_down() {
    let mut scene = Scene::bound();
    let mut waits = Vec::new();
    for _ in 0..9 {
        let decline = sent(&scene.handle(Event::Duplicate));
        let start = scene.now;
        let actions = scene.receive(&with_status(&decline, SERVER, 0));
        let solicit = sent(&if actions.is_empty() { scene.pass() } else { actions });
        waits.push((scene.now - start).as_secs());
        let offer = answer(&solicit, Kind::Advertise, SERVER, HOST).with(code::PREFERENCE, &[255]);
        let request = sent(&scene.receive(&offer));
        applied(&scene.receive(&answer(&request, Kind::Reply, SERVER, HOST)));
    }
    assert_eq!(waits, [0, 4, 8, 16, 32, 64, 120, 120, 120]);
    let renew = sent(&scene.pass());
    applied(&scene.receive(&answer(&renew, Kind::Reply, SERVER, HOST)));
    let decline = sent(&scene.handle(Event::Duplicate));
    assert_eq!(sent(&scene.receive(&with_status(&decline, SERVER, 0))).kind, Kind::Solicit);
}

#[test]
fn an_address_that_the_server_takes_back_goes() {
    let mut scene = Scene::bound();
    let renew = sent(&scene.pass());
    let of_another = answer_with(&renew, Kind::Reply, SERVER, HOST + 1, [0; 4]);
    assert!(matches!(&scene.receive(&of_another)[..], [Action::Note(_)]));
    let actions = scene.receive(&answer_with(&renew, Kind::Reply, SERVER, HOST, [0; 4]));
    assert_eq!(actions[0], Action::Remove("the server takes it back"));
    assert_eq!(sent(&actions).kind, Kind::Solicit);
}

#[test]
fn options_of_another_network_are_dropped() {
    let informed = || {
        let mut scene = Scene::new();
        let question = sent(&scene.handle(Event::Needed(Need::Options)));
        scene.receive(
            &empty(&question, Kind::Reply, SERVER).with(code::NAME_SERVERS, &host(3).octets()),
        );
        assert!(scene.client.terms().is_some());
        scene.handle(Event::CarrierLost);
        scene
    };
    let mut scene = informed();
    scene.handle(Event::Needed(Need::Nothing));
    assert_eq!(scene.client.terms(), None, "its routers leave nothing to DHCPv6");
    let mut scene = informed();
    sent(&scene.handle(Event::Needed(Need::Options)));
    for _ in 1..OPTION_REQUESTS {
        assert!(scene.client.terms().is_some());
        assert_eq!(sent(&scene.pass()).kind, Kind::InformationRequest);
    }
    sent(&scene.pass());
    assert_eq!(scene.client.terms(), None, "no server answers");
}

#[test]
fn a_router_that_has_only_options_ends_the_search_for_an_address() {
    let mut scene = Scene::new();
    sent(&scene.handle(Event::Needed(Need::Addresses)));
    let question = sent(&scene.handle(Event::Needed(Need::Options)));
    assert_eq!(question.kind, Kind::InformationRequest);
    let mut scene = Scene::bound();
    assert_eq!(scene.handle(Event::Needed(Need::Options)), [], "a lease stays");
}

#[test]
fn an_address_that_is_removed_is_applied_again() {
    let mut scene = Scene::bound();
    scene.now += Duration::from_secs(300);
    let leased = applied(&scene.handle(Event::Gone));
    assert!(leased.valid < Some(Duration::from_secs(701)));
    assert_eq!(
        scene.client.deadline(),
        Some(scene.client.held.as_ref().unwrap().since + Duration::from_secs(500))
    );
}

#[test]
fn options_alone_are_asked_for_again_after_their_time() {
    let mut scene = Scene::new();
    let question = sent(&scene.handle(Event::Needed(Need::Options)));
    assert_eq!(question.kind, Kind::InformationRequest);
    assert_eq!(question.options.first(code::ASSOCIATION), None);
    let reply = empty(&question, Kind::Reply, SERVER)
        .with(code::NAME_SERVERS, &host(3).octets())
        .with(code::REFRESH, &1000_u32.to_be_bytes());
    assert_eq!(scene.receive(&reply), []);
    assert_eq!(scene.client.terms().unwrap().name_servers, [host(3)]);
    assert!(!scene.client.listens());
    assert_eq!(scene.handle(Event::Needed(Need::Options)), [], "once");
    let start = scene.now;
    assert_eq!(sent(&scene.pass()).kind, Kind::InformationRequest);
    assert_eq!(scene.now - start, Duration::from_secs(1000));
    let solicit = sent(&scene.handle(Event::Needed(Need::Addresses)));
    assert_eq!(solicit.kind, Kind::Solicit, "the routers leave addresses to it now");
}

#[test]
fn a_setting_ends_the_lease() {
    let mut scene = Scene::bound();
    assert_eq!(scene.handle(Event::Stop), [Action::Remove("a setting switches DHCP off")]);
    assert_eq!((scene.client.terms(), scene.client.deadline()), (None, None));
    assert_eq!(scene.handle(Event::Stop), []);
}

#[derive(Clone, Debug)]
enum Step {
    Needed(bool),
    Lost,
    Gone,
    Duplicate,
    Stop,
    Pass,
    Wait(u16),
    Answer { is_reply: bool, server: u8, host: u8, status: u8, times: [u8; 4] },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<bool>().prop_map(Step::Needed),
        Just(Step::Lost),
        Just(Step::Gone),
        Just(Step::Duplicate),
        Just(Step::Stop),
        Just(Step::Pass),
        any::<u16>().prop_map(Step::Wait),
        (any::<bool>(), 1..3u8, any::<u8>(), 0..5u8, any::<[u8; 4]>()).prop_map(
            |(is_reply, server, host, status, times)| Step::Answer {
                is_reply,
                server,
                host,
                status,
                times
            }
        ),
    ]
}

impl Scene {
    fn step(&mut self, step: &Step, question: &Message) -> Vec<Action> {
        match *step {
            Step::Needed(true) => self.handle(Event::Needed(Need::Addresses)),
            Step::Needed(false) => self.handle(Event::Needed(Need::Options)),
            Step::Lost => self.handle(Event::CarrierLost),
            Step::Gone => self.handle(Event::Gone),
            Step::Duplicate => self.handle(Event::Duplicate),
            Step::Stop => self.handle(Event::Stop),
            Step::Pass if self.client.deadline().is_none() => vec![],
            Step::Pass => self.pass(),
            Step::Wait(seconds) => {
                self.now += Duration::from_secs(seconds.into());
                self.handle(Event::Tick)
            }
            Step::Answer { is_reply, server, host, status, times } => {
                let kind = if is_reply { Kind::Reply } else { Kind::Advertise };
                let times = times.map(u32::from);
                let message = answer_with(question, kind, server, host, times);
                self.receive(&message.with(code::STATUS, &[0, status]))
            }
        }
    }
}

proptest! {
    /// For any events: no panic, no busy loop, no message that nobody listens for, and no address
    /// past its expiry.
    #[test]
    fn any_sequence_of_events_is_safe(steps in prop::collection::vec(step(), 0..60)) {
        let mut scene = Scene::new();
        let identifier = scene.client.identifier();
        let mut question = Message::new(Kind::Solicit, 0).with(code::CLIENT, &identifier);
        for step in steps {
            let actions = scene.step(&step, &question);
            for action in &actions {
                if let Action::Send(message) = action {
                    prop_assert!(scene.client.listens());
                    question = message.clone();
                }
            }
            if let Some(deadline) = scene.client.deadline() {
                prop_assert!(deadline > scene.now, "the client is late: {:?}", scene.client);
            }
            if let Some(held) = &scene.client.held {
                prop_assert!(held.when(|it| it.valid).is_none_or(|expiry| scene.now < expiry));
            }
        }
    }
}
