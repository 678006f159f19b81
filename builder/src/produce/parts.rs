//! The parts of an image, which actions make in parallel.

use super::build::Build;
use super::compile::{CompiledKernel, Programs};
use super::inventory::Inventory;
use super::layers::BuiltLayer;
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::error::Result;

/// Everything that an image is assembled from.
pub struct Parts {
    /// The kernel.
    pub kernel: CompiledKernel,
    /// The program that the firmware starts.
    pub slotboot: Digest,
    /// systemd's stub for UEFI.
    pub stub: Digest,
    /// The layers of the root, lowest first.
    pub layers: Vec<BuiltLayer>,
    /// `init`, which mounts the layers.
    pub init: Digest,
    /// DATA's file system.
    pub data: Digest,
    /// The image's own list of its contents.
    pub inventory: Inventory,
    /// The default settings of an installer; `None` for any other node.
    pub settings: Option<Vec<u8>>,
}

impl Parts {
    /// Collects the parts of an image, whose host binaries are `programs`. The array has the boot
    /// program, the stub and DATA's file system.
    ///
    /// # Errors
    /// The settings of an installer cannot be read.
    pub fn collect(
        build: &Build<'_>,
        kernel: CompiledKernel,
        [slotboot, stub, data]: [Digest; 3],
        programs: &Programs,
        layers: Vec<BuiltLayer>,
    ) -> Result<Self> {
        let plan = build.plan;
        let lock = Digest::of(plan.lock.get().print().as_bytes());
        let inventory = Inventory::new(plan, &lock, &kernel.release, programs);
        let settings =
            plan.installs.as_ref().map(|installs| build.options.project.join(&installs.settings));
        let settings = settings.map(|path| std::fs::read(&path).at("read", &path)).transpose()?;
        let init = programs["init"];
        Ok(Parts { kernel, slotboot, stub, layers, init, data, inventory, settings })
    }
}
