//! The slots: what their partitions hold, what the bits of their entries in the partition table
//! mean, and how slotboot tells `init` which of them it started.

/// How a slot begins.
pub const MAGIC: &[u8; 8] = b"OSBSLOT\0";
/// Bytes of the header at a slot's start. The UKI stands behind it.
pub const HEADER_SIZE: u64 = 4096;
/// The most bytes that a header has room for in its version.
pub const VERSION_SIZE: usize = 64;

/// The lowest of the four attribute bits with the priority: 15 is the highest, and 0 is that of a
/// slot that is not to be booted. These three have ChromeOS's meaning, so that `cgpt` reads and
/// writes them.
pub const PRIORITY_BIT: u32 = 48;
/// The lowest of the four attribute bits with the number of tries left.
pub const TRIES_BIT: u32 = 52;
/// The attribute bit that says that the slot has once become a good node. It needs no tries then.
pub const SUCCESSFUL_BIT: u32 = 56;
/// The greatest priority, and the greatest number of tries.
pub const MOST: u8 = 15;

/// The tries of the one slot of a new disk: all that there can be, as there is nothing to fall back
/// to.
pub const FIRST_TRIES: u8 = MOST;
/// The tries of a slot with an update.
pub const UPDATE_TRIES: u8 = 3;

/// Name of the section with the security epoch of a UKI, in decimal digits.
pub const EPOCH_SECTION: &str = ".epoch";
/// Name of the UEFI variable with the least security epoch that the machine still starts. It
/// persists, and is gone for the system that runs: slotboot alone reads and writes it. Its vendor
/// is [`VENDOR`].
pub const FLOOR_VARIABLE: &str = "OsbuildFloor";

/// Name of the volatile UEFI variable in which slotboot says what it started.
pub const VARIABLE: &str = "OsbuildSlot";
/// Vendor of that variable: the identifier that belongs to the name `slotboot`, as the builder
/// derives all its identifiers.
pub const VENDOR: &str = "881b7c28-2e50-5a7c-bdb6-f8aaeb4bbb06";
