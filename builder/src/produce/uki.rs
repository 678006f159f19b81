//! The unified kernel image (UKI): systemd's stub, the kernel, its command line and the initramfs
//! as one program for UEFI.

use super::build::Build;
use super::debian;
use super::draft::Draft;
use super::out::{Out, UKI};
use super::parts::Parts;
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::error::{Context, Error, Result};
use crate::plan::{Locked, MAX_SLOT_SIZE_MIB, Plan};
use crate::report::bytes;
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_formats::uki::{self, Frame};

/// Writes the UKI into `out`. The initramfs is copied in pieces: it may be larger than memory.
///
/// # Errors
/// The stub has no room for the sections, a part is gone from the store, or the disk is full.
pub fn write(build: &Build<'_>, parts: &Parts, initramfs: &mut Draft, out: &Out) -> Result<Draft> {
    let (plan, store) = (build.plan, build.options.store);
    let mut draft = Draft::create(out.path(UKI))?;
    draft.write(build.options.report, "uki", |to, path| {
        let sections = uki::Parts {
            os_release: &os_release(plan),
            command_line: &command_line(plan),
            uname: &parts.kernel.release,
            security_epoch: plan.security_epoch,
            initramfs: &[],
            kernel: &store.read(&parts.kernel.image)?,
        };
        let stub = store.read(&parts.stub)?;
        let frame = Frame::new(&stub, &sections, initramfs.length()?)
            .or_build(|| "cannot make the UKI".to_owned())?;
        frame.write(initramfs.start()?, to).at("write", path)
    })?;
    Ok(draft)
}

/// Takes systemd's stub for UEFI out of its package.
///
/// # Errors
/// The package cannot be fetched, or does not have it.
pub fn stub(build: &Build<'_>) -> Result<Digest> {
    let plan = build.plan;
    let path = format!("usr/lib/systemd/boot/efi/linux{}.efi.stub", plan.architecture.efi());
    debian::read(build, plan.stub(), &path)
}

/// The section that names the UKI to boot loaders and people, in the format of os-release(5).
pub(super) fn os_release(plan: &Plan<Locked>) -> String {
    format!("ID=osbuild\nPRETTY_NAME=\"osbuild {}\"\nVERSION_ID={}\n", plan.recipe, plan.version)
}

/// The kernel's command line.
pub(super) fn command_line(plan: &Plan<Locked>) -> String {
    plan.command_line(plan.lock.get().epoch)
}

/// Refuses a UKI of `length` bytes that does not fit a slot of the board.
///
/// # Errors
/// It does not fit. The error names the largest parts.
pub fn check_size(build: &Build<'_>, parts: &Parts, length: u64) -> Result<()> {
    let board = &build.plan.board;
    let needed = (length + HEADER_SIZE).div_ceil(1 << 20);
    let room = board.slot_size_mib;
    if needed <= room {
        return Ok(());
    }
    Err(Error::build(format!(
        "the UKI does not fit its slot: it has {needed} MiB, the slot has {room}"
    ))
    .cause(format!("its largest parts: {}", largest(parts)))
    .hint(remedy(needed, &board.name)))
}

/// The hint for a UKI of this many MiB with its header.
fn remedy(needed: u64, board: &str) -> String {
    if needed > MAX_SLOT_SIZE_MIB {
        return format!(
            "a slot can have at most {MAX_SLOT_SIZE_MIB} MiB: remove pods or files from the recipe"
        );
    }
    let size = (needed + 1).next_multiple_of(32).min(MAX_SLOT_SIZE_MIB);
    format!("set `slot-size-mib = {size}` in `boards/{board}.toml`")
}

/// The three largest parts of 1 MiB or more.
fn largest(parts: &Parts) -> String {
    let layers =
        parts.layers.iter().map(|layer| (format!("layer {}", layer.name), layer.image.size()));
    let mut sizes: Vec<_> =
        layers.chain([("the kernel".to_owned(), parts.kernel.image.size())]).collect();
    sizes.retain(|(_, size)| *size >= 1 << 20);
    sizes.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    let shown = sizes.iter().take(3).map(|(name, size)| format!("{name} ({})", bytes(*size)));
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_for_a_large_uki_names_a_size_that_a_board_can_have() {
        assert_eq!(remedy(63, "rack"), "set `slot-size-mib = 64` in `boards/rack.toml`");
        assert_eq!(remedy(64, "rack"), "set `slot-size-mib = 96` in `boards/rack.toml`");
        assert_eq!(remedy(2048, "rack"), "set `slot-size-mib = 2048` in `boards/rack.toml`");
        let none = "a slot can have at most 2048 MiB: remove pods or files from the recipe";
        assert_eq!(remedy(2049, "rack"), none);
    }
}
