//! One message ("Message Protocol" in the D-Bus specification).

use crate::reader::{Malformed, Order, Reader};
use crate::skip::skip_value;
use crate::writer::Writer;

/// The maximum length of a message in bytes. The specification allows 128 MiB; the kubelet's have
/// less than 400 bytes.
pub const MAX_MESSAGE: usize = 16 << 10;

/// The length of the part of a header that every message has, with the length of its fields.
const FIXED: usize = 16;
/// The version of the protocol.
const VERSION: u8 = 1;
/// The flag `NO_REPLY_EXPECTED`.
const NO_REPLY: u8 = 1;

/// The codes of header fields.
const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;
const DESTINATION: u8 = 6;
const SENDER: u8 = 7;
const SIGNATURE: u8 = 8;
const UNIX_FDS: u8 = 9;

/// The type of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A call of a method.
    #[default]
    Call,
    /// The result of a call.
    Return,
    /// A call has failed.
    Error,
    /// A signal.
    Signal,
    /// A type of later versions, which has to be ignored.
    Other(u8),
}

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The byte order of the message and its body.
    pub order: Order,
    /// The type.
    pub kind: Kind,
    /// Whether its sender expects no reply.
    pub expects_no_reply: bool,
    /// Its number among those of its sender; not zero.
    pub serial: u32,
    /// The object.
    pub path: Option<String>,
    /// The interface of the method or signal.
    pub interface: Option<String>,
    /// The name of the method or signal.
    pub member: Option<String>,
    /// The name of the error.
    pub error_name: Option<String>,
    /// The number of the call that this replies to.
    pub reply_serial: Option<u32>,
    /// The name of the receiver.
    pub destination: Option<String>,
    /// The name of the sender.
    pub sender: Option<String>,
    /// The types of the values in the body.
    pub signature: String,
    /// How many descriptors come with it.
    pub descriptors: u32,
    /// The marshalled values.
    pub body: Vec<u8>,
}

impl Kind {
    fn from_code(code: u8) -> Result<Self, Malformed> {
        Ok(match code {
            0 => return Err(Malformed("a message has no type")),
            1 => Self::Call,
            2 => Self::Return,
            3 => Self::Error,
            4 => Self::Signal,
            code => Self::Other(code),
        })
    }

    fn code(self) -> u8 {
        match self {
            Self::Call => 1,
            Self::Return => 2,
            Self::Error => 3,
            Self::Signal => 4,
            Self::Other(code) => code,
        }
    }
}

impl Message {
    /// The length of the message at the front of these bytes, or `None` if they are too few to
    /// contain it.
    ///
    /// # Errors
    /// No message begins like this, or it is longer than [`MAX_MESSAGE`].
    pub fn length(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let Some(fixed) = bytes.get(..FIXED) else { return Ok(None) };
        let (_, mut reader) = start(fixed)?;
        reader.take(3)?;
        let body = reader.uint32()?;
        reader.uint32()?;
        let fields = reader.uint32()?;
        let header = (FIXED as u64 + u64::from(fields)).next_multiple_of(8);
        match usize::try_from(header + u64::from(body)) {
            Ok(length) if length <= MAX_MESSAGE => Ok(Some(length)),
            _ => Err(Malformed("a message is too long")),
        }
    }

