//! The clock of all times inside `init`.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time since the kernel started, which setting the wall clock does not move.
pub fn uptime() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The time since boot as the kernel writes it, in whole hundredths of a second.
    pub(crate) fn of_the_kernel() -> Duration {
        let text = std::fs::read_to_string("/proc/uptime").unwrap();
        Duration::from_secs_f64(text.split(' ').next().unwrap().parse().unwrap())
    }

    /// How exact that is.
    pub(crate) const EXACTNESS: Duration = Duration::from_millis(10);

    #[test]
    fn times_are_since_boot_so_no_jump_of_the_wall_clock_moves_them() {
        let (before, now, after) = (of_the_kernel(), uptime(), of_the_kernel());
        assert!(before <= now && now <= after + EXACTNESS, "{before:?} {now:?} {after:?}");
    }
}
