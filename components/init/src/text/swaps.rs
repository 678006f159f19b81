//! The kernel's table of swap areas, `/proc/swaps` (proc_swaps(5)), and the account of a zram
//! device, its file `mm_stat` (Documentation/admin-guide/blockdev/zram.rst of the kernel).

/// The unit of the table.
const KIBIBYTE: u64 = 1 << 10;

/// The memory that a zram device takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// How much it takes, in bytes.
    pub bytes: u64,
    /// How much it may take at most; 0 if nothing limits it.
    pub limit: u64,
}

/// How much of the area at `path` is in use, in bytes. `None` if there is no such area. Paths of
/// others may have any bytes.
pub fn used(table: &[u8], path: &str) -> Option<u64> {
    let lines = table.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line).ok());
    let mut areas = lines.filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let is_there = fields.next() == Some(path);
        let used = fields.nth(2)?.parse::<u64>().ok()?.checked_mul(KIBIBYTE)?;
        is_there.then_some(used)
    });
    areas.next()
}

/// Reads the account: the third of its numbers is the memory, and the fourth its limit.
pub fn memory(account: &str) -> Option<Memory> {
    let mut fields = account.split_ascii_whitespace().skip(2);
    let mut number = || fields.next()?.parse().ok();
    Some(Memory { bytes: number()?, limit: number()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_of_a_device_is_found_among_others() {
        let table = b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                      /swap\\040file \xff                  file\t\t1024\t\t0\t\t-2\n\
                      /dev/zram0                              partition\t524284\t\t1280\t\t-3\n";
        assert_eq!(used(table, "/dev/zram0"), Some(1280 << 10));
        for path in ["/dev/zram", "/dev/zram00", "Filename", ""] {
            assert_eq!(used(table, path), None, "{path}");
        }
        for table in ["/dev/zram0", "/dev/zram0 partition 1", "/dev/zram0 partition 1 -1 -2"] {
            assert_eq!(used(table.as_bytes(), "/dev/zram0"), None, "{table}");
        }
        let largest = format!("/dev/zram0 partition 1 {} -2", u64::MAX);
        assert_eq!(used(largest.as_bytes(), "/dev/zram0"), None);
    }

    #[test]
    fn the_account_of_the_kernel_has_the_memory_and_its_limit() {
        let account =
            " 1310720   290816   344064 268435456   344064       12        0       0   0\n";
        let expected = Memory { bytes: 344_064, limit: 268_435_456 };
        assert_eq!(memory(account), Some(expected));
        for account in ["", "1 2 3", "1 2 3 x", "1 2 -3 4"] {
            assert_eq!(memory(account), None, "{account}");
        }
    }

    #[test]
    fn the_table_of_this_machine_is_understood() {
        // A kernel without swap has none.
        if let Ok(table) = std::fs::read("/proc/swaps") {
            let lines = String::from_utf8(table.clone()).unwrap();
            let paths = lines.lines().skip(1).filter_map(|line| line.split(' ').next());
            assert!(paths.into_iter().all(|path| used(&table, path).is_some()), "{lines}");
        }
    }
}
