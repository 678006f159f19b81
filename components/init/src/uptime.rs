//! The clock of all times inside `init`.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time since the kernel started, which setting the wall clock does not move.
pub fn uptime() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}
