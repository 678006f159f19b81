//! Router advertisements, which any host on the link can send, up to the requests to `init`.

use std::time::Duration;

use pod_dhcp::advertised::Advertised;
use pod_dhcp::router;
use pod_dhcp::settings::Facts;

use super::dhcp_message::init_accepts;
use crate::target::{Memory, Outcome, Target};

/// See the module. An input is the options of an advertisement as the kernel passes them on, each
/// at least eight bytes long. A search list can repeat a domain with two bytes each time.
pub const TARGET: Target =
    Target { name: "dhcp_router", seeds, run, memory: Memory::per_byte(1024) };

/// The index of the link.
const INDEX: u32 = 7;

fn run(input: &[u8]) -> Outcome {
    let _ = router::read(input);
    let Some((index, adverts)) = router::read(&message(input)) else { return Outcome::Refused };
    assert_eq!(index, INDEX);
    let outcome = if adverts.is_empty() { Outcome::Refused } else { Outcome::Accepted };
    let mut advertised = Advertised::default();
    advertised.update(adverts, Duration::ZERO);
    let facts = Facts {
        link: "eth0",
        terms: None,
        terms6: None,
        left: None,
        addresses4: &[],
        addresses6: &[],
        name_servers6: advertised.name_servers().collect(),
        search6: advertised.search().collect(),
    };
    init_accepts(facts);
    for _ in 0..20 {
        let Some(deadline) = advertised.deadline() else { return outcome };
        advertised.tick(deadline);
        assert!(
            advertised.deadline() > Some(deadline) || advertised.deadline().is_none(),
            "{advertised:?}"
        );
    }
    panic!("the entries do not expire: {advertised:?}");
}

/// The kernel's message about an advertisement with these options.
fn message(options: &[u8]) -> Vec<u8> {
    const INET6: u8 = 10;
    let options = &options[..options.len().min(usize::from(u16::MAX))];
    let length = (options.len() as u16).to_ne_bytes();
    [&[INET6, 0][..], &length, &INDEX.to_ne_bytes(), &[134, 0, 0, 0, 0, 0, 0, 0], options].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let server = [0xfe, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3];
    let servers = [&[25, 3, 0, 0, 0, 0, 2, 88][..], &server].concat();
    let search = b"\x1f\x03\0\0\0\0\0\x3c\x03eng\x07example\0\0\0\0";
    vec![servers.clone(), search.to_vec(), [&servers, &search[..]].concat(), [0; 8].to_vec()]
}
