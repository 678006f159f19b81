//! The kubelet's own bytes, and clients that break the rules.
//!
//! `kubelet-1.35.8.bin` is what `pkg/kubelet/nodeshutdown/systemd` of that version, with
//! `godbus/dbus` 5.1.0, sent to a socket: the handshake, `Hello`, `Get`, `Inhibit`, `KillUnit` (a
//! kubelet that wants more time than it gets), and `AddMatch`.

use std::time::Duration;

use osbuild_logind::{Kind, Login1, MAX_INHIBITORS, MAX_MESSAGE, Message, Output, Session};

const KUBELET: &[u8] = include_bytes!("kubelet-1.35.8.bin");
/// The end of the handshake.
const BEGIN: &[u8] = b"BEGIN\r\n";
const LOGIND: &str = "org.freedesktop.login1";
const MANAGER: &str = "org.freedesktop.login1.Manager";

fn login1() -> Login1 {
    Login1 { delay: Duration::from_secs(70), ..Login1::default() }
}

fn session() -> Session {
    Session::new(0, 7, [0xAB; 16])
}

/// A client that has gone through the handshake and has a name.
fn connected(handshake: &[u8]) -> Session {
    let mut session = session();
    let hello = call("Hello", "", &[]).encode();
    let received = session.receive(&[handshake, &hello].concat(), &mut login1());
    assert!(received.malformed.is_none() && session.has_name());
    session
}

/// A call to the bus; arguments are strings.
fn call(member: &str, signature: &str, arguments: &[&str]) -> Message {
    let mut body = Vec::new();
    for text in arguments {
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend((text.len() as u32).to_le_bytes());
        body.extend(text.as_bytes());
        body.push(0);
    }
    Message {
        serial: 9,
        path: Some("/org/freedesktop/login1".to_owned()),
        member: Some(member.to_owned()),
        signature: signature.to_owned(),
        body,
        ..Message::default()
    }
}

fn to_logind(member: &str, signature: &str, arguments: &[&str]) -> Message {
    let destination = Some(LOGIND.to_owned());
    Message { destination, ..call(member, signature, arguments) }
}

fn inhibit(what: &str, mode: &str) -> Message {
    to_logind("Inhibit", "ssss", &[what, "me", "why", mode])
}

/// The single message that a client gets for one call.
fn reply(session: &mut Session, call: &Message, login1: &mut Login1) -> Message {
    let received = session.receive(&call.encode(), login1);
    assert!(received.malformed.is_none());
    let [output] = &received.outputs[..] else { panic!("{received:?}") };
    let (Output::Bytes(bytes) | Output::Inhibitor { bytes, .. }) = output;
    Message::decode(bytes).unwrap()
}

/// The error that a client gets for one call, without what all names begin with.
fn error(session: &mut Session, call: &Message, login1: &mut Login1) -> String {
    let reply = reply(session, call, login1);
    assert_eq!((reply.kind, reply.reply_serial), (Kind::Error, Some(call.serial)));
    reply.error_name.unwrap().replace("org.freedesktop.DBus.Error.", "")
}

