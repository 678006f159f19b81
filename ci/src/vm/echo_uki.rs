//! A UKI that prints what its stub passes to the kernel. It has the node's stub, kernel and command
//! line, and an initramfs that contains only busybox.

use osbuild::error::{Context, Result};
use osbuild_formats::cpio::{self, Entry};
use osbuild_formats::uki::{self, Parts};
use std::fs;

/// The stub of UKIs that checks make, from the package that the lock names.
pub const STUB: &str = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub";

/// Start of the first line; the kernel's command line follows.
pub const COMMAND_LINE: &str = "echo: command line ";
/// Start of the line for a file that the stub added.
pub const EXTRA: &str = "echo: extra ";
/// Start of the line with the number of SMBIOS strings that contain `by-smbios`.
pub const SMBIOS: &str = "echo: SMBIOS strings ";
/// The last line.
pub const END: &str = "echo: end";

/// PID 1. The stub adds files in `/.extra`.
const INIT: &str = "\
#!/busybox sh
/busybox mount -t proc proc /proc
/busybox mount -t sysfs sysfs /sys
echo \"echo: command line $(/busybox cat /proc/cmdline)\"
/busybox find /.extra -type f | while read -r file; do echo \"echo: extra $file\"; done
/busybox strings /sys/firmware/dmi/tables/DMI >/strings
echo \"echo: SMBIOS strings $(/busybox grep -c by-smbios /strings)\"
echo \"echo: end\"
/busybox poweroff -f
";

/// Makes the UKI from the node's.
pub fn uki(node: &[u8]) -> Result<Vec<u8>> {
    let cannot = || "cannot make the echo UKI".to_owned();
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
