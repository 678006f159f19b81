//! `init` as `/init` of the initramfs: it mounts the read-only layers as the root and executes
//! `/bin/init` in it.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use osbuild_abi::paths::{EARLY_INIT, IMAGES_LAYER, INIT, LAYERS};
use osbuild_failure::{Explain, Failure, Outcome};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change, mount_move};

use super::images;
use crate::host::mounts::mount_one;

/// The folder of the initramfs below which each layer is mounted.
const STACK: &str = "/stack";
/// The folder of the initramfs on which the root is mounted.
const NEW_ROOT: &str = "/newroot";

/// Makes the root and continues in it. Returns only if that failed.
pub fn run() -> Failure {
    match devices().and_then(|()| make_root()).and_then(|()| enter_root()) {
        Ok(()) => Failure::new(format!("start {INIT}: {}", Command::new(INIT).exec())),
        Err(failure) => failure,
    }
}

/// Mounts /dev and opens its console, so that a failure from here on can be read.
fn devices() -> Outcome {
    fs::create_dir_all("/dev").explain("make /dev")?;
    mount_devices("/dev")?;
    // A machine without a console boots all the same.
    if let Ok(console) = OpenOptions::new().read(true).write(true).open("/dev/console") {
        use_console(&console).explain("use /dev/console")?;
    }
    Ok(())
}

fn use_console(console: &File) -> rustix::io::Result<()> {
    rustix::stdio::dup2_stdin(console)?;
    rustix::stdio::dup2_stdout(console)?;
    rustix::stdio::dup2_stderr(console)
}

fn mount_devices(path: &str) -> Outcome {
    mount_one("devtmpfs", path, MountFlags::NOSUID | MountFlags::NOEXEC, "mode=0755")
}

/// Mounts every layer from its file, and an overlay of those of the root. Without an upper folder
/// nothing can write to it.
fn make_root() -> Outcome {
    let Layers { root, images } = layers(Path::new(LAYERS))?;
    let mounted = root.iter().map(|layer| mount_layer(layer)).collect::<Outcome<Vec<_>>>()?;
    fs::create_dir_all(NEW_ROOT).explain(format_args!("make {NEW_ROOT}"))?;
    let flags = MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOSUID;
    match mounted.as_slice() {
        // An overlay needs two layers.
        [only] => mount_move(only, NEW_ROOT).explain("move the layer")?,
        _ => {
            let options = CString::new(lower_folders(&mounted)).explain("the layers' names")?;
            mount("overlay", NEW_ROOT, "overlay", flags, options.as_c_str())
                .explain("stack the layers")?;
        }
    }
    images::place(&images, &mount_layer(&images)?, NEW_ROOT)?;
    mount_devices(&format!("{NEW_ROOT}/dev"))
}

/// Mounts a layer, and returns the folder on which it is.
fn mount_layer(layer: &Path) -> Outcome<PathBuf> {
    let target = Path::new(STACK).join(layer.file_stem().unwrap_or_default());
    fs::create_dir_all(&target).explain(format_args!("make {}", target.display()))?;
    let flags = MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOSUID;
    mount(layer, &target, "erofs", flags, None)
        .explain(format_args!("mount the layer {}", layer.display()))?;
    Ok(target)
}

/// The files of the layers.
#[derive(Debug, PartialEq)]
struct Layers {
    /// Those of the root, lowest first.
    root: Vec<PathBuf>,
    /// The one with the images of pods.
    images: PathBuf,
}

/// Finds the layers. Unsigned files that a UEFI stub adds to the initramfs end in `.cred`, `.raw`
/// or `.json`, so they are never layers.
fn layers(folder: &Path) -> Outcome<Layers> {
    let entries = fs::read_dir(folder).explain(format_args!("read {}", folder.display()))?;
    let mut root: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    root.retain(|path| path.extension().is_some_and(|extension| extension == "erofs"));
    root.sort();
    let of_images = root.iter().position(|path| has_images(path));
    let missing = |name| Failure::new(format!("{} has no layer{name}", folder.display()));
    let images = root.remove(of_images.ok_or_else(|| missing(" with the images of pods"))?);
    if root.is_empty() { Err(missing("")) } else { Ok(Layers { root, images }) }
}

/// Whether this is the layer with the images of pods, of any number.
fn has_images(layer: &Path) -> bool {
    let name = layer.file_stem().and_then(|stem| stem.to_str()?.split_once('-'));
    name.is_some_and(|(_, name)| name == IMAGES_LAYER)
}

/// The overlay's option: the topmost layer comes first.
fn lower_folders(mounted: &[PathBuf]) -> String {
    let folders: Vec<String> =
        mounted.iter().rev().map(|path| path.display().to_string()).collect();
    format!("lowerdir={}", folders.join(":"))
}

/// Moves the root over the initramfs. `pivot_root` cannot do that, as the initramfs has no parent
/// mount.
fn enter_root() -> Outcome {
    // This file is not needed any more, and its memory is freed.
    fs::remove_file(EARLY_INIT).explain(format_args!("remove {EARLY_INIT}"))?;
    std::env::set_current_dir(NEW_ROOT).explain("enter the root")?;
    mount_move(".", "/").explain("move the root")?;
    rustix::process::chroot(".").explain("change the root")?;
    std::env::set_current_dir("/").explain("enter the root")?;
    // Later mounts appear in the mount namespaces of containers, which the kubelet's mount
    // propagation needs.
    mount_change("/", MountPropagationFlags::SHARED | MountPropagationFlags::REC)
        .explain("share the root")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layer_of_the_highest_number_is_the_topmost() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "20-kubelet.erofs",
            "10-base.erofs",
            "30-files.erofs",
            "25-images.erofs",
            "40-more.erofs.raw",
            "50-more.cred",
        ] {
            File::create(folder.path().join(name)).unwrap();
        }
        let Layers { root, images } = layers(folder.path()).unwrap();
        let names: Vec<_> = root.iter().map(|path| path.file_name().unwrap()).collect();
        assert_eq!(names, ["10-base.erofs", "20-kubelet.erofs", "30-files.erofs"]);
        assert_eq!(images, folder.path().join("25-images.erofs"));
        let mounted = ["/stack/10-base", "/stack/20-kubelet"].map(PathBuf::from);
        assert_eq!(lower_folders(&mounted), "lowerdir=/stack/20-kubelet:/stack/10-base");
    }

    #[test]
    fn an_initramfs_without_a_root_or_without_images_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = || layers(folder.path()).unwrap_err().to_string();
        File::create(folder.path().join("10-base.erofs")).unwrap();
        assert!(refused().ends_with("has no layer with the images of pods"), "{}", refused());
        fs::rename(folder.path().join("10-base.erofs"), folder.path().join("10-images.erofs"))
            .unwrap();
        assert!(refused().ends_with("has no layer"), "{}", refused());
        assert!(layers(&folder.path().join("none")).is_err());
    }
}
