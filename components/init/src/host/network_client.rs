//! The client that configures the network: the pod `dhcp`. It waits for other settings than it has,
//! and by that acknowledges those. It is pure.

use std::time::Duration;

use crate::sockets::ClientId;

/// How long the client may take to acknowledge that settings were taken back, before the node
/// reboots to be without them.
pub const ACKNOWLEDGE_TIME: Duration = Duration::from_secs(10);

/// The state of the client. Revisions are those of [`super::network::Network::revision`].
#[derive(Debug, Default)]
pub struct NetworkClient {
    /// The client that waits, and the revision that it has in effect.
    waiting: Option<(ClientId, u64)>,
    /// The revision that the last request named; none before the first one.
    acknowledged: Option<u64>,
    /// The revision that a client was given last; 0 before the first one.
    given: u64,
    /// The revision before the last try; 0 before the first one.
    before_try: u64,
    /// The revision without what was taken back, and until when it has to be acknowledged, since
    /// boot.
    taken_back: Option<(u64, Duration)>,
}

impl NetworkClient {
    /// A client waits for another revision than this one, which it has in effect. An earlier client
    /// is gone.
    pub fn on_waits(&mut self, client: ClientId, revision: u64) {
        self.waiting = Some((client, revision));
        self.acknowledged = Some(revision);
        self.taken_back.take_if(|(taken_back, _)| revision >= *taken_back);
    }

    /// The client that gets a reply, as `revision` is another one than it has.
    pub fn take_waiting(&mut self, revision: u64) -> Option<ClientId> {
        self.waiting.take_if(|(_, known)| *known != revision).map(|(client, _)| client)
    }

    /// A client was given this revision.
    pub fn on_given(&mut self, revision: u64) {
        self.given = revision;
    }

    /// The newest revision that a client was given; 0 before the first one.
    pub fn given(&self) -> u64 {
        self.given
    }

    /// A try begins with this revision in effect.
    pub fn on_try(&mut self, revision: u64) {
        self.before_try = revision;
    }

    /// The settings of a try are taken back, and `revision` is without them. They were not in
    /// effect if no client was given a revision of the try.
    pub fn on_taken_back(&mut self, revision: u64, now: Duration) {
        if self.given > self.before_try && self.is_behind(revision) {
            self.taken_back = Some((revision, now + ACKNOWLEDGE_TIME));
        }
    }

    /// Whether the host may not have what `revision` asks for: the client has something else in
    /// effect. Without a client nobody carries out settings of the network.
    pub fn is_behind(&self, revision: u64) -> bool {
        self.acknowledged.is_some_and(|acknowledged| acknowledged != revision)
    }

    /// Until when the client has to acknowledge that settings were taken back, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.taken_back.map(|(_, until)| until)
    }

    /// Whether the client is late with that.
    pub fn is_late(&self, now: Duration) -> bool {
        self.deadline().is_some_and(|deadline| now >= deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Duration = Duration::from_secs(100);
    const LATE: Duration = Duration::from_secs(110);

    /// A client that has settings of a try in effect: those of revision 2.
    fn trying() -> NetworkClient {
        let mut network = NetworkClient::default();
        network.on_waits(ClientId::default(), 1);
        network.on_try(1);
        network.on_given(2);
        network.on_waits(ClientId::default(), 2);
        network
    }

    #[test]
    fn a_client_that_does_not_acknowledge_what_was_taken_back_is_late() {
        let mut network = trying();
        network.on_taken_back(3, AT);
        assert_eq!(network.deadline(), Some(LATE));
        assert!(!network.is_late(AT + Duration::from_secs(9)) && network.is_late(LATE));
        // It has started again, and has nothing in effect yet.
        network.on_waits(ClientId::default(), 0);
        assert!(network.is_late(LATE));
        network.on_waits(ClientId::default(), 3);
        assert!(!network.is_late(LATE));
    }

    #[test]
    fn a_client_that_has_acknowledged_it_is_not_late_with_later_changes() {
        let mut network = trying();
        network.on_taken_back(3, AT);
        network.on_waits(ClientId::default(), 3);
        // The client does not have the next settings yet.
        assert!(network.is_behind(4));
        assert_eq!((network.deadline(), network.is_late(LATE)), (None, false));
    }

    #[test]
    fn a_client_that_has_later_settings_is_without_what_was_taken_back() {
        let mut network = trying();
        network.on_taken_back(3, AT);
        network.on_waits(ClientId::default(), 5);
        assert_eq!(network.deadline(), None);
    }

    #[test]
    fn nobody_waits_for_a_client_that_never_had_the_settings_or_has_no_others() {
        let mut network = NetworkClient::default();
        network.on_taken_back(3, AT);
        assert_eq!(network.deadline(), None);
        let mut network = trying();
        network.on_waits(ClientId::default(), 3);
        network.on_taken_back(3, AT);
        assert_eq!(network.deadline(), None);
        // The next try ends before the client, which is gone, was given anything of it.
        network.on_try(3);
        network.on_taken_back(5, AT);
        assert_eq!(network.deadline(), None);
    }

    #[test]
    fn a_client_is_behind_until_it_has_the_newest_settings() {
        let mut network = NetworkClient::default();
        assert!(!network.is_behind(2), "there is no client");
        network.on_waits(ClientId::default(), 0);
        assert!(network.is_behind(2));
        network.on_waits(ClientId::default(), 2);
        assert!(!network.is_behind(2) && network.is_behind(3));
    }

    #[test]
    fn a_client_gets_a_reply_when_the_revision_is_another_than_it_has() {
        let mut network = NetworkClient::default();
        network.on_waits(ClientId::default(), 2);
        assert_eq!(network.take_waiting(2), None);
        assert_eq!(network.take_waiting(3), Some(ClientId::default()));
        assert_eq!(network.take_waiting(4), None);
    }
}
