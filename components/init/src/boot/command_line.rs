//! The kernel's command line, as far as `init` reads it. It is part of the signed UKI.

use std::time::Duration;

use osbuild_abi::cmdline::{
    DATA, EPOCH, GATE_DEADLINE, GATE_HOLD, IN_MEMORY, MIN_RAM_MIB, SECURITY_EPOCH, TIME_SERVERS,
    WATCHDOG, value,
};
use osbuild_failure::{Explain, Outcome};

/// The values that the builder wrote on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The image's epoch, since 1970: the clock is never set before it.
    pub epoch: Option<Duration>,
    /// The image's security epoch.
    pub security_epoch: Option<u32>,
    /// The memory that the board asks for.
    pub min_ram_mib: Option<u64>,
    /// After how long without the kernel or `init` a hardware watchdog resets the machine; none
    /// where the board has no watchdog.
    pub watchdog_seconds: Option<u32>,
    /// How long the node has to be ready before its slot is a good one.
    pub gate_hold: Option<Duration>,
    /// How long after power-on a slot on trial has to become a good one.
    pub gate_deadline: Option<Duration>,
    /// The time servers of the image.
    pub time_servers: Vec<String>,
    /// Whether DATA is in memory.
    pub data_in_memory: bool,
}

impl CommandLine {
    /// Reads the running kernel's command line.
    pub fn read() -> Outcome<Self> {
        let text = std::fs::read_to_string("/proc/cmdline").explain("read /proc/cmdline")?;
        Ok(Self::parse(&text))
    }

    /// Reads a command line. A value that is not a number counts as missing.
    pub fn parse(text: &str) -> Self {
        let number = |key| value(text, key).and_then(|word| word.parse::<u64>().ok());
        let seconds = |key| number(key).map(Duration::from_secs);
        let servers = value(text, TIME_SERVERS).unwrap_or_default().split(',');
        CommandLine {
            epoch: seconds(EPOCH),
            security_epoch: value(text, SECURITY_EPOCH).and_then(|word| word.parse().ok()),
            min_ram_mib: number(MIN_RAM_MIB),
            watchdog_seconds: value(text, WATCHDOG)
                .and_then(|word| word.parse().ok())
                .filter(|seconds| *seconds > 0),
            gate_hold: seconds(GATE_HOLD),
            gate_deadline: seconds(GATE_DEADLINE),
            time_servers: servers.filter(|one| !one.is_empty()).map(str::to_owned).collect(),
            data_in_memory: value(text, DATA) == Some(IN_MEMORY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_builder_is_read() {
        let line = "console=ttyS0 osbuild.epoch=1790000000 osbuild.min-ram-mib=2048 \
                    osbuild.security-epoch=2 \
                    osbuild.watchdog-s=60 osbuild.gate-hold-s=30 osbuild.gate-deadline-s=600 \
                    osbuild.time-servers=169.254.169.123,time.example:124 osbuild.data=memory gpt";
        let expected = CommandLine {
            epoch: Some(Duration::from_secs(1_790_000_000)),
            security_epoch: Some(2),
            min_ram_mib: Some(2048),
            watchdog_seconds: Some(60),
            gate_hold: Some(Duration::from_secs(30)),
            gate_deadline: Some(Duration::from_secs(600)),
            time_servers: ["169.254.169.123", "time.example:124"].map(str::to_owned).to_vec(),
            data_in_memory: true,
        };
        assert_eq!(CommandLine::parse(line), expected);
    }

    #[test]
    fn a_missing_or_malformed_value_is_none() {
        let line = "gpt osbuild.time-servers= osbuild.watchdog-s=0 osbuild.epoch=soon";
        assert_eq!(CommandLine::parse(line), CommandLine::default());
    }
}
