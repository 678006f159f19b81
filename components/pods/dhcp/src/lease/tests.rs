use super::*;
use proptest::prelude::*;

const MAC: Mac = [2, 0, 0, 0, 0, 1];
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const OTHER_SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
const OTHER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 10);
const NOBODY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
/// T1, T2 and the end of the leases here.
const LEASE: [u64; 3] = [500, 800, 1000];

/// A client and the clock that it sees. The random number, and so every `xid`, counts up.
struct Scene {
    client: Client,
    now: Duration,
    random: u32,
}

impl Scene {
    fn new(last: Option<Ipv4Addr>) -> Self {
        Self { client: Client::new(MAC, last), now: Duration::from_secs(100), random: 0 }
    }

    /// A client that holds a lease, at the moment it got it.
    fn bound() -> Self {
        let mut scene = Self::new(None);
        let discover = sent(&scene.handle(Event::CarrierUp)).1;
        let request = sent(&scene.receive(&answer(&discover, Kind::Offer, ADDRESS, SERVER))).1;
        scene.receive(&answer(&request, Kind::Ack, ADDRESS, SERVER));
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

    /// The seconds since the scene began.
    fn seconds(&self) -> u64 {
        (self.now - Duration::from_secs(100)).as_secs()
    }
}

fn answer(question: &Message, kind: Kind, address: Ipv4Addr, server: Ipv4Addr) -> Message {
    let mut message =
        Message::request(kind, question.xid, question.chaddr).with(code::SERVER, &server.octets());
    (message.side, message.yiaddr) = (Side::Server, address);
    let [t1, t2, lease] = LEASE.map(|seconds| (seconds as u32).to_be_bytes());
    message.with(code::LEASE_TIME, &lease).with(code::T1, &t1).with(code::T2, &t2)
}

/// The one message among the actions: where to (`None` is everybody) and what.
fn sent(actions: &[Action]) -> (Option<Ipv4Addr>, Message) {
    let mut messages = actions.iter().filter_map(|action| match action {
        Action::Broadcast(_, message) => Some((None, message.clone())),
        Action::Unicast(_, to, message) => Some((Some(*to), message.clone())),
        _ => None,
    });
    let only = messages.next().unwrap_or_else(|| panic!("nothing is sent: {actions:?}"));
    assert_eq!(messages.next(), None);
    only
}

fn applied(actions: &[Action]) -> (&Terms, Option<Duration>) {
    match actions {
        [Action::Apply(terms, left)] => (terms, *left),
        other => panic!("{other:?}"),
    }
}

#[test]
fn carrier_leads_to_an_address_in_four_messages() {
    let mut scene = Scene::new(None);
    assert!(scene.client.deadline().is_none());
    let actions = scene.handle(Event::CarrierUp);
    let (to, discover) = sent(&actions);
    assert!(matches!(&actions[0], Action::Broadcast(from, _) if *from == NOBODY));
    assert_eq!((to, discover.kind()), (None, Some(Kind::Discover)));

    let (to, request) = sent(&scene.receive(&answer(&discover, Kind::Offer, ADDRESS, SERVER)));
    assert_eq!((to, request.kind(), request.ciaddr), (None, Some(Kind::Request), NOBODY));
    assert_eq!(request.option(code::REQUESTED_ADDRESS), Some(&ADDRESS.octets()[..]));
    assert_eq!(request.option(code::SERVER), Some(&SERVER.octets()[..]));

    let actions = scene.receive(&answer(&request, Kind::Ack, ADDRESS, SERVER));
    assert_eq!(applied(&actions).0.address, ADDRESS);
    assert_eq!(applied(&actions).1, Some(Duration::from_secs(1000)));
    assert!(!scene.client.listens());
}

#[test]
fn an_unanswered_discover_is_sent_again_ever_more_slowly() {
    let mut scene = Scene::new(None);
    scene.handle(Event::CarrierUp);
    let mut waits = Vec::new();
    for _ in 0..8 {
        let before = scene.now;
        assert_eq!(sent(&scene.pass()).1.kind(), Some(Kind::Discover));
        waits.push((scene.now - before).as_secs_f64().round() as u64);
    }
    // With the least of all random numbers, each wait is a quarter or a second short.
    assert_eq!(waits, [1, 2, 3, 7, 15, 31, 63, 63]);
}

#[test]
fn jitter_spreads_the_waits() {
    let wait = |random| {
        let mut exchange = Exchange::new(0, Duration::ZERO);
        exchange.back_off(Duration::ZERO, random);
        exchange.again
    };
    assert_eq!(
        (wait(0), wait(u32::MAX)),
        (Duration::from_millis(750), Duration::from_millis(1250))
    );
}

#[test]
fn a_message_has_the_seconds_since_the_first_request() {
    let mut scene = Scene::new(None);
    assert_eq!(sent(&scene.handle(Event::CarrierUp)).1.secs, 0);
    scene.pass();
    assert_eq!(u64::from(sent(&scene.pass()).1.secs), scene.seconds());
}

#[test]
fn an_offer_that_is_not_confirmed_is_given_up() {
    let mut scene = Scene::new(None);
    let discover = sent(&scene.handle(Event::CarrierUp)).1;
    scene.receive(&answer(&discover, Kind::Offer, ADDRESS, SERVER));
    let kinds: Vec<_> = (0..4).map(|_| sent(&scene.pass()).1.kind().unwrap()).collect();
    assert_eq!(kinds, [Kind::Request, Kind::Request, Kind::Request, Kind::Discover]);
}

#[test]
fn an_offer_that_cannot_be_taken_is_passed_over() {
    let mut scene = Scene::new(None);
    let discover = sent(&scene.handle(Event::CarrierUp)).1;
    let actions = scene.receive(&answer(&discover, Kind::Offer, Ipv4Addr::LOCALHOST, SERVER));
    assert!(matches!(&actions[..], [Action::Note(_)]), "{actions:?}");
    sent(&scene.receive(&answer(&discover, Kind::Offer, ADDRESS, SERVER)));
}

#[test]
fn answers_to_others_are_ignored() {
    let mut scene = Scene::new(None);
    let discover = sent(&scene.handle(Event::CarrierUp)).1;
    let offer = answer(&discover, Kind::Offer, ADDRESS, SERVER);
    assert_eq!(scene.receive(&Message { xid: offer.xid + 1, ..offer.clone() }), []);
    assert_eq!(scene.receive(&Message { chaddr: [2, 0, 0, 0, 0, 2], ..offer.clone() }), []);
    assert_eq!(scene.receive(&Message { side: Side::Client, ..offer.clone() }), []);
    assert_eq!(scene.receive(&answer(&discover, Kind::Ack, ADDRESS, SERVER)), []);
    assert_eq!(scene.receive(&answer(&discover, Kind::Nak, ADDRESS, SERVER)), []);
    sent(&scene.receive(&offer));
}

#[test]
fn only_the_chosen_server_can_confirm_or_refuse() {
    let mut scene = Scene::new(None);
    let discover = sent(&scene.handle(Event::CarrierUp)).1;
    let request = sent(&scene.receive(&answer(&discover, Kind::Offer, ADDRESS, SERVER))).1;
    assert_eq!(scene.receive(&answer(&request, Kind::Ack, OTHER_ADDRESS, OTHER_SERVER)), []);
    assert_eq!(scene.receive(&answer(&request, Kind::Nak, NOBODY, OTHER_SERVER)), []);
    applied(&scene.receive(&answer(&request, Kind::Ack, ADDRESS, SERVER)));
}

#[test]
fn a_lease_is_renewed_with_its_server_at_t1() {
    let mut scene = Scene::bound();
    let (to, request) = sent(&scene.pass());
    assert_eq!((scene.seconds(), to), (500, Some(SERVER)));
    assert_eq!(
        (request.ciaddr, request.option(code::REQUESTED_ADDRESS), request.option(code::SERVER)),
        (ADDRESS, None, None)
    );
    scene.now += Duration::from_secs(7);
    let actions = scene.receive(&answer(&request, Kind::Ack, ADDRESS, SERVER));
    assert_eq!(
        applied(&actions).1,
        Some(Duration::from_secs(993)),
        "a lease counts from when it was asked for"
    );
    scene.pass();
    assert_eq!(scene.seconds(), 1000);
}

#[test]
fn a_renewal_is_repeated_after_half_of_the_remaining_time() {
    let mut scene = Scene::bound();
    let mut moments = Vec::new();
    while scene.seconds() < 800 {
        scene.pass();
        moments.push(scene.seconds());
    }
    assert_eq!(moments, [500, 650, 725, 785, 800]);
}

#[test]
fn without_its_server_a_lease_is_rebound_with_any() {
    let mut scene = Scene::bound();
    let (to, request) = loop {
        let message = sent(&scene.pass());
        if scene.seconds() >= 800 {
            break message;
        }
    };
    assert_eq!((to, request.ciaddr, request.option(code::SERVER)), (None, ADDRESS, None));
    let actions = scene.receive(&answer(&request, Kind::Ack, ADDRESS, OTHER_SERVER));
    assert_eq!(applied(&actions).0.server, OTHER_SERVER);
}

#[test]
fn a_late_answer_to_a_renewal_does_not_count_while_rebinding() {
    let mut scene = Scene::bound();
    let renewal = sent(&scene.pass()).1;
    while scene.seconds() < 800 {
        scene.pass();
    }
    assert_eq!(scene.receive(&answer(&renewal, Kind::Ack, ADDRESS, SERVER)), []);
}

#[test]
fn an_expired_lease_is_removed_and_a_new_one_looked_for() {
    let mut scene = Scene::bound();
    let actions = loop {
        let actions = scene.pass();
        if scene.seconds() >= 1000 {
            break actions;
        }
    };
    assert_eq!(actions[0], Action::Remove("the lease has expired"));
    let discover = sent(&actions).1;
    assert_eq!(discover.kind(), Some(Kind::Discover));
    assert_eq!(
        discover.option(code::REQUESTED_ADDRESS),
        Some(&ADDRESS.octets()[..]),
        "the same address would be best"
    );
    assert!(scene.client.terms().is_none());
}

#[test]
fn a_machine_that_slept_past_expiry_does_not_renew() {
    let mut scene = Scene::bound();
    scene.now += Duration::from_secs(5000);
    let actions = scene.handle(Event::Tick);
    assert_eq!(actions[0], Action::Remove("the lease has expired"));
    assert_eq!(sent(&actions).1.kind(), Some(Kind::Discover));
}

#[test]
fn a_lease_that_expired_on_arrival_is_ignored() {
    let mut scene = Scene::bound();
    scene.handle(Event::CarrierLost);
    scene.now += Duration::from_secs(990);
    let request = sent(&scene.handle(Event::CarrierUp)).1;
    scene.now += Duration::from_secs(5);
    let mut short = answer(&request, Kind::Ack, ADDRESS, SERVER);
    short.options.retain(|(code, _)| *code != code::LEASE_TIME);
    let actions = scene.receive(&short.with(code::LEASE_TIME, &4u32.to_be_bytes()));
    assert_eq!(
        actions[0],
        Action::Note("a lease is passed over: it has expired on its way".to_owned())
    );
    assert_eq!(sent(&actions).1.kind(), Some(Kind::Request), "the question is asked again");
    assert!(scene.client.terms().is_some(), "the lease before it has not expired");
}

#[test]
fn a_refused_renewal_gives_the_address_up_at_once() {
    let mut scene = Scene::bound();
    let request = sent(&scene.pass()).1;
    let actions = scene.receive(&answer(&request, Kind::Nak, NOBODY, SERVER));
    assert_eq!(actions[0], Action::Remove("the server refuses it"));
    let discover = sent(&actions).1;
    assert_eq!(
        (discover.kind(), discover.option(code::REQUESTED_ADDRESS)),
        (Some(Kind::Discover), None)
    );
}

#[test]
fn a_server_that_refuses_its_own_offers_is_asked_less_often() {
    let mut scene = Scene::new(None);
    let mut actions = scene.handle(Event::CarrierUp);
    let mut moments = Vec::new();
    for _ in 0..5 {
        let discover = sent(&actions).1;
        moments.push(scene.seconds());
        let request = sent(&scene.receive(&answer(&discover, Kind::Offer, ADDRESS, SERVER))).1;
        actions = scene.receive(&answer(&request, Kind::Nak, NOBODY, SERVER));
        if actions.is_empty() {
            actions = scene.pass();
        }
    }
    assert_eq!(moments, [0, 0, 2, 6, 14]);
}

#[test]
fn a_renewal_may_change_the_lease() {
    let mut scene = Scene::bound();
    let request = sent(&scene.pass()).1;
    let ack =
        answer(&request, Kind::Ack, OTHER_ADDRESS, SERVER).with(code::MTU, &1400u16.to_be_bytes());
    let actions = scene.receive(&ack);
    assert_eq!((applied(&actions).0.address, applied(&actions).0.mtu), (OTHER_ADDRESS, Some(1400)));
}

#[test]
fn an_endless_lease_waits_for_nothing() {
    let mut scene = Scene::new(None);
    let discover = sent(&scene.handle(Event::CarrierUp)).1;
    let request = sent(&scene.receive(&answer(&discover, Kind::Offer, ADDRESS, SERVER))).1;
    let mut ack = answer(&request, Kind::Ack, ADDRESS, SERVER);
    ack.options.retain(|(code, _)| *code != code::LEASE_TIME);
    assert_eq!(applied(&scene.receive(&ack.with(code::LEASE_TIME, &[255; 4]))).1, None);
    assert_eq!(scene.client.deadline(), None);
}

#[test]
fn a_cable_that_was_pulled_asks_for_the_same_address_first() {
    let mut scene = Scene::bound();
    assert_eq!(scene.handle(Event::CarrierLost), []);
    scene.now += Duration::from_secs(10);
    let (to, request) = sent(&scene.handle(Event::CarrierUp));
    assert_eq!((to, request.kind(), request.ciaddr), (None, Some(Kind::Request), NOBODY));
    assert_eq!(request.option(code::REQUESTED_ADDRESS), Some(&ADDRESS.octets()[..]));
    assert_eq!(request.option(code::SERVER), None);
    let actions = scene.receive(&answer(&request, Kind::Nak, NOBODY, OTHER_SERVER));
    assert_eq!(actions[0], Action::Remove("the server refuses it"), "this is another network");
}

#[test]
fn a_lease_that_no_server_confirms_is_kept_for_its_time() {
    let mut scene = Scene::bound();
    scene.handle(Event::CarrierLost);
    scene.now += Duration::from_secs(10);
    scene.handle(Event::CarrierUp);
    assert_eq!(scene.handle(Event::Gone), [], "another network may have other addresses");
    assert_eq!(sent(&scene.pass()).1.kind(), Some(Kind::Request));
    let actions = scene.pass();
    assert_eq!(sent(&actions).1.kind(), Some(Kind::Request), "it is requested on");
    let (terms, left) = applied(&actions[..1]);
    assert_eq!(terms.address, ADDRESS);
    let passed = Duration::from_secs(1000) - left.unwrap();
    assert!((10..=14).contains(&passed.as_secs()), "{passed:?}");
    assert_eq!(applied(&scene.handle(Event::Gone)).0.address, ADDRESS);
}

/// A client whose cable was connected again, with the next DISCOVER and the seconds until that. No
/// server has answered.
fn unconfirmed() -> (Scene, Message, u64) {
    let mut scene = Scene::bound();
    scene.handle(Event::CarrierLost);
    unanswered(scene)
}

/// The same for a client that was started again.
fn unconfirmed_after_a_restart() -> (Scene, Message, u64) {
    unanswered(Scene::new(Some(ADDRESS)))
}

fn unanswered(mut scene: Scene) -> (Scene, Message, u64) {
    let mut question = sent(&scene.handle(Event::CarrierUp)).1;
    let start = scene.seconds();
    while question.kind() == Some(Kind::Request) {
        question = sent(&scene.pass()).1;
    }
    let passed = scene.seconds() - start;
    (scene, question, passed)
}

#[test]
fn a_lease_that_no_server_confirms_is_not_given_up_for_another_offer() {
    for (mut scene, discover, passed) in [unconfirmed(), unconfirmed_after_a_restart()] {
        assert!((55..=65).contains(&passed), "{passed} s");
        assert_eq!(discover.option(code::REQUESTED_ADDRESS), Some(&ADDRESS.octets()[..]));
        let actions = scene.receive(&answer(&discover, Kind::Offer, OTHER_ADDRESS, OTHER_SERVER));
        let note = "an offer of 10.0.0.10 from 10.0.0.2 is passed over: the link has an address";
        assert_eq!(actions, [Action::Note(note.to_owned())]);
        let request = sent(&scene.receive(&answer(&discover, Kind::Offer, ADDRESS, SERVER))).1;
        let actions = scene.receive(&answer(&request, Kind::Ack, ADDRESS, SERVER));
        assert_eq!(applied(&actions).0.address, ADDRESS);
    }
}

#[test]
fn a_node_on_another_network_takes_its_address_within_a_few_rounds() {
    for (mut scene, mut question, _) in [unconfirmed(), unconfirmed_after_a_restart()] {
        let start = scene.seconds();
        while question.kind() == Some(Kind::Discover) {
            let offer = answer(&question, Kind::Offer, OTHER_ADDRESS, OTHER_SERVER);
            let actions = scene.receive(&offer);
            let is_note = matches!(actions[..], [Action::Note(_)]);
            question = sent(&if is_note { scene.pass() } else { actions }).1;
        }
        assert!(scene.seconds() - start < 10, "{} s", scene.seconds() - start);
        let actions = scene.receive(&answer(&question, Kind::Ack, OTHER_ADDRESS, OTHER_SERVER));
        assert_eq!(applied(&actions).0.address, OTHER_ADDRESS);
    }
}

#[test]
fn a_lease_that_expires_unconfirmed_gives_way_to_any_offer() {
    let (mut scene, mut discover, _) = unconfirmed();
    while scene.client.terms().is_some() {
        let actions = scene.pass();
        let mut messages = actions.iter().filter_map(|action| match action {
            Action::Broadcast(_, message) => Some(message.clone()),
            _ => None,
        });
        discover = messages.next().unwrap_or(discover);
    }
    let actions = scene.receive(&answer(&discover, Kind::Offer, OTHER_ADDRESS, OTHER_SERVER));
    assert_eq!(sent(&actions).1.kind(), Some(Kind::Request));
}

#[test]
fn a_lease_that_goes_from_the_link_is_put_back_and_no_other() {
    let mut scene = Scene::bound();
    scene.now += Duration::from_secs(7);
    assert_eq!(applied(&scene.handle(Event::Gone)).1, Some(Duration::from_secs(993)));
    scene.handle(Event::CarrierLost);
    assert_eq!(scene.handle(Event::Gone), []);
    scene.handle(Event::Stop);
    assert_eq!(scene.handle(Event::Gone), []);
}

#[test]
fn a_lease_expires_without_carrier_too() {
    let mut scene = Scene::bound();
    scene.handle(Event::CarrierLost);
    assert_eq!(scene.pass(), [Action::Remove("the lease has expired")]);
    assert_eq!((scene.seconds(), scene.client.deadline()), (1000, None));
}

#[test]
fn a_restarted_client_keeps_the_address_it_finds() {
    let mut scene = Scene::new(Some(ADDRESS));
    let request = sent(&scene.handle(Event::CarrierUp)).1;
    assert_eq!(request.option(code::REQUESTED_ADDRESS), Some(&ADDRESS.octets()[..]));
    assert_eq!(
        applied(&scene.receive(&answer(&request, Kind::Ack, ADDRESS, SERVER))).0.address,
        ADDRESS
    );
}

#[test]
fn a_restarted_client_whose_address_is_refused_seeks_an_offer() {
    let mut scene = Scene::new(Some(ADDRESS));
    let request = sent(&scene.handle(Event::CarrierUp)).1;
    let actions = scene.receive(&answer(&request, Kind::Nak, ADDRESS, SERVER));
    assert_eq!(actions[0], Action::Remove("the server refuses it"));
    let discover = sent(&actions).1;
    assert_eq!(discover.kind(), Some(Kind::Discover));
    let offer = answer(&discover, Kind::Offer, OTHER_ADDRESS, OTHER_SERVER);
    assert_eq!(sent(&scene.receive(&offer)).1.kind(), Some(Kind::Request));
}

#[derive(Clone, Debug)]
enum Step {
    Up,
    Lost,
    Pass,
    Gone,
    Wait(u16),
    Answer(u8, u8, u8, [u8; 3]),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Up),
        Just(Step::Lost),
        Just(Step::Pass),
        Just(Step::Gone),
        any::<u16>().prop_map(Step::Wait),
        (0..8u8, any::<u8>(), any::<u8>(), any::<[u8; 3]>())
            .prop_map(|(kind, host, server, times)| Step::Answer(kind, host, server, times)),
    ]
}

