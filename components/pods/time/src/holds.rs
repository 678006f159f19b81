//! Servers that refuse queries, and for how long (kiss-o'-death, RFC 5905, 7.4). These messages are
//! not signed: a host that sees the query can forge one, so each expires, and each applies to one
//! server only.

use std::collections::BTreeMap;
use std::time::Duration;

/// How long a server that refuses all queries is left alone.
const DENIED: Duration = Duration::from_secs(3600);
/// How long a server that asks for fewer queries is left alone. Each further time is twice as long,
/// up to `MAX_RATE`.
const RATE: Duration = Duration::from_secs(64);
const MAX_RATE: Duration = Duration::from_secs(1024);

/// The servers that are left alone.
#[derive(Debug, Default)]
pub struct Holds {
    servers: BTreeMap<String, Hold>,
}

#[derive(Debug)]
struct Hold {
    until: Duration,
    /// The duration of the next hold if the server asks for fewer queries again.
    next: Duration,
}

impl Holds {
    /// Whether a server is left alone.
    pub fn holds(&self, server: &str, now: Duration) -> bool {
        self.servers.get(server).is_some_and(|hold| hold.until > now)
    }

    /// Records that a server refuses all queries, and returns for how long it is left alone.
    pub fn deny(&mut self, server: &str, now: Duration) -> Duration {
        self.hold(server, now, DENIED, RATE)
    }

    /// Records that a server asks for fewer queries, and returns for how long it is left alone.
    pub fn slow_down(&mut self, server: &str, now: Duration) -> Duration {
        let span = self.servers.get(server).map_or(RATE, |hold| hold.next);
        self.hold(server, now, span, MAX_RATE.min(span * 2))
    }

    /// Records that a server has answered.
    pub fn release(&mut self, server: &str) {
        self.servers.remove(server);
    }

    /// Removes all servers except these.
    pub fn keep_only(&mut self, servers: &[String]) {
        self.servers.retain(|server, _| servers.contains(server));
    }

    fn hold(&mut self, server: &str, now: Duration, span: Duration, next: Duration) -> Duration {
        self.servers.insert(server.to_owned(), Hold { until: now + span, next });
        span
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forged_kiss_expires_and_affects_no_other_server() {
        let mut holds = Holds::default();
        assert_eq!(holds.deny("a", Duration::ZERO), DENIED);
        assert!(
            holds.holds("a", DENIED - Duration::from_secs(1)) && !holds.holds("b", Duration::ZERO)
        );
        assert!(!holds.holds("a", DENIED));
    }

    #[test]
    fn a_server_asked_too_often_is_left_alone_longer_each_time() {
        let mut holds = Holds::default();
        let mut waits: Vec<u64> =
            (0..6).map(|_| holds.slow_down("a", Duration::ZERO).as_secs()).collect();
        assert_eq!(waits, [64, 128, 256, 512, 1024, 1024]);
        holds.release("a");
        waits = vec![holds.slow_down("a", Duration::ZERO).as_secs()];
        assert_eq!(waits, [64]);
    }

    #[test]
    fn a_server_removed_from_the_list_is_forgotten() {
        let mut holds = Holds::default();
        holds.deny("a", Duration::ZERO);
        holds.keep_only(&["b".to_owned()]);
        assert!(!holds.holds("a", Duration::ZERO));
    }
}
