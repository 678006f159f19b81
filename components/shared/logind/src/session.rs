//! The connection of one client: its handshake, then its calls.

use crate::error_reply::ErrorReply;
use crate::handshake::{Guid, Handshake, Next};
use crate::login1::{Answer, Login1, texts};
use crate::match_rule::MatchRule;
use crate::message::{Kind, Message};
use crate::reader::Malformed;
use crate::writer::Writer;
use crate::{BUS, LOGIND, LOGIND_UNIQUE, MANAGER, MANAGER_PATH, PREPARE_FOR_SHUTDOWN};

/// The maximum number of match rules of a client.
const MAX_RULES: usize = 16;

/// A client. It has no name before its call `Hello`.
#[derive(Debug)]
pub struct Session {
    /// The handshake, also after it has ended: it knows what was agreed.
    handshake: Handshake,
    has_begun: bool,
    /// Bytes that are not a whole line or message yet.
    input: Vec<u8>,
    name: String,
    has_name: bool,
    rules: Vec<MatchRule>,
    /// The serial of the last message to the client.
    serial: u32,
}

/// Something for the client.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// Bytes.
    Bytes(Vec<u8>),
    /// Bytes with a descriptor: the client holds an inhibitor lock until it closes that.
    Inhibitor {
        /// The bytes.
        bytes: Vec<u8>,
        /// The client's name, in printable characters.
        who: String,
    },
}

/// The result of handling received bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The output to the client, in the order in which it is sent.
    pub outputs: Vec<Output>,
    /// Why the connection has to be closed afterwards, if it does.
    pub malformed: Option<Malformed>,
}

impl Session {
    /// A client that has just connected. The kernel says that it belongs to this user; no other
    /// client of this bus has this number, which is not zero.
    pub fn new(uid: u32, number: u64, guid: Guid) -> Self {
        Session {
            handshake: Handshake::new(uid, guid),
            has_begun: false,
            input: Vec::new(),
            name: format!(":1.{number}"),
            has_name: false,
            rules: Vec::new(),
            serial: 0,
        }
    }

    /// Whether the client has introduced itself.
    pub fn has_name(&self) -> bool {
        self.has_name
    }

