//! Observes the kernel's links, addresses and routes.

use super::netlink::{self, Events};
use super::publisher::Publisher;
use super::rows::Rows;
use super::{REFRESH, address, link, route};
use osbuild_cosi::v1::{AddressStatusSpec, LinkStatusSpec, RouteStatusSpec};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long the kernel may take to carry out the rest of a change after its event: the routes over
/// a link that goes down have none of their own.
const SETTLE: Duration = Duration::from_millis(20);

/// The least time between two observations, and how many times as long as one it is, so that a node
/// with many links and much change spends at most a fifth of a processor on it.
const MIN_PAUSE: Duration = Duration::from_millis(30);
const PAUSE_FACTOR: u32 = 4;

/// The pause after an error.
const ERROR_PAUSE: Duration = Duration::from_secs(1);

/// How often the kernel lists again what was changed meanwhile.
const MAX_ATTEMPTS: usize = 5;

/// The links, addresses and routes at one time.
struct Network {
    links: Rows<LinkStatusSpec>,
    addresses: Rows<AddressStatusSpec>,
    routes: Rows<RouteStatusSpec>,
}

/// Observes until the process ends.
pub fn observe(publisher: &Publisher) {
    loop {
        let Err(error) = observe_until_error(publisher);
        let reason = format!("rtnetlink: {error}");
        publisher.publish::<LinkStatusSpec>(&link::TYPE, Err(reason.clone()));
        publisher.publish::<AddressStatusSpec>(&address::TYPE, Err(reason.clone()));
        publisher.publish::<RouteStatusSpec>(&route::TYPE, Err(reason));
        sleep(ERROR_PAUSE);
    }
}

fn observe_until_error(publisher: &Publisher) -> io::Result<std::convert::Infallible> {
    let events = Events::open(REFRESH)?;
    loop {
        let began = Instant::now();
        events.drop_all();
        let Network { links, addresses, routes } = read()?;
        publisher.publish(&link::TYPE, Ok(links));
        publisher.publish(&address::TYPE, Ok(addresses));
        publisher.publish(&route::TYPE, Ok(routes));
        sleep(MIN_PAUSE.max(began.elapsed() * PAUSE_FACTOR));
        events.wait()?;
        sleep(SETTLE);
    }
}

fn read() -> io::Result<Network> {
    let mut attempts = 1;
    loop {
        match read_once() {
            Err(error) if error.kind() == ErrorKind::Interrupted && attempts < MAX_ATTEMPTS => {
                attempts += 1;
            }
            other => return other,
        }
    }
}

/// Lists everything. What belongs to a link that is not listed is new or gone: an event follows.
fn read_once() -> io::Result<Network> {
    let mut links = BTreeMap::new();
    netlink::dump(link::request(), |answer| {
        links.extend(link::read(answer).map(|link| (link.index(), link)));
    })?;
    let (mut addresses, mut counts) = (Rows::at_most(address::TYPE.max_count), BTreeMap::new());
    netlink::dump(address::request(), |answer| {
        let Some((index, spec)) = address::read(answer) else { return };
        *counts.entry(index).or_default() += 1;
        if let Some(link) = links.get(&index) {
            let (id, spec) = address::row(spec, &link.name);
            addresses.insert(index, id, spec);
        }
    })?;
    let mut routes = Rows::at_most(route::TYPE.max_count);
    netlink::dump(route::request(), |answer| {
        for route in route::read(answer) {
            let link = links.get(&route.link).map(|link| link.name.as_str());
            let Some(link) = link.or((route.link == 0).then_some("")) else { continue };
            // The default routes are the last to be left out.
            let rank = route.prefix_length.into();
            let (id, spec) = route::row(route, link);
            routes.insert(rank, id, spec);
        }
    })?;
    Ok(Network { links: link::rows(links, &counts), addresses, routes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_rtnetlink::{Request, answers};
    use proptest::prelude::*;

    /// Messages of the three kinds with any fixed part, and attributes of any value, of which many
    /// have the length of a number or of an address.
    fn message() -> impl Strategy<Value = Vec<u8>> {
        let kind =
            prop::sample::select(&[libc::RTM_NEWLINK, libc::RTM_NEWADDR, libc::RTM_NEWROUTE][..]);
        let fixed = (prop::sample::select(&[2_u8, 10, 0][..]), any::<[u8; 15]>(), 0..17_usize);
        let value = prop_oneof![
            prop::collection::vec(any::<u8>(), 4),
            prop::collection::vec(any::<u8>(), 16),
            prop::collection::vec(any::<u8>(), 0..40),
        ];
        let attributes = prop::collection::vec((0..32_u16, value), 0..8);
        (kind, fixed, attributes).prop_map(|(kind, (family, rest, length), attributes)| {
            let mut fixed = [[family].as_slice(), &rest].concat();
            fixed[4] = libc::RT_TABLE_MAIN;
            fixed.truncate(length);
            let request = Request::new(kind, 0, &fixed);
            let with = |request: Request, (kind, value): (u16, Vec<u8>)| request.with(kind, &value);
            attributes.into_iter().fold(request, with).finish(1)
        })
    }

    fn read_all(bytes: &[u8]) -> Vec<String> {
        let mut ids = Vec::new();
        for answer in answers(bytes) {
            ids.extend(link::read(&answer).map(|link| link.name));
            ids.extend(address::read(&answer).map(|(_, spec)| address::row(spec, "eth0").0));
            ids.extend(route::read(&answer).into_iter().map(|one| route::row(one, "eth0").0));
        }
        ids
    }

    proptest! {
        #[test]
        fn any_message_is_read_without_a_panic(message in message(), end in any::<usize>()) {
            for id in read_all(&message) {
                prop_assert!(!id.is_empty());
            }
            read_all(&message[..end % (message.len() + 1)]);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            read_all(&bytes);
        }
    }

    #[test]
    fn the_loopback_of_this_machine_is_read() {
        let Network { links, addresses, .. } = read().unwrap();
        let links = links.into_specs();
        assert_eq!((links["lo"].r#type.as_str(), links["lo"].index), ("loopback", 1));
        let of_lo = addresses.into_specs().into_values().filter(|one| one.link == "lo").count();
        assert_eq!(links["lo"].addresses as usize, of_lo);
    }
}