proptest! {
    /// For any events: no panic, no busy loop, no message without carrier, and no address past
    /// its expiry.
    #[test]
    fn any_sequence_of_events_is_safe(steps in prop::collection::vec(step(), 0..60)) {
        let mut scene = Scene::new(None);
        let mut question = Message::request(Kind::Discover, 0, MAC);
        for step in steps {
            let actions = match step {
                Step::Up => scene.handle(Event::CarrierUp),
                Step::Lost => scene.handle(Event::CarrierLost),
                Step::Pass if scene.client.deadline().is_none() => vec![],
                Step::Pass => scene.pass(),
                Step::Gone => scene.handle(Event::Gone),
                Step::Wait(seconds) => {
                    scene.now += Duration::from_secs(seconds.into());
                    scene.handle(Event::Tick)
                }
                Step::Answer(kind, host, server, times) => {
                    let [t1, t2, lease] = times.map(|time| u32::from(time).to_be_bytes());
                    let mut message = Message::request(Kind::Ack, question.xid, MAC)
                        .with(code::SERVER, &[10, 0, 0, server])
                        .with(code::LEASE_TIME, &lease).with(code::T1, &t1).with(code::T2, &t2);
                    message.options[0].1 = vec![kind];
                    (message.side, message.yiaddr) = (Side::Server, Ipv4Addr::new(10, 0, 0, host));
                    scene.receive(&message)
                }
            };
            for action in &actions {
                if let Action::Broadcast(_, message) | Action::Unicast(_, _, message) = action {
                    prop_assert!(scene.client.listens());
                    question = message.clone();
                }
            }
            if let Some(deadline) = scene.client.deadline() {
                prop_assert!(deadline > scene.now, "the client is late: {:?}", scene.client);
            }
            if let Some(held) = &scene.client.held {
                prop_assert!(held.when(|it| it.expire).is_none_or(|expiry| scene.now < expiry));
            }
        }
    }
}
