//! The phrases that `init` prints on the console and that `osbuild run` and the tests wait for.

/// The prefix of all lines of `init`; `<phase>: <what>` follows.
pub const PREFIX: &str = "init: ";

/// The start of the line that reports a healthy kubelet and all declared pods running.
pub const READY: &str = "init: READY";

/// The end of that line if no pod has reported an address yet. A line that starts with [`ADDRESS`]
/// may follow.
pub const READY_WITHOUT_ADDRESS: &str = " without an address";

/// The end of the line that reports that the node is Ready in its cluster.
pub const JOINED: &str = " is Ready in its cluster";

/// The start of the line that reports that the node gave up, and why.
pub const FAILED: &str = "init: FAILED";

/// The start of the line at the end of a phase: `init: phase NAME SECONDS`, in seconds since
/// power-on with three decimals.
pub const PHASE: &str = "init: phase ";

/// The start of the line with the node's addresses: `init: address ADDRESS/PREFIX-LENGTH on LINK`.
pub const ADDRESS: &str = "init: address ";

/// The prefix of all lines of slotboot, which prints before the kernel does.
pub const SLOTBOOT: &str = "slotboot: ";

/// The start of slotboot's line about the slot that it starts: `slotboot: starts SLOT VERSION:
/// WHY`.
pub const SLOTBOOT_STARTS: &str = "slotboot: starts ";

/// The start of slotboot's line with its times: `slotboot: took SECONDS s, to hash SECONDS s, the
/// firmware to load SECONDS s`. The first number is its own time, without the other two.
pub const SLOTBOOT_TOOK: &str = "slotboot: took ";

/// The start of the line that reports that slotboot found nothing to start, and why. It halts then.
pub const SLOTBOOT_STOPPED: &str = "slotboot: STOPPED: ";

/// The start of the line with the running slot and the reason for its choice.
pub const SLOT: &str = "init: slot: running ";

/// The start of the line that reports that the running slot has become good.
pub const SLOT_GOOD: &str = "init: slot: good ";

/// The start of the line that reports that the slot on trial has not become good in time, and that
/// the node reboots into the other one.
pub const SLOT_LATE: &str = "init: slot: not good ";

/// The start of the line with the time and the reason of a panic before this boot.
pub const PANIC: &str = "init: panic: the kernel stopped at ";

/// The start of the warning that the firmware starts unsigned images: `off` or `setup-mode`
/// follows.
pub const INSECURE: &str = "init: secure-boot: ";

/// The start of the warning that the machine has less memory than the board requires.
pub const LOW_RAM: &str = "init: memory: too little";

/// The prefix of all lines of the installer.
pub const INSTALLER: &str = "installer: ";

/// The start of the installer's line about the disk that it is about to erase: `installer: this
/// erases DEVICE, …`.
pub const INSTALLER_ERASES: &str = "installer: this erases ";

/// The start of the line that reports that a disk holds the installer's node and that the machine
/// reboots into it.
pub const INSTALLER_DONE: &str = "installer: DONE: ";

/// The start of the line that reports why the installer has stopped.
pub const INSTALLER_STOPPED: &str = "installer: STOPPED: ";
