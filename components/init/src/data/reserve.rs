//! The part of DATA that is left to the node's own programs, so that a DATA which pods have filled
//! does not keep the node's pods from starting.
//!
//! ext4 keeps some blocks for a user, by default for root, which most pods run as; for programs
//! with `CAP_SYS_RESOURCE`, which does not count where overlayfs writes for a container; and for a
//! group. Here it is for a [group](GROUP) that `init`, containerd and the kubelet have. runc takes
//! it from the processes of a container. overlayfs writes as the process that mounted it, so the
//! root of a container can use the reserve: runc makes files there before a container starts.
//!
//! The image cannot say how large the reserve is: it is to hold the node's own images, which
//! containerd gets anew at each boot, also where the disk is small. Linux 6.12 has no call that
//! changes its size, so the superblock is changed while nothing is mounted.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use osbuild_abi::paths::{DATA, IMAGES};
use osbuild_failure::{Explain, Outcome};
use osbuild_formats::ext4;
use rustix::fs::statvfs;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::Gid;
use rustix::thread::set_thread_groups;

/// The user and the group of the reserve, as in [`OPTIONS`]. Nobody else has them.
const GROUP: u32 = 2_147_483_646;

/// The part of the mount options of DATA that is about the reserve.
pub const OPTIONS: &str = "resuid=2147483646,resgid=2147483646";

/// Room for what the node's programs write beside images: logs, certificates, records of pods.
const OTHER_FILES: u64 = 64 << 20;

/// Each image is there as a blob and unpacked. The reserve is no larger than this part of DATA.
const COPIES: u64 = 2;
const MAX_PART: u64 = 10;

/// Has this thread and all that it starts use the reserve.
pub fn join_group() -> Outcome {
    set_thread_groups(&[Gid::from_raw(GROUP)]).explain("join the group of DATA's reserve")
}

/// Gives the mounted file system of DATA on `device` the reserve that this node needs. `mount`
/// mounts it again after a change. Adds `lines` for the console: that the reserve has changed, or
/// why it cannot be.
///
/// # Errors
/// DATA was unmounted for the change, and cannot be mounted again.
pub fn apply(lines: &mut Vec<String>, device: &Path, mount: impl FnOnce() -> Outcome) -> Outcome {
    let cannot = format!("change the reserve of {}", device.display());
    let line = match needed(device, &cannot) {
        Ok(None) => return Ok(()),
        Ok(Some((file, blocks, size))) => {
            let unmount = || unmount(DATA, UnmountFlags::empty()).explain(&cannot);
            let changed = while_unmounted(unmount, || change(file, blocks, &cannot), mount)?;
            let mib = (u64::from(blocks) * size) >> 20;
            changed.map(|()| format!("{mib} MiB are reserved for the node's own programs"))
        }
        Err(failure) => Err(failure),
    };
    lines.push(line.unwrap_or_else(|failure| failure.to_string()));
    Ok(())
}

/// The device, the blocks to reserve, and their size, if that is another reserve than there is.
fn needed(device: &Path, cannot: &str) -> Outcome<Option<(File, u32, u64)>> {
    let mut file = File::options().read(true).write(true).open(device).explain(cannot)?;
    let found = statvfs(DATA).explain(format_args!("ask for the size of {DATA}"))?;
    let blocks = blocks(own_images()?, found.f_blocks, found.f_frsize);
    let write = ext4::reserve(&mut file, blocks).explain(cannot)?;
    Ok(write.map(|_| (file, blocks, found.f_frsize)))
}

/// Changes the superblock. Linux has written it once more when it was unmounted.
fn change(mut file: File, blocks: u32, cannot: &str) -> Outcome {
    let Some(write) = ext4::reserve(&mut file, blocks).explain(cannot)? else { return Ok(()) };
    file.write_all_at(&write.bytes, write.offset).and_then(|()| file.sync_all()).explain(cannot)
}

/// Carries out a change while nothing is mounted, and returns its outcome.
///
/// # Errors
/// Nothing is mounted afterwards.
fn while_unmounted(
    unmount: impl FnOnce() -> Outcome,
    change: impl FnOnce() -> Outcome,
    mount: impl FnOnce() -> Outcome,
) -> Outcome<Outcome> {
    if let Err(failure) = unmount() {
        return Ok(Err(failure));
    }
    let changed = change();
    mount()?;
    Ok(changed)
}

/// The reserve in blocks, for a node with images of so many bytes.
fn blocks(images: u64, of: u64, block_size: u64) -> u32 {
    let needed = (images * COPIES + OTHER_FILES) / block_size;
    needed.min(of / MAX_PART).try_into().unwrap_or(u32::MAX)
}

/// The bytes of the images that come with the node.
fn own_images() -> Outcome<u64> {
    let blobs: PathBuf = Path::new(IMAGES).join("blobs/sha256");
    let cannot = format!("list {}", blobs.display());
    let mut bytes = 0;
    for blob in blobs.read_dir().explain(&cannot)? {
        bytes += blob.and_then(|blob| blob.metadata()).explain(&cannot)?.len();
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_failure::Failure;

    #[test]
    fn only_a_data_that_is_not_mounted_again_fails_the_boot() {
        let failure = |reason: &str| Err(Failure::new(reason));
        let fails = |unmounts, changes, mounts| {
            let outcome = while_unmounted(|| unmounts, || changes, || mounts);
            outcome.map(|changed| changed.map_err(|failure| failure.to_string()))
        };
        assert_eq!(fails(Ok(()), Ok(()), Ok(())), Ok(Ok(())));
        // It is still mounted then.
        assert_eq!(fails(failure("busy"), Ok(()), failure("is")), Ok(Err("busy".to_owned())));
        assert_eq!(fails(Ok(()), failure("write"), Ok(())), Ok(Err("write".to_owned())));
        for changes in [Ok(()), failure("write")] {
            assert_eq!(fails(Ok(()), changes, failure("mount")), Err(Failure::new("mount")));
        }
    }

    #[test]
    fn the_mount_options_name_the_group() {
        assert_eq!(OPTIONS, format!("resuid={GROUP},resgid={GROUP}"));
    }

    #[test]
    fn the_reserve_holds_the_images_twice_and_is_a_tenth_at_most() {
        let mib = |mib: u64| mib << 20;
        let of_disk = |bytes: u64| u64::from(blocks(mib(50), bytes / 4096, 4096)) * 4096;
        assert_eq!(of_disk(mib(1 << 20)), mib(164));
        assert_eq!(of_disk(mib(4000)), mib(164));
        assert_eq!(of_disk(mib(400)), mib(40));
        assert_eq!(of_disk(0), 0);
    }
}