    /// Decodes a message, which is all of the bytes.
    ///
    /// # Errors
    /// They are not a message.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (order, mut reader) = start(bytes)?;
        let (kind, flags) = (Kind::from_code(reader.byte()?)?, reader.byte()?);
        if reader.byte()? != VERSION {
            return Err(Malformed("a message has another version than 1"));
        }
        let body = reader.uint32()? as usize;
        let serial = reader.uint32()?;
        let expects_no_reply = flags & NO_REPLY != 0;
        let mut message = Message { order, kind, expects_no_reply, serial, ..Self::default() };
        let fields = reader.uint32()? as usize;
        let end = reader.at().checked_add(fields).ok_or(Malformed("a header is too long"))?;
        while reader.at() < end {
            reader.align(8)?;
            message.decode_field(&mut reader)?;
        }
        if reader.at() != end {
            return Err(Malformed("a header ends in a field"));
        }
        reader.align(8)?;
        message.body = reader.take(body)?.to_vec();
        if !reader.is_at_end() {
            return Err(Malformed("a message is longer than its header says"));
        }
        message.check()?;
        Ok(message)
    }

    fn decode_field(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let code = reader.byte()?;
        let signature = reader.signature()?;
        let expected = match code {
            0 => return Err(Malformed("a header field has no code")),
            PATH => "o",
            INTERFACE | MEMBER | ERROR_NAME | DESTINATION | SENDER => "s",
            SIGNATURE => "g",
            REPLY_SERIAL | UNIX_FDS => "u",
            _ => return skip_value(reader, signature),
        };
        if signature != expected {
            return Err(Malformed("a header field has another type than it must have"));
        }
        match code {
            REPLY_SERIAL => self.reply_serial = Some(reader.uint32()?),
            UNIX_FDS => self.descriptors = reader.uint32()?,
            SIGNATURE => self.signature = reader.signature()?.to_owned(),
            _ => *self.text_field(code) = Some(reader.text()?.to_owned()),
        }
        Ok(())
    }

    fn text_field(&mut self, code: u8) -> &mut Option<String> {
        match code {
            PATH => &mut self.path,
            INTERFACE => &mut self.interface,
            MEMBER => &mut self.member,
            ERROR_NAME => &mut self.error_name,
            DESTINATION => &mut self.destination,
            _ => &mut self.sender,
        }
    }

    /// Checks that the fields that its kind requires are there.
    fn check(&self) -> Result<(), Malformed> {
        let is_whole = match self.kind {
            Kind::Call => self.path.is_some() && self.member.is_some(),
            Kind::Return => self.reply_serial.is_some(),
            Kind::Error => self.reply_serial.is_some() && self.error_name.is_some(),
            Kind::Signal => {
                self.path.is_some() && self.interface.is_some() && self.member.is_some()
            }
            Kind::Other(_) => true,
        };
        if self.serial == 0 {
            Err(Malformed("a message has the serial 0"))
        } else if !is_whole {
            Err(Malformed("a message lacks a header field"))
        } else {
            Ok(())
        }
    }

    /// The bytes of the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(self.order);
        writer.byte(if self.order == Order::Little { b'l' } else { b'B' });
        writer.byte(self.kind.code());
        writer.byte(if self.expects_no_reply { NO_REPLY } else { 0 });
        writer.byte(VERSION);
        writer.uint32(self.body.len() as u32);
        writer.uint32(self.serial);
        writer.uint32(0);
        let texts = [
            (PATH, "o", &self.path),
            (INTERFACE, "s", &self.interface),
            (MEMBER, "s", &self.member),
            (ERROR_NAME, "s", &self.error_name),
            (DESTINATION, "s", &self.destination),
            (SENDER, "s", &self.sender),
        ];
        for (code, kind, text) in texts {
            if let Some(text) = text {
                field(&mut writer, code, kind);
                writer.text(text);
            }
        }
        let descriptors = (self.descriptors > 0).then_some(self.descriptors);
        for (code, number) in [(REPLY_SERIAL, self.reply_serial), (UNIX_FDS, descriptors)] {
            if let Some(number) = number {
                field(&mut writer, code, "u");
                writer.uint32(number);
            }
        }
        if !self.signature.is_empty() {
            field(&mut writer, SIGNATURE, "g");
            writer.signature(&self.signature);
        }
        writer.replace_uint32(FIXED - 4, (writer.len() - FIXED) as u32);
        writer.align(8);
        writer.raw(&self.body);
        writer.into_bytes()
    }
}

