//! The zram device of the kernel, whose pages are compressed memory, as the kernel shows it.

use std::path::{Path, PathBuf};

use osbuild_failure::{Explain, Outcome};
use osbuild_protocol::SwapAmounts;

use crate::swaps::{self, Memory};

/// The kernel's table of swap areas.
pub const SWAPS: &str = "/proc/swaps";
/// The folder of the device in sysfs.
const FOLDER: &str = "/sys/block/zram0";
/// Its file.
pub const DEVICE: &str = "/dev/zram0";

/// The device, and the table that says whether it is swap.
#[derive(Clone, Debug)]
pub struct Zram {
    folder: PathBuf,
    table: PathBuf,
}

/// Swap that is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Active {
    /// Its size, and the limit of its memory.
    pub amounts: SwapAmounts,
    /// How much of it is in use.
    pub used_bytes: u64,
    /// The memory that this takes.
    pub memory_bytes: u64,
}

impl Default for Zram {
    fn default() -> Self {
        Self { folder: FOLDER.into(), table: SWAPS.into() }
    }
}

impl Zram {
    /// The device with another folder and table.
    #[cfg(test)]
    pub fn at(folder: PathBuf, table: PathBuf) -> Self {
        Self { folder, table }
    }

    /// Whether the kernel has it.
    pub fn exists(&self) -> bool {
        self.folder.is_dir()
    }

    /// The path of one of its files.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The size of its pages before they are compressed, in bytes; 0 if it has none.
    pub fn size(&self) -> Outcome<u64> {
        let path = self.file("disksize");
        let text = std::fs::read_to_string(&path).explain(reading(&path))?;
        text.trim().parse().explain(reading(&path))
    }

    /// The swap that it is. `None` if it is not swap. It may wait while another process changes the
    /// device.
    pub fn active(&self) -> Option<Active> {
        let used_bytes = self.used()?;
        let Memory { bytes, limit } = std::fs::read_to_string(self.file("mm_stat"))
            .ok()
            .and_then(|account| swaps::memory(&account))?;
        let amounts = SwapAmounts { size: self.size().ok()?, memory_limit: limit };
        Some(Active { amounts, used_bytes, memory_bytes: bytes })
    }

    /// How much of it is in use as swap, in bytes. `None` if it is not swap.
    pub fn used(&self) -> Option<u64> {
        swaps::used(&std::fs::read(&self.table).ok()?, DEVICE)
    }
}

fn reading(path: &Path) -> String {
    format!("read {}", path.display())
}
