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
    /// Until when the newest revision has to be acknowledged, since boot.
    deadline: Option<Duration>,
}

impl NetworkClient {
    /// A client waits for another revision than this one, which it has in effect. An earlier client
    /// is gone.
    pub fn on_waits(&mut self, client: ClientId, revision: u64) {
        self.waiting = Some((client, revision));
        self.acknowledged = Some(revision);
    }

    /// The client that gets a reply, as `revision` is another one than it has.
    pub fn take_waiting(&mut self, revision: u64) -> Option<ClientId> {
        self.waiting.take_if(|(_, known)| *known != revision).map(|(client, _)| client)
    }

    /// Settings were taken back, and `revision` is without them. Before the first request they were
    /// not in effect.
    pub fn on_taken_back(&mut self, revision: u64, now: Duration) {
        self.deadline = self.is_behind(revision).then(|| now + ACKNOWLEDGE_TIME);
    }

    /// Whether the host may not have what `revision` asks for: the client has something else in
    /// effect. Without a client nobody carries out settings of the network.
    pub fn is_behind(&self, revision: u64) -> bool {
        self.acknowledged.is_some_and(|acknowledged| acknowledged != revision)
    }

    /// Until when the client has to acknowledge `revision`, since boot.
    pub fn deadline(&self, revision: u64) -> Option<Duration> {
        self.deadline.filter(|_| self.acknowledged != Some(revision))
    }

    /// Whether the client is late with `revision`.
    pub fn is_late(&self, revision: u64, now: Duration) -> bool {
        self.deadline(revision).is_some_and(|deadline| now >= deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Duration = Duration::from_secs(100);
    const LATE: Duration = Duration::from_secs(110);

    #[test]
    fn a_client_that_does_not_acknowledge_what_was_taken_back_is_late() {
        let mut network = NetworkClient::default();
        network.on_waits(ClientId::default(), 2);
        network.on_taken_back(3, AT);
        assert_eq!(network.deadline(3), Some(LATE));
        assert!(!network.is_late(3, AT + Duration::from_secs(9)) && network.is_late(3, LATE));
        // It has started again, and has nothing in effect yet.
        network.on_waits(ClientId::default(), 0);
        assert!(network.is_late(3, LATE));
        network.on_waits(ClientId::default(), 3);
        assert!(!network.is_late(3, LATE));
    }

    #[test]
    fn nobody_waits_for_a_client_that_never_had_the_settings_or_has_no_others() {
        let mut network = NetworkClient::default();
        network.on_taken_back(3, AT);
        assert_eq!(network.deadline(3), None);
        network.on_waits(ClientId::default(), 3);
        network.on_taken_back(3, AT);
        assert_eq!(network.deadline(3), None);
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