/// Reads the byte order, with which everything else is read.
fn start(bytes: &[u8]) -> Result<(Order, Reader<'_>), Malformed> {
    let order = match bytes.first() {
        Some(b'l') => Order::Little,
        Some(b'B') => Order::Big,
        _ => return Err(Malformed("a message has no byte order")),
    };
    let mut reader = Reader::new(bytes, order);
    reader.byte()?;
    Ok((order, reader))
}

/// Begins a header field whose value has the type `kind`.
fn field(writer: &mut Writer, code: u8, kind: &str) {
    writer.align(8);
    writer.byte(code);
    writer.signature(kind);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn call() -> Message {
        Message {
            serial: 7,
            path: Some("/a".to_owned()),
            interface: Some("b.c".to_owned()),
            member: Some("D".to_owned()),
            destination: Some(":1.3".to_owned()),
            signature: "s".to_owned(),
            body: b"\x01\0\0\0x\0".to_vec(),
            ..Message::default()
        }
    }

    fn text() -> impl Strategy<Value = Option<String>> {
        proptest::option::of("[a-z.]{0,40}")
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            (is_big, code, expects_no_reply, serial) in
                (any::<bool>(), 1..9u8, any::<bool>(), 1..=u32::MAX),
            texts in [text(), text(), text(), text(), text(), text()],
            (reply, descriptors, signature, body) in
                (any::<u32>(), any::<u32>(), "[a-z]{0,255}", any::<Vec<u8>>()),
        ) {
            let [path, interface, member, error_name, destination, sender] = texts;
            let message = Message {
                order: if is_big { Order::Big } else { Order::Little },
                kind: Kind::from_code(code).unwrap(),
                path: path.or(Some("/".to_owned())),
                interface: interface.or(Some("i".to_owned())),
                member: member.or(Some("m".to_owned())),
                error_name: error_name.or(Some("e".to_owned())),
                reply_serial: Some(reply),
                expects_no_reply, serial, destination, sender, signature, descriptors, body,
            };
            let bytes = message.encode();
            prop_assert_eq!(Message::length(&bytes), Ok(Some(bytes.len())));
            prop_assert_eq!(Message::decode(&bytes), Ok(message));
        }
    }

    #[test]
    fn a_header_field_of_later_versions_is_ignored() {
        let mut bytes = call().encode();
        // The field `DESTINATION` becomes one with an unknown code.
        let at = bytes.windows(4).position(|part| part == b"\x06\x01s\0").unwrap();
        bytes[at] = 77;
        assert_eq!(Message::decode(&bytes), Ok(Message { destination: None, ..call() }));
    }

    #[test]
    fn a_message_that_lacks_what_its_kind_requires_is_refused() {
        assert!(Message::decode(&call().encode()).is_ok());
        for change in [
            (|message: &mut Message| message.path = None) as fn(&mut Message),
            |message| message.member = None,
            |message| message.serial = 0,
            |message| message.kind = Kind::Return,
            |message| message.kind = Kind::Error,
            |message| (message.kind, message.interface) = (Kind::Signal, None),
        ] {
            let mut message = call();
            change(&mut message);
            assert!(Message::decode(&message.encode()).is_err(), "{message:?}");
        }
    }

    #[test]
    fn a_message_that_is_too_long_is_refused_by_its_first_bytes() {
        let length = |fields: u32, body: u32| {
            let mut bytes = call().encode();
            bytes[4..8].copy_from_slice(&body.to_le_bytes());
            bytes[12..16].copy_from_slice(&fields.to_le_bytes());
            Message::length(&bytes[..16])
        };
        assert_eq!(length(0, MAX_MESSAGE as u32 - 16), Ok(Some(MAX_MESSAGE)));
        assert!(length(0, MAX_MESSAGE as u32 - 15).is_err());
        assert!(length(u32::MAX, u32::MAX).is_err());
        assert_eq!(Message::length(&call().encode()[..15]), Ok(None));
    }
}
