//! One question with its repetitions (RFC 8415, 15).

use std::time::Duration;

use super::super::message::Kind;

/// A question, repeated until it is answered.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    transaction: u32,
    since: Duration,
    sent: Duration,
    again: Duration,
    wait: Duration,
    times: u32,
}

impl Exchange {
    /// A question whose first message is due now.
    pub fn new(random: u32, now: Duration) -> Self {
        let transaction = random & 0x00ff_ffff;
        Self { transaction, since: now, sent: now, again: now, wait: Duration::ZERO, times: 0 }
    }

    /// Its number, which the answer has as well.
    pub fn transaction(&self) -> u32 {
        self.transaction
    }

    /// When it was last sent.
    pub fn sent(&self) -> Duration {
        self.sent
    }

    /// When it is due again.
    pub fn again(&self) -> Duration {
        self.again
    }

    /// How often it was sent.
    pub fn times(&self) -> u32 {
        self.times
    }

    /// When it ends, if it lasts this long.
    pub fn end(&self, time: Duration) -> Duration {
        self.since.saturating_add(time)
    }

    /// Whether it was sent that often, and its last wait is over.
    pub fn is_over(&self, times: u32, now: Duration) -> bool {
        self.times >= times && now >= self.again
    }

    /// The time since its first message, in hundredths of a second.
    pub fn elapsed(&self) -> u16 {
        u16::try_from(self.sent.saturating_sub(self.since).as_millis() / 10).unwrap_or(u16::MAX)
    }

    /// Counts one more message, and doubles the wait up to that of its type, with a random
    /// deviation of a tenth. `max_waits` are those for an address and for options.
    pub fn back_off(
        &mut self,
        kind: Kind,
        max_waits: (Duration, Duration),
        now: Duration,
        random: u32,
    ) {
        let (first, max) = waits(kind, max_waits);
        let wait = if self.times == 0 { first } else { max.min(self.wait * 2) };
        let chance = f64::from(random) / f64::from(u32::MAX);
        // The first question for an address waits no less than its time: offers come meanwhile.
        let deviation = if self.times == 0 { chance * 0.1 } else { chance * 0.2 - 0.1 };
        self.wait = wait.mul_f64(1.0 + deviation);
        (self.sent, self.again) = (now, now.saturating_add(self.wait));
        self.times += 1;
    }
}

/// The first wait for an answer and the longest one (RFC 8415, 7.6). A Renew repeats until any
/// server is asked, and a Rebind until the lease ends.
fn waits(kind: Kind, (max_solicit, max_information): (Duration, Duration)) -> (Duration, Duration) {
    let seconds = Duration::from_secs;
    match kind {
        Kind::Solicit | Kind::Advertise | Kind::Reply => (seconds(1), max_solicit),
        Kind::Request => (seconds(1), seconds(30)),
        Kind::Confirm => (seconds(1), seconds(4)),
        Kind::Renew | Kind::Rebind => (seconds(10), seconds(600)),
        Kind::Decline => (seconds(1), seconds(8)),
        Kind::InformationRequest => (seconds(1), max_information),
    }
}