    /// Handles bytes from the client. After [`Received::malformed`] it must not be called again.
    pub fn receive(&mut self, bytes: &[u8], login1: &mut Login1) -> Received {
        self.input.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut self.input);
        let mut received = Received::default();
        let mut used = 0;
        loop {
            match self.next(&input[used..], login1) {
                Ok(None) => break,
                Ok(Some((length, output))) => {
                    used += length;
                    received.outputs.extend(output);
                }
                Err(malformed) => {
                    received.malformed = Some(malformed);
                    break;
                }
            }
        }
        input.drain(..used);
        self.input = input;
        received
    }

    /// The signal that a shutdown begins, if the client wants it.
    pub fn prepare_for_shutdown(&mut self) -> Option<Vec<u8>> {
        if !self.has_name || !self.rules.iter().any(|rule| rule.selects) {
            return None;
        }
        let mut body = Writer::default();
        body.boolean(true);
        let signal = Message {
            kind: Kind::Signal,
            path: Some(MANAGER_PATH.to_owned()),
            interface: Some(MANAGER.to_owned()),
            member: Some(PREPARE_FOR_SHUTDOWN.to_owned()),
            sender: Some(LOGIND_UNIQUE.to_owned()),
            signature: "b".to_owned(),
            body: body.into_bytes(),
            ..self.outgoing()
        };
        Some(signal.encode())
    }

    /// Handles the line or message at the front of these bytes. Returns how many bytes it has, and
    /// what the client gets; or `None` if it is not whole.
    fn next(
        &mut self,
        bytes: &[u8],
        login1: &mut Login1,
    ) -> Result<Option<(usize, Option<Output>)>, Malformed> {
        if !self.has_begun {
            return Ok(match self.handshake.next(bytes)? {
                Next::Wait => None,
                Next::Skip(used) => Some((used, None)),
                Next::Reply(used, line) => Some((used, Some(Output::Bytes(line.into_bytes())))),
                Next::Begin(used) => {
                    self.has_begun = true;
                    Some((used, None))
                }
            });
        }
        let Some(length) = Message::length(bytes)? else { return Ok(None) };
        let Some(bytes) = bytes.get(..length) else { return Ok(None) };
        let message = Message::decode(bytes)?;
        // This bus calls no client, so nothing else is an answer; and nobody wants its signals.
        if message.kind != Kind::Call {
            return Ok(Some((length, None)));
        }
        let answer = self.call(&message, login1);
        Ok(Some((length, self.reply(&message, answer))))
    }

    fn call(&mut self, call: &Message, login1: &mut Login1) -> Result<Answer, ErrorReply> {
        let destination = call.destination.as_deref().unwrap_or(BUS);
        let member = call.member.as_deref().unwrap_or_default();
        if !self.has_name && (destination, member) != (BUS, "Hello") {
            let text = "the first call must be `Hello`";
            return Err(ErrorReply::new(ErrorReply::ACCESS_DENIED, text));
        }
        match destination {
            BUS => self.call_bus(call),
            LOGIND | LOGIND_UNIQUE => login1.call(call, self.handshake.passes_descriptors()),
            other => {
                let text = format!("nothing on this bus has the name `{other}`");
                Err(ErrorReply::new(ErrorReply::NO_SERVICE, text))
            }
        }
    }

    /// Answers a call to the bus.
    fn call_bus(&mut self, call: &Message) -> Result<Answer, ErrorReply> {
        if let Some(other) = call.interface.as_deref().filter(|interface| *interface != BUS) {
            let text = format!("`{other}` is not an interface of this bus");
            return Err(ErrorReply::new(ErrorReply::NO_INTERFACE, text));
        }
        match call.member.as_deref().unwrap_or_default() {
            "Hello" if self.has_name => {
                let text = "this client has called `Hello` before";
                return Err(ErrorReply::new(ErrorReply::FAILED, text));
            }
            "Hello" => {
                let [] = texts(call)?;
                self.has_name = true;
                let mut name = Writer::new(call.order);
                name.text(&self.name);
                return Ok(Answer::Values("s", name.into_bytes()));
            }
            "AddMatch" => self.add_rule(call)?,
            "RemoveMatch" => {
                let [text] = texts(call)?;
                let at = self.rules.iter().position(|rule| rule.text == text);
                self.rules.remove(at.ok_or_else(|| {
                    ErrorReply::new(ErrorReply::NO_MATCH_RULE, "this client has no such rule")
                })?);
            }
            other => {
                let text = format!("`{other}` is not a method of this bus");
                return Err(ErrorReply::new(ErrorReply::NO_METHOD, text));
            }
        }
        Ok(Answer::Values("", Vec::new()))
    }

    fn add_rule(&mut self, call: &Message) -> Result<(), ErrorReply> {
        let [text] = texts(call)?;
        if self.rules.len() >= MAX_RULES {
            let text = format!("this client has {MAX_RULES} match rules");
            return Err(ErrorReply::new(ErrorReply::LIMITS_EXCEEDED, text));
        }
        let rule = MatchRule::parse(text).ok_or_else(|| {
            ErrorReply::new(ErrorReply::INVALID_MATCH_RULE, "the match rule is invalid")
        })?;
        self.rules.push(rule);
        Ok(())
    }

    /// The reply to a call. An inhibitor lock is a reply even to a client that expects none: it
    /// needs the descriptor.
    fn reply(&mut self, call: &Message, answer: Result<Answer, ErrorReply>) -> Option<Output> {
        let is_of_bus = call.destination.as_deref().unwrap_or(BUS) == BUS;
        let sender = if is_of_bus { BUS } else { LOGIND_UNIQUE };
        let reply = Message {
            order: call.order,
            kind: Kind::Return,
            reply_serial: Some(call.serial),
            sender: Some(sender.to_owned()),
            ..self.outgoing()
        };
        let reply = match answer {
            Ok(Answer::Inhibitor(who)) => {
                let mut body = Writer::new(call.order);
                body.uint32(0);
                let reply = Message {
                    signature: "h".to_owned(),
                    descriptors: 1,
                    body: body.into_bytes(),
                    ..reply
                };
                return Some(Output::Inhibitor { bytes: reply.encode(), who });
            }
            Ok(Answer::Values(signature, body)) => {
                Message { signature: signature.to_owned(), body, ..reply }
            }
            Err(ErrorReply { name, text }) => {
                let mut body = Writer::new(call.order);
                body.text(&text);
                Message {
                    kind: Kind::Error,
                    error_name: Some(name.to_owned()),
                    signature: "s".to_owned(),
                    body: body.into_bytes(),
                    ..reply
                }
            }
        };
        (!call.expects_no_reply).then(|| Output::Bytes(reply.encode()))
    }

    /// A message for the client, with its next serial.
    fn outgoing(&mut self) -> Message {
        self.serial = self.serial.checked_add(1).unwrap_or(1);
        Message {
            expects_no_reply: true,
            serial: self.serial,
            destination: self.has_name.then(|| self.name.clone()),
            ..Message::default()
        }
    }
}
