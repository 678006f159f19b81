//! The slots: the format of their partitions, the meaning of the bits in their partition table
//! entries, and the variable in which slotboot reports to `init` the slot that it started.

/// The first bytes of a slot.
pub const MAGIC: &[u8; 8] = b"OSBSLOT\0";
/// Bytes of the header at the start of a slot. The UKI follows.
pub const HEADER_SIZE: u64 = 4096;
/// The maximum length of the version in a header, in bytes.
pub const VERSION_SIZE: usize = 64;

/// The lowest of the four attribute bits with the priority: 15 is the highest, and a slot of
/// priority 0 does not boot. These three fields have ChromeOS's meaning, so that `cgpt` reads and
/// writes them.
pub const PRIORITY_BIT: u32 = 48;
/// The lowest of the four attribute bits with the number of tries left.
pub const TRIES_BIT: u32 = 52;
/// The attribute bit of a slot that has become good once. It needs no tries then.
pub const SUCCESSFUL_BIT: u32 = 56;
/// The highest priority, and the highest number of tries.
pub const MAX_LEVEL: u8 = 15;

/// The tries of the only slot of a new disk: the maximum, because it cannot fall back.
pub const FIRST_TRIES: u8 = MAX_LEVEL;
/// The tries of a slot with an update.
pub const UPDATE_TRIES: u8 = 3;

/// Name of the section with the security epoch of a UKI, in decimal digits.
pub const EPOCH_SECTION: &str = ".epoch";
/// Name of the UEFI variable with the minimum security epoch that the machine still starts. It is
/// non-volatile and hidden from the running system: only slotboot reads and writes it. Its vendor
/// is [`VENDOR`].
pub const FLOOR_VARIABLE: &str = "OsbuildFloor";

/// Name of the volatile UEFI variable with the slot that slotboot started.
pub const VARIABLE: &str = "OsbuildSlot";
/// Vendor of that variable: the identifier that belongs to the name `slotboot`, derived like all
/// identifiers of the builder.
pub const VENDOR: &str = "881b7c28-2e50-5a7c-bdb6-f8aaeb4bbb06";