#[test]
fn the_kubelet_gets_what_it_asks_for() {
    let (mut session, mut login1) = (session(), login1());
    let received = session.receive(KUBELET, &mut login1);
    assert_eq!((received.malformed, login1.inhibitors), (None, 1));
    let (lines, messages) = received.outputs.split_at(4);
    let text = |output: &Output| match output {
        Output::Bytes(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        Output::Inhibitor { .. } => panic!("a lock in the handshake"),
    };
    assert_eq!(
        lines.iter().map(text).collect::<Vec<_>>(),
        [
            "REJECTED EXTERNAL\r\n",
            "DATA\r\n",
            "OK abababababababababababababababab\r\n",
            "AGREE_UNIX_FD\r\n",
        ]
    );
    let mut replies = messages.iter().zip(1..).map(|(output, serial)| {
        let (Output::Bytes(bytes) | Output::Inhibitor { bytes, .. }) = output;
        let message = Message::decode(bytes).unwrap();
        assert_eq!((message.serial, message.reply_serial), (serial, Some(serial)));
        assert_eq!(message.destination.as_deref(), Some(":1.7"));
        (message.signature, message.body, message.error_name)
    });
    let values = |signature: &str, body: &[u8]| Some((signature.to_owned(), body.to_vec(), None));
    assert_eq!(replies.next(), values("s", b"\x04\0\0\0:1.7\0"));
    let delay = [b"\x01t\0\0\0\0\0\0", &70_000_000u64.to_le_bytes()[..]].concat();
    assert_eq!(replies.next(), values("v", &delay));
    assert_eq!(replies.next(), values("h", &[0; 4]));
    let unknown = replies.next().unwrap().2;
    assert_eq!(unknown.as_deref(), Some("org.freedesktop.DBus.Error.ServiceUnknown"));
    assert_eq!(replies.next(), values("", &[]));
    assert!(replies.next().is_none());
    assert!(matches!(&messages[2], Output::Inhibitor { who, .. } if who == "kubelet"));

    let signal = Message::decode(&session.prepare_for_shutdown().unwrap()).unwrap();
    assert_eq!((signal.kind, signal.serial), (Kind::Signal, 6));
    assert_eq!(signal.interface.as_deref(), Some(MANAGER));
    assert_eq!(signal.member.as_deref(), Some("PrepareForShutdown"));
    assert_eq!((signal.signature.as_str(), &signal.body[..]), ("b", &[1, 0, 0, 0][..]));
}

#[test]
fn it_makes_no_difference_in_which_pieces_bytes_arrive() {
    let whole = session().receive(KUBELET, &mut login1());
    for size in [1, 2, 3, 7, 64, 500] {
        let (mut session, mut login1) = (session(), login1());
        let pieces = KUBELET.chunks(size).map(|piece| session.receive(piece, &mut login1));
        let outputs: Vec<Output> = pieces.flat_map(|received| received.outputs).collect();
        assert_eq!(outputs, whole.outputs, "{size}");
    }
}

#[test]
fn a_client_must_say_hello_first_and_once() {
    let mut session = session();
    session.receive(b"\0AUTH EXTERNAL 30\r\nBEGIN\r\n", &mut login1());
    let add = call("AddMatch", "s", &[""]);
    assert_eq!(error(&mut session, &add, &mut login1()), "AccessDenied");
    assert_eq!(reply(&mut session, &call("Hello", "", &[]), &mut login1()).signature, "s");
    assert_eq!(error(&mut session, &call("Hello", "", &[]), &mut login1()), "Failed");
}

#[test]
fn only_a_client_with_a_matching_rule_gets_the_signal() {
    let mut session = connected(b"\0AUTH EXTERNAL 30\r\nBEGIN\r\n");
    assert!(session.prepare_for_shutdown().is_none());
    let rule = "type='signal'";
    reply(&mut session, &call("AddMatch", "s", &["type='error'"]), &mut login1());
    assert!(session.prepare_for_shutdown().is_none());
    reply(&mut session, &call("AddMatch", "s", &[rule]), &mut login1());
    assert!(session.prepare_for_shutdown().is_some());
    reply(&mut session, &call("RemoveMatch", "s", &[rule]), &mut login1());
    assert!(session.prepare_for_shutdown().is_none());
    let remove = call("RemoveMatch", "s", &[rule]);
    assert_eq!(error(&mut session, &remove, &mut login1()), "MatchRuleNotFound");
    let add = call("AddMatch", "s", &["what"]);
    assert_eq!(error(&mut session, &add, &mut login1()), "MatchRuleInvalid");
}

#[test]
fn match_rules_and_locks_are_limited() {
    let mut session = connected(&KUBELET[..end_of_handshake()]);
    let mut login1 = login1();
    let refused = (0..100).map(|_| {
        reply(&mut session, &call("AddMatch", "s", &[""]), &mut login1).kind == Kind::Error
    });
    assert_eq!(refused.filter(|is_refused| *is_refused).count(), 84);
    for _ in 0..MAX_INHIBITORS {
        assert_eq!(reply(&mut session, &inhibit("shutdown", "delay"), &mut login1).descriptors, 1);
    }
    let inhibit = inhibit("shutdown", "delay");
    assert_eq!(error(&mut session, &inhibit, &mut login1), "LimitsExceeded");
}

#[test]
fn a_lock_that_cannot_be_had_is_refused_with_the_reason() {
    let with_descriptors = &KUBELET[..end_of_handshake()];
    let mut session = connected(with_descriptors);
    for (what, mode) in [("sleep", "delay"), ("shutdown", "block"), ("shutdown:sleep", "delay")] {
        let refused = error(&mut session, &inhibit(what, mode), &mut login1());
        assert_eq!(refused, "NotSupported", "{what} {mode}");
    }
    let mut begun = Login1 { is_shutting_down: true, ..login1() };
    let lock = inhibit("shutdown", "delay");
    let refused = error(&mut session, &lock, &mut begun);
    assert_eq!(refused, "org.freedesktop.login1.OperationInProgress");
    let mut without = connected(b"\0AUTH EXTERNAL 30\r\nBEGIN\r\n");
    assert_eq!(error(&mut without, &lock, &mut login1()), "NotSupported");
}

#[test]
fn everything_else_gets_an_error() {
    let mut session = connected(b"\0AUTH EXTERNAL 30\r\nBEGIN\r\n");
    let some = |text: &str| Some(text.to_owned());
    let properties = || some("org.freedesktop.DBus.Properties");
    for (call, expected) in [
        (call("ListNames", "", &[]), "UnknownMethod"),
        (Message { interface: some("a.b"), ..call("Hello", "", &[]) }, "UnknownInterface"),
        (call("AddMatch", "ss", &["", ""]), "InvalidArgs"),
        (call("AddMatch", "s", &[]), "InvalidArgs"),
        (Message { destination: some("a.b"), ..call("C", "", &[]) }, "ServiceUnknown"),
        (Message { path: some("/"), ..to_logind("Get", "", &[]) }, "UnknownObject"),
        (Message { interface: some("a.b"), ..to_logind("Get", "", &[]) }, "UnknownInterface"),
        (Message { interface: some(MANAGER), ..to_logind("Get", "", &[]) }, "UnknownMethod"),
        (Message { interface: properties(), ..to_logind("GetAll", "s", &[""]) }, "UnknownMethod"),
        (to_logind("PowerOff", "", &[]), "UnknownMethod"),
        (to_logind("Get", "ss", &[MANAGER, "IdleHint"]), "UnknownProperty"),
        (to_logind("Get", "s", &[MANAGER]), "InvalidArgs"),
    ] {
        assert_eq!(error(&mut session, &call, &mut login1()), expected, "{call:?}");
    }
}

#[test]
fn messages_that_are_no_calls_or_expect_no_reply_get_none() {
    let mut session = connected(b"\0AUTH EXTERNAL 30\r\nBEGIN\r\n");
    let interface = Some("a.b".to_owned());
    for message in [
        Message { kind: Kind::Signal, interface, ..call("C", "", &[]) },
        Message { kind: Kind::Return, reply_serial: Some(1), ..call("C", "", &[]) },
        Message { kind: Kind::Other(77), ..call("C", "", &[]) },
        Message { expects_no_reply: true, ..call("C", "", &[]) },
    ] {
        let received = session.receive(&message.encode(), &mut login1());
        assert_eq!((received.outputs, received.malformed), (vec![], None), "{message:?}");
    }
}

#[test]
fn replies_before_malformed_bytes_are_sent() {
    let mut session = connected(b"\0AUTH EXTERNAL 30\r\nBEGIN\r\n");
    let bytes = [call("C", "", &[]).encode(), b"garbage, and more".to_vec()].concat();
    let received = session.receive(&bytes, &mut login1());
    assert_eq!((received.outputs.len(), received.malformed.is_some()), (1, true));
    let mut session = connected(b"\0AUTH EXTERNAL 30\r\nBEGIN\r\n");
    let long = Message { body: vec![0; MAX_MESSAGE], ..call("C", "", &[]) };
    assert!(session.receive(&long.encode()[..16], &mut login1()).malformed.is_some());
}

fn end_of_handshake() -> usize {
    let begin = KUBELET.windows(BEGIN.len()).position(|bytes| bytes == BEGIN);
    begin.unwrap() + BEGIN.len()
}
