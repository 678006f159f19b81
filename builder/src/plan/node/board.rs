//! The machine that a node runs on.

/// The maximum size of a board's EFI system partition. It holds slotboot, and `osbuild inspect`
/// reads all of it into memory.
pub const MAX_ESP_SIZE_MIB: u64 = 1024;

/// The maximum size of a board's slots. Firmware reads a whole UKI into memory.
pub const MAX_SLOT_SIZE_MIB: u64 = 2048;

/// A board: the sizes of the disk's partitions, and the machine with which QEMU emulates it.
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
    /// The minimum of memory in MiB with which the node works.
    pub min_ram_mib: u64,
    /// Seconds for which the node must be ready before its slot is marked good.
    pub gate_hold_s: u64,
    /// Seconds after power-on at which a slot that is not yet marked good is given up for the other
    /// one.
    pub gate_deadline_s: u64,
    /// Seconds after which the machine's hardware watchdog resets a node that hangs; 0 for a
    /// machine without one.
    pub watchdog_s: u64,
    /// The machine that `osbuild run` starts; `None` where QEMU cannot emulate the board.
    pub qemu: Option<Qemu>,
}

impl Board {
    /// Size of the image in MiB: the partitions, and 1 MiB each before and after them for the
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
    /// The bus that its disk is connected to.
    pub bus: Bus,
}

/// The bus that a disk is connected to, for which the node's kernel needs a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bus {
    /// Serial ATA, on an AHCI controller.
    Ahci,
    /// NVM Express.
    Nvme,
    /// A USB stick on a USB 3 port.
    Usb,
    /// A paravirtual block device.
    VirtioBlk,
    /// A SCSI disk on a paravirtual controller.
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
