//! `boards/<name>.toml`

use super::values::{
    KernelWord, List, Map, Mib, Name, OptionName, OptionSetting, Processors, Seconds, SectorSize,
    TimeServer, Word,
};
use crate::plan::{Architecture, Bus, MAX_ESP_SIZE_MIB, MAX_SLOT_SIZE_MIB};

table! {
    /// A board.
    BoardFile {
        /// The board that this one changes.
        inherit: Optional Name,
        /// The processor's architecture.
        architecture: Inherited Architecture,
        /// Logical sector size of the disk in bytes.
        sector_size: Inherited SectorSize,
        /// Size of the EFI system partition.
        esp_size_mib: Inherited Mib<34, { MAX_ESP_SIZE_MIB as i64 }>,
        /// Size of each slot.
        slot_size_mib: Inherited Mib<16, { MAX_SLOT_SIZE_MIB as i64 }>,
        /// Size of DATA in the image; it grows to the disk at first boot.
        data_size_mib: Inherited Mib<160, { 1 << 20 }>,
        /// The minimum of memory with which the node works.
        min_ram_mib: Inherited Mib<128, { 1 << 24 }>,
        /// How long the node must be ready before its slot is marked good.
        gate_hold_s: Inherited Seconds<0, 3600>,
        /// The time after power-on at which a slot that is not yet marked good is given up for the
        /// other one.
        gate_deadline_s: Inherited Seconds<30, 86_400>,
        /// The time after which the machine's hardware watchdog resets a node that hangs; 0 for a
        /// machine without one.
        watchdog_s: Inherited Seconds<0, 600>,
        /// The time servers that the node uses where its network announces none.
        time_servers: Optional List<TimeServer>,
        /// Settings of the kernel for this machine.
        kernel: Optional BoardKernelTable,
        /// The machine that `osbuild run` starts.
        qemu: Optional QemuTable,
    }
}

table! {
    /// `[kernel]`
    BoardKernelTable {
        /// Words of the kernel's command line.
        command_line: Optional List<KernelWord>,
        /// Fragments of the kernel's component, in addition to those that it names.
        fragments: Optional List<Name>,
        /// Options that override the fragments', by name without `CONFIG_`.
        options: Optional Map<OptionName, OptionSetting>,
    }
}

table! {
    /// `[qemu]`
    QemuTable {
        /// `-machine`, without an accelerator.
        machine: Inherited Word,
        /// `-cpu` under software emulation.
        cpu: Inherited Word,
        /// Memory.
        memory_mib: Inherited Mib<128, { 1 << 20 }>,
        /// Processors.
        cpus: Inherited Processors<1, 255>,
        /// The bus that the disk is connected to.
        bus: Inherited Bus,
    }
}
