//! The options that the routers of one link have advertised, and when to solicit them (RFC 4861,
//! 6.3.7; RFC 7559; RFC 8106, 6). It uses neither clock nor socket: the time is an argument. The
//! kernel handles addresses and routes; this handles the rest.

use std::net::Ipv6Addr;
use std::time::Duration;

use crate::router::Advert;

/// The delay between carrier and the first solicitation, in which the link-local address is usually
/// confirmed.
const FIRST_QUESTION: Duration = Duration::from_secs(1);
/// The first wait for an answer (RFC 7559, `IRT`). Each further wait is twice as long, up to
/// `MAX_WAIT` (`MRT`).
const FIRST_WAIT: Duration = Duration::from_secs(4);
const MAX_WAIT: Duration = Duration::from_secs(3600);
/// The maximum number of name servers and of domains that are kept per link. A host on the link
/// may advertise any number.
const MAX_ENTRIES: usize = 8;

/// The options that a link's routers have advertised.
#[derive(Debug, Default)]
pub struct Advertised {
    servers: Vec<Entry<Ipv6Addr>>,
    domains: Vec<Entry<String>>,
    /// When the next solicitation is due.
    ask_at: Option<Duration>,
    /// The wait after it.
    wait: Duration,
}

#[derive(Debug)]
struct Entry<T> {
    value: T,
    /// When it must no longer be used, if ever.
    until: Option<Duration>,
}

impl Advertised {
    /// The link has a carrier: its routers are solicited after a second. They may differ from the
    /// routers before, but earlier options stay valid until they expire.
    pub fn carrier_up(&mut self, now: Duration) {
        (self.ask_at, self.wait) = (Some(now + FIRST_QUESTION), FIRST_WAIT);
    }

    /// The link has lost its carrier.
    pub fn carrier_lost(&mut self) {
        self.ask_at = None;
    }

    /// A router has answered, possibly to the kernel: no further solicitation is needed.
    pub fn answered(&mut self) {
        self.ask_at = None;
    }

    /// Adds the options of an advertisement.
    pub fn update(&mut self, adverts: Vec<Advert>, now: Duration) {
        for advert in adverts {
            match advert {
                Advert::NameServers(servers, lifetime) => {
                    remember(&mut self.servers, servers, lifetime, now)
                }
                Advert::Search(domains, lifetime) => {
                    remember(&mut self.domains, domains, lifetime, now)
                }
            }
        }
    }

    /// Removes expired options, and returns whether a solicitation is due.
    pub fn tick(&mut self, now: Duration) -> bool {
        let holds = |until: Option<Duration>| until.is_none_or(|until| until > now);
        self.servers.retain(|entry| holds(entry.until));
        self.domains.retain(|entry| holds(entry.until));
        if self.ask_at.is_none_or(|at| at > now) {
            return false;
        }
        (self.ask_at, self.wait) = (Some(now + self.wait), MAX_WAIT.min(self.wait * 2));
        true
    }

    /// When [`Advertised::tick`] is due, if ever.
    pub fn deadline(&self) -> Option<Duration> {
        let expiries = self
            .servers
            .iter()
            .map(|entry| entry.until)
            .chain(self.domains.iter().map(|entry| entry.until));
        expiries.flatten().chain(self.ask_at).min()
    }

    /// The name servers in the order in which they were advertised.
    pub fn name_servers(&self) -> impl Iterator<Item = &Ipv6Addr> + Clone {
        self.servers.iter().map(|entry| &entry.value)
    }

    /// The search domains, in the same order.
    pub fn search(&self) -> impl Iterator<Item = &String> + Clone {
        self.domains.iter().map(|entry| &entry.value)
    }
}

/// Adds values, or updates the lifetimes of known ones. A lifetime of zero removes them.
fn remember<T: PartialEq>(
    entries: &mut Vec<Entry<T>>,
    values: Vec<T>,
    lifetime: Option<Duration>,
    now: Duration,
) {
    let until = lifetime.map(|lifetime| now + lifetime);
    for value in values {
        if lifetime == Some(Duration::ZERO) {
            entries.retain(|entry| entry.value != value);
        } else if let Some(entry) = entries.iter_mut().find(|entry| entry.value == value) {
            entry.until = until;
        } else if entries.len() < MAX_ENTRIES {
            entries.push(Entry { value, until });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    fn server(number: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number)
    }

    fn servers(numbers: &[u16], lifetime: Option<u64>) -> Vec<Advert> {
        vec![Advert::NameServers(
            numbers.iter().map(|number| server(*number)).collect(),
            lifetime.map(seconds),
        )]
    }

    fn known(advertised: &Advertised) -> Vec<Ipv6Addr> {
        advertised.name_servers().copied().collect()
    }

    #[test]
    fn solicitations_become_rarer_until_a_router_answers() {
        let mut advertised = Advertised::default();
        advertised.carrier_up(seconds(100));
        let mut asked = Vec::new();
        for _ in 0..13 {
            let now = advertised.deadline().unwrap();
            assert!(advertised.tick(now) && !advertised.tick(now));
            asked.push(now.as_secs());
        }
        let waits: Vec<u64> = asked.windows(2).map(|two| two[1] - two[0]).collect();
        assert_eq!(
            (asked[0], waits),
            (101, vec![4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600])
        );
        advertised.answered();
        assert_eq!(advertised.deadline(), None);
    }

    #[test]
    fn a_link_without_carrier_is_not_solicited() {
        let mut advertised = Advertised::default();
        advertised.carrier_up(seconds(0));
        advertised.carrier_lost();
        assert!(!advertised.tick(seconds(9)));
    }

    #[test]
    fn expired_options_go_and_repeated_ones_stay() {
        let mut advertised = Advertised::default();
        advertised.update(servers(&[1, 2], Some(60)), seconds(0));
        advertised.update(servers(&[2], Some(60)), seconds(50));
        assert_eq!(advertised.deadline(), Some(seconds(60)));
        advertised.tick(seconds(60));
        assert_eq!(known(&advertised), [server(2)]);
        advertised.update(servers(&[2], None), seconds(70));
        assert_eq!(advertised.deadline(), None, "it never expires");
    }

    #[test]
    fn a_lifetime_of_zero_withdraws_at_once() {
        let mut advertised = Advertised::default();
        advertised.update(servers(&[1, 2], Some(60)), seconds(0));
        advertised.update(servers(&[1, 3], Some(0)), seconds(1));
        assert_eq!(known(&advertised), [server(2)]);
    }

    #[test]
    fn a_router_cannot_exhaust_memory() {
        let mut advertised = Advertised::default();
        for number in 0..1000 {
            advertised.update(servers(&[number], None), seconds(0));
            let domain = format!("{number}.example");
            advertised.update(vec![Advert::Search(vec![domain], None)], seconds(0));
        }
        assert_eq!(
            (known(&advertised).len(), advertised.search().count()),
            (MAX_ENTRIES, MAX_ENTRIES)
        );
        assert_eq!(known(&advertised)[0], server(0), "the first ones stay");
    }
}
