//! A name server for one name, on the loopback of a node whose recipe asks for it. QEMU's own only
//! forwards to the name server of the test machine, which may have none. It has `init` configure
//! the node to use it, after the other pods have started without a name server.

use osbuild_abi::paths::{NET_SOCKET, RESOLV_CONF};
use osbuild_protocol::{Client, Request};
use std::fs;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::Duration;

/// The file that enables it: `NAME ADDRESS`.
const SETTINGS: &str = "/usr/share/osbuild/probe-names";
/// The address to listen on (RFC 1035, 4.2.1).
const ADDRESS: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 53);
/// How often to check that the node still uses it: `dhcp` configures another one.
const TICK: Duration = Duration::from_secs(1);
/// Bytes of a message's header (RFC 1035, 4.1.1).
const HEADER: usize = 12;
/// Type and class of an IPv4 address.
const A_IN: [u8; 4] = [0, 1, 0, 1];

/// Serves if the root `host` has the settings file; otherwise returns at once.
pub fn serve(host: &Path) -> io::Result<()> {
    let Ok(settings) = fs::read_to_string(host.join(SETTINGS.trim_start_matches('/'))) else {
        return Ok(());
    };
    let (name, address) = settings.trim().split_once(' ').ok_or(io::ErrorKind::InvalidData)?;
    let address: Ipv4Addr = address.parse().map_err(io::Error::other)?;
    let socket = UdpSocket::bind(ADDRESS)?;
    std::thread::scope(|threads| {
        threads.spawn(|| keep_configured(host));
        let mut question = [0; 512];
        loop {
            let Ok((length, client)) = socket.recv_from(&mut question) else { continue };
            if let Some(response) = response(&question[..length], name, address) {
                // A client that gets no response retries.
                let _ = socket.send_to(&response, client);
            }
        }
    })
}

/// Has `init` configure this name server whenever the node has another one, forever.
fn keep_configured(host: &Path) {
    let resolver = host.join(RESOLV_CONF.trim_start_matches('/'));
    let socket = host.join(NET_SOCKET.trim_start_matches('/'));
    let request = Request::Resolver { servers: vec![ADDRESS.0.into()], search: vec![] };
    loop {
        let ours = format!("nameserver {}\n", ADDRESS.0);
        if fs::read_to_string(&resolver).is_ok_and(|text| text != ours) {
            // `init` may not listen yet.
            let _ = Client::connect(&socket, TICK).and_then(|mut init| init.send(&request));
        }
        std::thread::sleep(TICK);
    }
}

/// The response to a message with one question; `None` if it is not one. Only `name` exists, and it
/// has only this address.
fn response(message: &[u8], name: &str, address: Ipv4Addr) -> Option<Vec<u8>> {
    let mut end = HEADER;
    let mut labels = Vec::new();
    loop {
        let length = usize::from(*message.get(end)?);
        end += 1;
        match length {
            0 => break,
            1..=63 => labels
                .push(str::from_utf8(message.get(end..end + length)?).ok()?.to_ascii_lowercase()),
            _ => return None,
        }
        end += length;
    }
    let kind = message.get(end..end + 4)?;
    let is_known = labels.join(".") == name;
    let has_address = is_known && kind == A_IN;
    let mut response = message[..2].to_vec();
    // An authoritative response with recursion, NXDOMAIN for other names; one question, the number
    // of answers.
    response.extend([
        0x85,
        if is_known { 0x80 } else { 0x83 },
        0,
        1,
        0,
        u8::from(has_address),
        0,
        0,
        0,
        0,
    ]);
    response.extend(&message[HEADER..end + 4]);
    if has_address {
        // The question's name, a TTL of a minute, four bytes.
        response.extend([0xc0, HEADER as u8, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        response.extend(address.octets());
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

    fn question(name: &[u8], kind: u8) -> Vec<u8> {
        [&[7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], name, &[0, kind, 0, 1]].concat()
    }

    #[test]
    fn the_name_has_one_address_in_any_case() {
        let found =
            response(&question(b"\x07Updates\x07example\0", 1), "updates.example", TARGET).unwrap();
        assert_eq!(
            (&found[..2], &found[2..12]),
            (&[7, 9][..], &[0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0][..])
        );
        assert!(found.ends_with(&[0, 4, 192, 0, 2, 1]));
        let none = response(&question(b"\x07updates\x07example\0", 28), "updates.example", TARGET)
            .unwrap();
        assert_eq!(none[2..8], [0x85, 0x80, 0, 1, 0, 0]);
    }

    #[test]
    fn another_name_is_unknown_and_nonsense_gets_no_response() {
        let other = response(&question(b"\x05other\0", 1), "updates.example", TARGET).unwrap();
        assert_eq!(other[2..8], [0x85, 0x83, 0, 1, 0, 0]);
        for message in [&b""[..], b"\0\0", &question(b"\xc0\x0c", 1), &question(b"\x3fshort", 1)] {
            assert_eq!(response(message, "updates.example", TARGET), None);
        }
    }
}
