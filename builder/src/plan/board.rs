//! The machine that a node runs on.

/// The largest EFI system partition of a board: it holds slotboot, and whoever looks at a disk
/// reads all of it into memory.
pub const MAX_ESP_SIZE_MIB: u64 = 1024;

/// The largest slot of a board: a UKI is read into memory as a whole, by firmware too.
pub const MAX_SLOT_SIZE_MIB: u64 = 2048;

/// A board: sizes of the disk's parts and what QEMU has to offer to look like it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Board {
    /// The board's name: `qemu-amd64`.
    pub name: String,
    /// Logical sector size of the disk in bytes, 512 or 4096.
    pub sector_size: u32,
    /// Size of the EFI system partition in MiB.
    pub esp_size_mib: u64,
    /// Size of each of the two slots in MiB.
    pub slot_size_mib: u64,
    /// Size of DATA in the image in MiB, before it is grown to the disk.
    pub data_size_mib: u64,
    /// The least memory in MiB with which the node works.
    pub min_ram_mib: u64,
    /// Seconds for which the node has to be ready before its slot is a good one.
    pub gate_hold_s: u64,
    /// Seconds since power-on after which a slot that has not become a good one gives way to the
    /// other one.
    pub gate_deadline_s: u64,
    /// Seconds after which the machine's hardware watchdog resets a node that hangs; 0 where it has
    /// none.
    pub watchdog_s: u64,
    /// The machine that `osbuild run` makes; none where QEMU cannot stand in for the board.
    pub qemu: Option<Qemu>,
}

impl Board {
    /// Size of the image in MiB: the partitions, and one MiB each before and behind them for the
    /// partition table and its copy.
    pub fn image_size_mib(&self) -> u64 {
        1 + self.esp_size_mib + 2 * self.slot_size_mib + self.data_size_mib + 1
    }
}

/// A machine as QEMU's command line describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qemu {
    /// `-machine`, without the accelerator.
    pub machine: String,
    /// `-cpu` under software emulation.
    pub cpu: String,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Number of virtual CPUs.
    pub cpus: u32,
    /// What its disk is connected to.
    pub bus: Bus,
}

/// What a disk is connected to, which is what the node's kernel needs a driver for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bus {
    /// Serial ATA, behind a controller of the kind AHCI.
    Ahci,
    /// NVM Express.
    Nvme,
    /// A stick, on a USB 3 port.
    Usb,
    /// A paravirtual block device.
    VirtioBlk,
    /// A SCSI disk behind a paravirtual controller.
    VirtioScsi,
}

impl Bus {
    /// All of them.
    pub const ALL: [Bus; 5] = [Bus::Ahci, Bus::Nvme, Bus::Usb, Bus::VirtioBlk, Bus::VirtioScsi];

    /// Their names, in the same order.
    pub const NAMES: [&'static str; 5] = ["ahci", "nvme", "usb", "virtio-blk", "virtio-scsi"];

    /// The one of this name, as boards and `osbuild run` write it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bus| bus.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}
