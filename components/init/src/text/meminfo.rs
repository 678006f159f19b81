//! The kernel's account of memory, `/proc/meminfo` (proc_meminfo(5)).

/// The use of memory, in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// All memory, without what the kernel itself takes.
    pub total: u64,
    /// Memory that programs can get before the kernel has to kill any.
    pub available: u64,
    /// Files in memory: tmpfs, volumes in memory, shared memory.
    pub files: u64,
}

/// Reads the text. `None` if it has no totals.
pub fn parse(text: &str) -> Option<Memory> {
    let kib = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    let [total, available] = [kib("MemTotal")?, kib("MemAvailable")?].map(|size| size >> 10);
    Some(Memory { total, available, files: kib("Shmem").unwrap_or_default() >> 10 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_in_mib() {
        let text = "MemTotal:        2014208 kB\nMemFree:           81920 kB\n\
                    MemAvailable:     102400 kB\nShmem:           1536000 kB\n";
        assert_eq!(parse(text), Some(Memory { total: 1967, available: 100, files: 1500 }));
        assert_eq!(parse("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn the_kernel_of_this_machine_is_understood() {
        let memory = parse(&std::fs::read_to_string("/proc/meminfo").unwrap()).unwrap();
        assert!(memory.available > 0 && memory.available <= memory.total, "{memory:?}");
    }
}
