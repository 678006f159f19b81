//! `init` as `/init` of the initramfs: it mounts the read-only layers as the root and executes
//! `/bin/init` in it.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use osbuild_abi::paths::{EARLY_INIT, INIT, LAYERS};
use osbuild_failure::{Explain, Failure, Outcome};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change, mount_move};

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

/// Mounts every layer from its file, and an overlay of all of them. Without an upper folder nothing
/// can write to it.
fn make_root() -> Outcome {
    let layers = layers(Path::new(LAYERS))?;
    let mut mounted = Vec::new();
    for layer in &layers {
        let target = Path::new(STACK).join(layer.file_stem().unwrap_or_default());
        fs::create_dir_all(&target).explain(format_args!("make {}", target.display()))?;
        mount(
            layer,
            &target,
            "erofs",
            MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOSUID,
            None,
        )
        .explain(format_args!("mount the layer {}", layer.display()))?;
        mounted.push(target);
    }
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
    mount_devices(&format!("{NEW_ROOT}/dev"))
}

/// The layers, lowest first. Unsigned files that a UEFI stub adds to the initramfs end in `.cred`,
/// `.raw` or `.json`, so they are never layers.
fn layers(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).explain(format_args!("read {}", folder.display()))?;
    let mut layers: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    layers.retain(|path| path.extension().is_some_and(|extension| extension == "erofs"));
    layers.sort();
    if layers.is_empty() {
        return Err(Failure::new(format!("{} has no layer", folder.display())));
    }
    Ok(layers)
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
            "40-more.erofs.raw",
            "50-more.cred",
        ] {
            File::create(folder.path().join(name)).unwrap();
        }
        let names: Vec<_> = layers(folder.path())
            .unwrap()
            .iter()
            .map(|path| path.file_name().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["10-base.erofs", "20-kubelet.erofs", "30-files.erofs"]);
        let mounted = ["/stack/10-base", "/stack/20-kubelet"].map(PathBuf::from);
        assert_eq!(lower_folders(&mounted), "lowerdir=/stack/20-kubelet:/stack/10-base");
    }

    #[test]
    fn an_initramfs_without_layers_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(layers(folder.path()).is_err());
        assert!(layers(&folder.path().join("none")).is_err());
    }
}
