//! The input that a client of the system bus sends to `init`: the handshake, then calls.

use std::time::Duration;

use osbuild_logind::{Login1, MAX_INHIBITORS, MAX_MESSAGE, Malformed, Message, Output, Session};

use crate::target::{Memory, Outcome, Target};

/// See the module. The first byte of an input is the size of the pieces in which the rest arrives.
pub const TARGET: Target = Target { name: "logind", seeds, run, memory: Memory::per_byte(128) };

/// The bytes that a kubelet has sent, from a recording.
const KUBELET: &[u8] =
    include_bytes!("../../../../components/shared/logind/tests/kubelet-1.35.8.bin");
const HANDSHAKE: &[u8] = b"\0AUTH EXTERNAL 30\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n";

fn run(input: &[u8]) -> Outcome {
    let Some((size, bytes)) = input.split_first() else { return Outcome::Refused };
    if let Ok(message) = Message::decode(bytes) {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
    let whole = serve(bytes, bytes.len().max(1));
    let pieces = serve(bytes, usize::from(*size).max(1));
    assert_eq!(pieces, whole, "the pieces change the replies");
    let Served { outputs, malformed, has_name } = whole;
    for output in outputs {
        let (Output::Bytes(bytes) | Output::Inhibitor { bytes, .. }) = output;
        let is_line = bytes.ends_with(b"\r\n") && bytes.is_ascii();
        assert!(is_line || Message::decode(&bytes).is_ok(), "{bytes:?}");
    }
    if malformed.is_none() && has_name { Outcome::Accepted } else { Outcome::Refused }
}

#[derive(Debug, PartialEq)]
struct Served {
    outputs: Vec<Output>,
    malformed: Option<Malformed>,
    has_name: bool,
}

/// Serves a client whose bytes arrive in pieces of this size.
fn serve(bytes: &[u8], size: usize) -> Served {
    let mut session = Session::new(0, 1, [7; 16]);
    let mut login1 = Login1 { delay: Duration::from_secs(70), ..Login1::default() };
    let (mut outputs, mut malformed) = (Vec::new(), None);
    for piece in bytes.chunks(size) {
        let received = session.receive(piece, &mut login1);
        outputs.extend(received.outputs);
        malformed = received.malformed;
        if malformed.is_some() {
            break;
        }
    }
    let locks = outputs.iter().filter(|output| matches!(output, Output::Inhibitor { .. })).count();
    assert!(locks == login1.inhibitors && locks <= MAX_INHIBITORS);
    outputs.extend(session.prepare_for_shutdown().map(Output::Bytes));
    Served { outputs, malformed, has_name: session.has_name() }
}

fn seeds() -> Vec<Vec<u8>> {
    let call = |member: &str, signature: &str, body: &[u8]| {
        Message {
            serial: 1,
            path: Some("/org/freedesktop/login1".to_owned()),
            member: Some(member.to_owned()),
            signature: signature.to_owned(),
            body: body.to_vec(),
            ..Message::default()
        }
        .encode()
    };
    let hello = call("Hello", "", b"");
    let rule = call("AddMatch", "s", b"\x0d\0\0\0type='signal'\0");
    let long = call("AddMatch", "s", &[0; MAX_MESSAGE]);
    // A header field of later versions: `DESTINATION` with another code, of variants.
    let mut unknown = call("Hello", "", b"");
    unknown.extend([0; 16]);
    unknown[12] = (unknown.len() - 16) as u8;
    let at = unknown.len() - 16;
    unknown[at..at + 12].copy_from_slice(b"\x4d\x01v\0\x04a(s)\0\0\0");
    [
        [b"\x40", KUBELET].concat(),
        [b"\x01", HANDSHAKE, &hello, &rule].concat(),
        [b"\x07", HANDSHAKE, &hello, &long].concat(),
        [b"\xff", HANDSHAKE, &unknown].concat(),
        b"\x02\0AUTH\r\nAUTH EXTERNAL\r\nDATA\r\nCANCEL\r\nERROR\r\nAUTH EXTERNAL 31\r\n".to_vec(),
    ]
    .into()
}
