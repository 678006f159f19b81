//! Which servers do not want to be asked, and until when (kiss-o'-death, RFC 5905, 7.4). Nobody
//! signs such a wish: whoever sees the question can forge one, so none holds for ever, and none
//! holds for another server.

use std::collections::BTreeMap;
use std::time::Duration;

/// How long a server is left alone that does not want to be asked at all.
const DENIED: Duration = Duration::from_secs(3600);
/// How long one is that is asked too often: every further time twice as long, up to `MAX_RATE`.
const RATE: Duration = Duration::from_secs(64);
const MAX_RATE: Duration = Duration::from_secs(1024);

/// The wishes that hold.
#[derive(Debug, Default)]
pub struct Holds {
    servers: BTreeMap<String, Hold>,
}

#[derive(Debug)]
struct Hold {
    until: Duration,
    /// How long the next one is if it is asked too often again.
    next: Duration,
}

impl Holds {
    /// Whether a server is to be left alone.
    pub fn holds(&self, server: &str, now: Duration) -> bool {
        self.servers.get(server).is_some_and(|hold| hold.until > now)
    }

    /// Notes that a server does not want to be asked, and returns for how long.
    pub fn deny(&mut self, server: &str, now: Duration) -> Duration {
        self.hold(server, now, DENIED, RATE)
    }

    /// Notes that a server wants to be asked less often, and returns for how long.
    pub fn slow_down(&mut self, server: &str, now: Duration) -> Duration {
        let span = self.servers.get(server).map_or(RATE, |hold| hold.next);
        self.hold(server, now, span, MAX_RATE.min(span * 2))
    }

    /// Notes that a server has answered.
    pub fn release(&mut self, server: &str) {
        self.servers.remove(server);
    }

    /// Forgets all servers but these.
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
    fn a_forged_wish_expires_and_is_no_other_servers() {
        let mut holds = Holds::default();
        assert_eq!(holds.deny("a", Duration::ZERO), DENIED);
        assert!(
            holds.holds("a", DENIED - Duration::from_secs(1)) && !holds.holds("b", Duration::ZERO)
        );
        assert!(!holds.holds("a", DENIED));
    }

    #[test]
    fn who_is_asked_too_often_waits_ever_longer_until_it_answers() {
        let mut holds = Holds::default();
        let mut waits: Vec<u64> =
            (0..6).map(|_| holds.slow_down("a", Duration::ZERO).as_secs()).collect();
        assert_eq!(waits, [64, 128, 256, 512, 1024, 1024]);
        holds.release("a");
        waits = vec![holds.slow_down("a", Duration::ZERO).as_secs()];
        assert_eq!(waits, [64]);
    }

    #[test]
    fn a_server_that_is_on_the_list_no_more_is_forgotten() {
        let mut holds = Holds::default();
        holds.deny("a", Duration::ZERO);
        holds.keep_only(&["b".to_owned()]);
        assert!(!holds.holds("a", Duration::ZERO));
    }
}
