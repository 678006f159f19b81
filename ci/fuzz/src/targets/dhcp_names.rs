//! Names from DHCP servers, which become the host name and entries of resolv.conf.

use osbuild_protocol::{Request, Socket};
use pod_dhcp::names;

use crate::target::{Memory, Outcome, Target};

/// See the module. A search list can repeat a domain with two bytes each time.
pub const TARGET: Target =
    Target { name: "dhcp_names", seeds, run, memory: Memory::per_byte(1024) };

fn run(input: &[u8]) -> Outcome {
    if let Some(name) = names::host_name(input) {
        assert_eq!(names::host_name(name.as_bytes()).as_ref(), Some(&name));
        is_accepted(Request::HostName(name));
    }
    let list = names::search_list(input);
    for name in list.iter().flatten().chain(&names::domain(input)) {
        assert_eq!(names::domain(name.as_bytes()).as_ref(), Some(name));
        is_accepted(Request::Resolver { servers: vec![], search: vec![name.clone()] });
    }
    if list.is_some() { Outcome::Accepted } else { Outcome::Refused }
}

fn is_accepted(request: Request) {
    let line = request.to_string();
    assert!(Request::decode(Socket::Net, &line).is_ok(), "`init` refuses `{line}`");
}

fn seeds() -> Vec<Vec<u8>> {
    vec![
        b"\x03eng\x05apple\x03com\0\x09marketing\xc0\x04".to_vec(),
        b"\x01a\0\xc0\0\xc0\0\xc0\x03".to_vec(),
        b"Node-1.example.org.\0".to_vec(),
        b"a_b.example".to_vec(),
        [b"a.".repeat(31), b"b".to_vec()].concat(),
    ]
}
