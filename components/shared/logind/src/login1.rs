//! logind itself: the object `/org/freedesktop/login1` with what the kubelet calls of
//! `org.freedesktop.login1.Manager`.

use std::time::Duration;

use crate::error_reply::ErrorReply;
use crate::message::Message;
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{MANAGER, MANAGER_PATH};

/// The maximum number of inhibitor locks at a time. The kubelet takes one, and a new one before it
/// closes the old one.
pub const MAX_INHIBITORS: usize = 16;

/// The maximum length in characters of the name that a client gives itself.
const MAX_WHO: usize = 64;

const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const DELAY_MAX: &str = "InhibitDelayMaxUSec";

/// The state of logind, on which its replies to calls depend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Login1 {
    /// How long inhibitors may delay a shutdown.
    pub delay: Duration,
    /// Whether the shutdown has begun.
    pub is_shutting_down: bool,
    /// How many inhibitor locks are held.
    pub inhibitors: usize,
}

/// The reply to a call that has succeeded.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Values of these types.
    Values(&'static str, Vec<u8>),
    /// An inhibitor lock for a client of this name: a descriptor.
    Inhibitor(String),
}

impl Login1 {
    /// Answers a call to logind.
    pub fn call(&mut self, call: &Message, passes_descriptors: bool) -> Result<Answer, ErrorReply> {
        let member = call.member.as_deref().unwrap_or_default();
        if call.path.as_deref() != Some(MANAGER_PATH) {
            let text = format!("the only object is `{MANAGER_PATH}`");
            return Err(ErrorReply::new(ErrorReply::NO_OBJECT, text));
        }
        match (call.interface.as_deref(), member) {
            (Some(MANAGER) | None, "Inhibit") => self.inhibit(call, passes_descriptors),
            (Some(PROPERTIES) | None, "Get") => self.property(call),
            (Some(MANAGER | PROPERTIES) | None, _) => {
                let text = format!("`{member}` is not a method of this node's logind");
                Err(ErrorReply::new(ErrorReply::NO_METHOD, text))
            }
            (Some(other), _) => {
                let text = format!("`{other}` is not an interface of this node's logind");
                Err(ErrorReply::new(ErrorReply::NO_INTERFACE, text))
            }
        }
    }

    fn property(&self, call: &Message) -> Result<Answer, ErrorReply> {
        let [interface, name] = texts(call)?;
        if interface != MANAGER || name != DELAY_MAX {
            let text = format!("`{interface}.{name}` is not a property of this node's logind");
            return Err(ErrorReply::new(ErrorReply::NO_PROPERTY, text));
        }
        let mut value = Writer::new(call.order);
        value.signature("t");
        value.uint64(self.delay.as_micros().try_into().unwrap_or(u64::MAX));
        Ok(Answer::Values("v", value.into_bytes()))
    }

    fn inhibit(&mut self, call: &Message, passes_descriptors: bool) -> Result<Answer, ErrorReply> {
        let [what, who, _, mode] = texts(call)?;
        if (what, mode) != ("shutdown", "delay") {
            let text =
                format!("only `shutdown` can be inhibited, by `delay`, not `{what}` by `{mode}`");
            return Err(ErrorReply::new(ErrorReply::NOT_SUPPORTED, text));
        }
        if !passes_descriptors {
            let text = "the client has not negotiated descriptors";
            return Err(ErrorReply::new(ErrorReply::NOT_SUPPORTED, text));
        }
        if self.is_shutting_down {
            let text = "the shutdown has begun";
            return Err(ErrorReply::new(ErrorReply::IN_PROGRESS, text));
        }
        if self.inhibitors >= MAX_INHIBITORS {
            let text = format!("{MAX_INHIBITORS} inhibitor locks are held");
            return Err(ErrorReply::new(ErrorReply::LIMITS_EXCEEDED, text));
        }
        self.inhibitors += 1;
        let printable = |one: char| if one.is_control() { '?' } else { one };
        Ok(Answer::Inhibitor(who.chars().take(MAX_WHO).map(printable).collect()))
    }
}

/// The arguments of a call, which are all strings.
pub fn texts<const COUNT: usize>(call: &Message) -> Result<[&str; COUNT], ErrorReply> {
    let expected = "s".repeat(COUNT);
    let read = || {
        let mut reader = Reader::new(&call.body, call.order);
        let mut texts = [""; COUNT];
        for text in &mut texts {
            *text = reader.text().ok()?;
        }
        reader.is_at_end().then_some(texts)
    };
    let texts = (call.signature == expected).then(read).flatten();
    texts.ok_or_else(|| ErrorReply::arguments(&expected))
}
