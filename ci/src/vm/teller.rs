//! A UKI that tells what its stub has handed to the kernel: the node's own stub, kernel and command
//! line, with busybox as all that runs.

use osbuild::error::{Context, Result};
use osbuild_formats::cpio::{self, Entry};
use osbuild_formats::uki::{self, Parts};
use std::fs;

/// The stub of the UKIs that are made here, of the package that the lock names.
pub const STUB: &str = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub";

/// The first line of what is told, which has the kernel's command line behind it.
pub const COMMAND_LINE: &str = "teller: command line ";
/// A file that the stub added.
pub const EXTRA: &str = "teller: extra ";
/// How many strings of the firmware have the word that the machine was started with.
pub const SMBIOS: &str = "teller: strings by SMBIOS ";
/// The last line.
pub const END: &str = "teller: end";

/// PID 1. What the stub adds is in `/.extra`.
const INIT: &str = "\
#!/busybox sh
/busybox mount -t proc proc /proc
/busybox mount -t sysfs sysfs /sys
echo \"teller: command line $(/busybox cat /proc/cmdline)\"
/busybox find /.extra -type f | while read -r file; do echo \"teller: extra $file\"; done
echo \"teller: strings by SMBIOS $(/busybox strings /sys/firmware/dmi/tables/DMI | /busybox grep -c by-smbios)\"
echo \"teller: end\"
/busybox poweroff -f
";

/// Makes it of the node's UKI.
pub fn uki(node: &[u8]) -> Result<Vec<u8>> {
    let cannot = || "cannot make the UKI that tells".to_owned();
    let (stub, busybox) =
        (fs::read(STUB).or_build(cannot)?, fs::read("/bin/busybox").or_build(cannot)?);
    let entries = [
        Entry::file("/busybox", 0o755, busybox),
        Entry::directory("/dev", 0o755),
        Entry::char_device("/dev/console", 0o600, 5, 1),
        Entry::file("/init", 0o755, INIT.as_bytes()),
        Entry::directory("/proc", 0o755),
        Entry::directory("/sys", 0o755),
    ];
    let initramfs = cpio::write(&entries, Vec::new()).or_build(cannot)?;
    let parts = uki::read(node).or_build(cannot)?;
    uki::build(&stub, &Parts { initramfs: &initramfs, ..parts }).or_build(cannot)
}
