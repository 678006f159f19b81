//! Keys on the kernel command line, which is inside the UKI and so is as trusted as the kernel
//! itself.

/// Seconds since 1970 below which the node's clock is never set: the lock's source epoch.
pub const EPOCH: &str = "osbuild.epoch";

/// The least memory in MiB that the board says it needs. `init` says on the console when the
/// machine has less.
pub const MIN_RAM_MIB: &str = "osbuild.min-ram-mib";

/// Seconds for which the kubelet has to be healthy and every declared pod has to run before the
/// node's slot is a good one.
pub const GATE_HOLD: &str = "osbuild.gate-hold-s";

/// Seconds since power-on after which a slot on trial that has not become a good one goes back to
/// the other slot.
pub const GATE_DEADLINE: &str = "osbuild.gate-deadline-s";

/// Seconds after which the machine's hardware watchdog resets a node that hangs; 0 where the board
/// has none.
pub const WATCHDOG: &str = "osbuild.watchdog-s";

/// The time servers that the node asks as long as its network names none, with commas between:
/// addresses or names, each with a port or without.
pub const TIME_SERVERS: &str = "osbuild.time-servers";

/// Where DATA is: [`IN_MEMORY`], or if nothing is said on the disk that was booted.
pub const DATA: &str = "osbuild.data";
/// DATA is in memory: the node changes no disk by itself, and forgets everything at its end.
pub const IN_MEMORY: &str = "memory";

/// Returns the value of `key` on `line`, the last one if it stands there more than once (as the
/// kernel itself does).
pub fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_ascii_whitespace().rev().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_two_values_wins() {
        assert_eq!(value("a=1 osbuild.epoch=5 osbuild.epoch=7 b", EPOCH), Some("7"));
    }

    #[test]
    fn a_longer_key_is_another_key() {
        assert_eq!(value("osbuild.epoch-x=5", EPOCH), None);
    }
}
