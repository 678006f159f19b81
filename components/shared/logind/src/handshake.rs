//! The server's side of the handshake ("Authentication Protocol" in the D-Bus specification): the
//! mechanism `EXTERNAL`, for which the kernel knows the client's user.

use crate::reader::Malformed;

/// The identifier of a bus, the same for all its clients.
pub type Guid = [u8; 16];

/// The maximum length of a line, and the maximum number of lines. A client sends at most 5 lines of
/// fewer than 40 bytes.
const MAX_LINE: usize = 256;
const MAX_LINES: usize = 16;

const TOO_LONG: Malformed = Malformed("the handshake is too long");

const REJECTED: &str = "REJECTED EXTERNAL";
const ERROR: &str = "ERROR";

/// The input that the server waits for: the NUL at the start, or a command of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Nul,
    Auth,
    Data,
    Begin,
}

/// The handshake with one client.
#[derive(Debug)]
pub struct Handshake {
    waits: Waits,
    uid: u32,
    guid: Guid,
    lines: usize,
    passes_descriptors: bool,
}

/// The result of handling the next bytes of a client.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// There is no whole line.
    Wait,
    /// A line for the client; this many of its bytes were used.
    Reply(usize, String),
    /// This many bytes were used without a reply.
    Skip(usize),
    /// Messages begin behind this many bytes.
    Begin(usize),
}

impl Handshake {
    /// The handshake with a client of this user.
    pub fn new(uid: u32, guid: Guid) -> Self {
        Handshake { waits: Waits::Nul, uid, guid, lines: 0, passes_descriptors: false }
    }

    /// Whether the client takes descriptors.
    pub fn passes_descriptors(&self) -> bool {
        self.passes_descriptors
    }

    /// Handles the line at the front of these bytes.
    pub fn next(&mut self, bytes: &[u8]) -> Result<Next, Malformed> {
        if self.waits == Waits::Nul {
            return match bytes.first() {
                None => Ok(Next::Wait),
                Some(0) => {
                    self.waits = Waits::Auth;
                    Ok(Next::Skip(1))
                }
                Some(_) => Err(Malformed("a handshake must begin with NUL")),
            };
        }
        let Some(length) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
            // The last byte may be the first one of the end.
            return if bytes.len() > MAX_LINE + 1 { Err(TOO_LONG) } else { Ok(Next::Wait) };
        };
        self.lines += 1;
        if length > MAX_LINE || self.lines > MAX_LINES {
            return Err(TOO_LONG);
        }
        let line = str::from_utf8(&bytes[..length]).unwrap_or_default();
        let (command, argument) = line.split_once(' ').unwrap_or((line, ""));
        if command == "BEGIN" {
            return match self.waits {
                Waits::Begin => Ok(Next::Begin(length + 2)),
                _ => Err(Malformed("messages begin before the handshake has ended")),
            };
        }
        Ok(Next::Reply(length + 2, self.reply(command, argument) + "\r\n"))
    }

    fn reply(&mut self, command: &str, argument: &str) -> String {
        match (self.waits, command) {
            (Waits::Auth, "AUTH") => match argument.split_once(' ').unwrap_or((argument, "")) {
                ("EXTERNAL", "") => {
                    self.waits = Waits::Data;
                    "DATA".to_owned()
                }
                ("EXTERNAL", identity) => self.authenticate(identity),
                _ => REJECTED.to_owned(),
            },
            (Waits::Data, "DATA") => self.authenticate(argument),
            (Waits::Data | Waits::Begin, "CANCEL" | "ERROR") => self.reject(),
            (Waits::Auth, "ERROR") => REJECTED.to_owned(),
            (Waits::Begin, "NEGOTIATE_UNIX_FD") => {
                self.passes_descriptors = true;
                "AGREE_UNIX_FD".to_owned()
            }
            _ => ERROR.to_owned(),
        }
    }

    /// The client names itself, or leaves that to the kernel.
    fn authenticate(&mut self, identity: &str) -> String {
        if !identity.is_empty() && uid(identity) != Some(self.uid) {
            return self.reject();
        }
        self.waits = Waits::Begin;
        let guid = self.guid.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        format!("OK {guid}")
    }

    fn reject(&mut self) -> String {
        self.waits = Waits::Auth;
        self.passes_descriptors = false;
        REJECTED.to_owned()
    }
}

/// The user in an identity: the digits of its number, each in hexadecimal ASCII.
fn uid(identity: &str) -> Option<u32> {
    let pairs = identity.as_bytes().chunks(2);
    let digits = pairs.map(|pair| match *pair {
        [b'3', digit @ b'0'..=b'9'] => Some(char::from(digit)),
        _ => None,
    });
    digits.collect::<Option<String>>()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &str = "OK 07070707070707070707070707070707\r\n";

    /// The replies to a client of the user 1000.
    fn replies(text: &[u8]) -> Result<Vec<String>, Malformed> {
        let mut handshake = Handshake::new(1000, [7; 16]);
        let (mut rest, mut replies) = (text, Vec::new());
        loop {
            let used = match handshake.next(rest)? {
                Next::Wait => return Ok(replies),
                Next::Skip(used) => used,
                Next::Reply(used, line) => {
                    replies.push(line);
                    used
                }
                Next::Begin(used) => {
                    replies.push(format!("begins, descriptors: {}", handshake.passes_descriptors));
                    used
                }
            };
            rest = &rest[used..];
            if replies.last().is_some_and(|last| last.starts_with("begins")) {
                return Ok(replies);
            }
        }
    }

    #[test]
    fn the_kernel_or_the_client_itself_names_the_user() {
        let begins = "begins, descriptors: false";
        assert_eq!(replies(b"\0AUTH EXTERNAL 31303030\r\nBEGIN\r\n").unwrap(), [OK, begins]);
        assert_eq!(
            replies(b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n").unwrap(),
            ["DATA\r\n", OK, begins]
        );
    }

    #[test]
    fn another_user_or_mechanism_is_rejected_and_may_try_again() {
        let rejected = "REJECTED EXTERNAL\r\n";
        for line in ["AUTH", "AUTH ANONYMOUS", "AUTH EXTERNAL 30", "AUTH EXTERNAL x", "ERROR"] {
            let text = format!("\0{line}\r\nAUTH EXTERNAL 31303030\r\n");
            assert_eq!(replies(text.as_bytes()).unwrap(), [rejected, OK], "{line}");
        }
        let text = b"\0AUTH EXTERNAL\r\nDATA 30\r\nAUTH EXTERNAL\r\nCANCEL\r\n";
        assert_eq!(replies(text).unwrap(), ["DATA\r\n", rejected, "DATA\r\n", rejected]);
    }

    #[test]
    fn descriptors_are_negotiated_after_the_user() {
        let text = b"\0NEGOTIATE_UNIX_FD\r\nAUTH EXTERNAL 31303030\r\nNEGOTIATE_UNIX_FD\r\n\
                     BEGIN\r\n";
        assert_eq!(
            replies(text).unwrap(),
            ["ERROR\r\n", OK, "AGREE_UNIX_FD\r\n", "begins, descriptors: true"]
        );
    }

    #[test]
    fn a_handshake_of_another_form_is_malformed() {
        assert!(replies(b"AUTH\r\n").is_err());
        assert!(replies(b"\0BEGIN\r\n").is_err());
        assert!(replies(&[b"\0", &b"x".repeat(300)[..]].concat()).is_err());
        assert!(replies(&[b"\0", &b"AUTH\r\n".repeat(17)[..]].concat()).is_err());
    }
}
