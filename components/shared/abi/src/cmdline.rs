//! Keys of the kernel command line, which is in the UKI and therefore as trusted as the kernel.

/// The minimum of the node's clock, in seconds since 1970: the lock's source epoch.
pub const EPOCH: &str = "osbuild.epoch";

/// The security epoch of the image, for the node's status. What the machine starts depends on the
/// [section](crate::slot::EPOCH_SECTION) of the same number alone.
pub const SECURITY_EPOCH: &str = "osbuild.security-epoch";

/// The minimum memory in MiB according to the board. `init` prints a warning if the machine has
/// less.
pub const MIN_RAM_MIB: &str = "osbuild.min-ram-mib";

/// Seconds for which the kubelet must be healthy and all declared pods must run before the node's
/// slot is good.
pub const GATE_HOLD: &str = "osbuild.gate-hold-s";

/// Seconds since power-on after which a slot on trial that is not good yet gives way to the other
/// slot.
pub const GATE_DEADLINE: &str = "osbuild.gate-deadline-s";

/// Seconds after which the machine's hardware watchdog resets a hung node; 0 if the board has none.
pub const WATCHDOG: &str = "osbuild.watchdog-s";

/// The time servers for a node whose network names none, separated by commas: addresses or names,
/// each with an optional port.
pub const TIME_SERVERS: &str = "osbuild.time-servers";

/// The place of DATA: [`IN_MEMORY`]; without this key, the disk that was booted.
pub const DATA: &str = "osbuild.data";
/// DATA is in memory: the node changes no disk by itself, and loses all its state at the end.
pub const IN_MEMORY: &str = "memory";

/// Returns the value of `key` on `line`; like the kernel, the last one if there are several.
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
