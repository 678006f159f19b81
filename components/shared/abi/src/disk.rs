//! The disk: partition types, names and order.
//!
//! GUIDs are in their usual text form, whose first three fields are little-endian on disk (UEFI
//! 2.10, appendix A).

/// Type of the EFI system partition (UEFI 2.10, 5.3.3).
pub const ESP_TYPE: &str = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B";
/// Type of a slot: a ChromeOS kernel partition, so that `cgpt` reads its state.
pub const SLOT_TYPE: &str = "FE3A2A5D-4F32-41A7-B725-ACCC3285A309";
/// Type of DATA: a Linux file system (systemd's Discoverable Partitions Specification).
pub const DATA_TYPE: &str = "0FC63DAF-8483-4772-8E79-3D69D8477DE4";

/// Name of the EFI system partition, which is the first.
pub const ESP: &str = "ESP";
/// Name of the first slot, the second partition.
pub const SLOT_A: &str = "SLOT-A";
/// Name of the other slot, the third partition.
pub const SLOT_B: &str = "SLOT-B";
/// Name of the partition that persists, the fourth and last, so that it can grow. Its file system
/// has the same label.
pub const DATA: &str = "DATA";

/// The path on the system partition of the program that firmware starts (UEFI 2.10, 3.5.1.1) on an
/// amd64 machine.
pub const BOOT_PROGRAM_AMD64: &str = "EFI/BOOT/BOOTX64.EFI";
/// The same on an arm64 machine.
pub const BOOT_PROGRAM_ARM64: &str = "EFI/BOOT/BOOTAA64.EFI";

/// Alignment of the start and the end of each partition, in bytes.
pub const ALIGNMENT: u64 = 1 << 20;
