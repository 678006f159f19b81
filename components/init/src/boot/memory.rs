//! Whether the machine has the memory that its board asks for.

use osbuild_abi::console::LOW_RAM;
use rustix::system::sysinfo;

/// The line for the console, if the machine has less than `wanted_mib`.
pub fn check(wanted_mib: Option<u64>) -> Option<String> {
    let (have, wanted) = (total_mib(), wanted_mib?);
    is_too_little(have, wanted)
        .then(|| format!("{LOW_RAM}: {have} MiB, the board asks for {wanted} MiB"))
}

/// The machine's memory in MiB, without what the kernel itself takes.
pub fn total_mib() -> u64 {
    total_bytes() >> 20
}

/// The same in bytes.
pub fn total_bytes() -> u64 {
    let info = sysinfo();
    info.totalram * u64::from(info.mem_unit)
}

/// The kernel reports less than is installed: the kernel image, its page table and the firmware
/// take up to a sixteenth.
fn is_too_little(have_mib: u64, wanted_mib: u64) -> bool {
    have_mib < wanted_mib - wanted_mib / 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_kernel_and_firmware_is_not_missed() {
        assert!(!is_too_little(1967, 2048));
        assert!(!is_too_little(0, 0));
    }

    #[test]
    fn half_of_the_memory_is_too_little() {
        assert!(is_too_little(1007, 2048));
    }
}
