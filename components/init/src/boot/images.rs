//! The layer with the node's pod images. It is a file system of its own, whose file no folder has:
//! Linux frees the file's memory when the last mount of it is gone.

use std::fs;
use std::path::Path;

use osbuild_abi::paths::IMAGES;
use osbuild_failure::{Explain, Outcome};
use rustix::mount::{UnmountFlags, mount_bind, unmount};

/// Moves the images from the layer that is mounted on `mounted` to their path in `root`, and
/// removes the layer's file.
pub fn place(layer: &Path, mounted: &Path, root: &str) -> Outcome {
    let images = mounted.join(IMAGES.trim_start_matches('/'));
    mount_bind(&images, format!("{root}{IMAGES}")).explain("mount the images of pods")?;
    unmount(mounted, UnmountFlags::empty())
        .explain(format_args!("unmount {}", mounted.display()))?;
    fs::remove_file(layer).explain(format_args!("remove {}", layer.display()))
}

/// Frees the memory of the images, after which their folder is empty.
pub fn free() -> Outcome {
    unmount(IMAGES, UnmountFlags::empty()).explain(format_args!("unmount {IMAGES}"))
}
