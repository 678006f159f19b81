//! The phrases that `init` writes on the console and that `osbuild run` and the tests wait for.

/// Every line of `init` starts with this; `<phase>: <what>` follows.
pub const PREFIX: &str = "init: ";

/// The line that starts with this says that the kubelet is healthy and that every declared pod
/// runs.
pub const READY: &str = "init: READY";

/// Ends that line when no pod has told an address of the node's so far. A line that starts with
/// [`ADDRESS`] may follow.
pub const READY_WITHOUT_ADDRESS: &str = " without an address";

/// The line that starts with this says that the node gave up, and why.
pub const FAILED: &str = "init: FAILED";

/// Starts the line that a phase writes when it has ended: `init: phase NAME SECONDS`, seconds since
/// power-on with three decimals.
pub const PHASE: &str = "init: phase ";

/// Starts the line that says which addresses the node has: `init: address ADDRESS/PREFIX-LENGTH on
/// LINK`.
pub const ADDRESS: &str = "init: address ";

/// Every line of slotboot, which speaks before the kernel does, starts with this.
pub const SLOTBOOT: &str = "slotboot: ";

/// Starts slotboot's line about what it starts: `slotboot: starts SLOT VERSION: WHY`.
pub const SLOTBOOT_STARTS: &str = "slotboot: starts ";

/// Starts slotboot's line about its time: `slotboot: took SECONDS s, to hash SECONDS s, the
/// firmware to load SECONDS s`. The first number is its own time, which the others are not part of.
pub const SLOTBOOT_TOOK: &str = "slotboot: took ";

/// The line that starts with this says that slotboot found nothing to start, and why. It stands
/// still then.
pub const SLOTBOOT_STOPPED: &str = "slotboot: STOPPED: ";

/// Starts the line that says which slot the node runs from, and why.
pub const SLOT: &str = "init: slot: running ";

/// Starts the line that says that the slot that runs has become a good one.
pub const SLOT_GOOD: &str = "init: slot: good ";

/// Starts the line that says that the slot on trial has not become a good one in time, and that the
/// node reboots for the other one.
pub const SLOT_LATE: &str = "init: slot: not good ";

/// Starts the warning that the firmware starts what is not signed: `off` or `setup-mode` follows.
pub const INSECURE: &str = "init: secure-boot: ";

/// Starts the warning that the machine has less memory than the board asks for.
pub const LOW_RAM: &str = "init: memory: too little";

/// Every line of the installer starts with this.
pub const INSTALLER: &str = "installer: ";

/// Starts the installer's line about the disk that it is about to erase: `installer: this erases
/// DEVICE, …`.
pub const INSTALLER_ERASES: &str = "installer: this erases ";

/// The line that starts with this says that a disk holds the node that the installer carries, and
/// that the machine reboots into it.
pub const INSTALLER_DONE: &str = "installer: DONE: ";

/// The line that starts with this says why the installer does nothing more.
pub const INSTALLER_STOPPED: &str = "installer: STOPPED: ";
