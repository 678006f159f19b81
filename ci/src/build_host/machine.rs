//! The emulated machine of a build host. It runs commands, and powers off.

use super::debian::Debian;
use crate::disk_file;
use crate::site::Site;
use osbuild::error::{Context, Result};
use osbuild_formats::cpio::{self, Entry};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The log of the machine.
const LOG: &str = "build-host";

/// How many seconds the machine may run.
const TIMEOUT: &str = "7200";

/// The size of its disk.
const DISK: u64 = 16 << 30;

/// Start of a line that the exit code of the commands follows.
const END: &str = "build host: exit code ";

/// The modules with which the kernel mounts the disk and runs an emulator, each after those that it
/// needs.
const MODULES: [&str; 11] = [
    "lib/crc16",
    "crypto/crc32c_generic",
    "lib/libcrc32c",
    "fs/mbcache",
    "fs/jbd2/jbd2",
    "fs/ext4/ext4",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci",
    "drivers/block/virtio_blk",
    "fs/binfmt_misc",
];

/// PID 1 until the disk is mounted.
const INIT: &str = "#!/bin/busybox sh
for module in /modules/*; do busybox insmod $module; done
busybox mount -t devtmpfs devtmpfs /dev
busybox mount -t ext4 /dev/vda /new
exec busybox switch_root /new /bin/sh /srv/start
";

/// PID 1 after it, up to the commands. systemd registers the emulator in the same way.
const START: &str = "export PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/srv
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
cat /usr/lib/binfmt.d/qemu-x86_64.conf >/proc/sys/fs/binfmt_misc/register
";

/// The end of PID 1. No service has to stop.
const STOP: &str = "sync
echo o >/proc/sysrq-trigger
sleep 60
";

/// A machine that has run its commands.
pub struct Machine {
    /// Everything that it printed.
    pub output: String,
    disk: PathBuf,
}

impl Machine {
    /// Boots `debian` in `folder`, and runs `commands` as root until one fails.
    ///
    /// # Errors
    /// A command fails, or the machine takes longer than [`TIMEOUT`].
    pub fn run(site: &Site, debian: &Debian, folder: &Path, commands: &str) -> Result<Self> {
        write(&debian.root.join("srv/commands"), commands.as_bytes())?;
        let start =
            format!("{START}{{ sh -ex /srv/commands; echo \"{END}$?\"; }} 2>&1 | cat\n{STOP}");
        write(&debian.root.join("srv/start"), start.as_bytes())?;
        let (disk, initramfs) = (folder.join("disk.raw"), folder.join("initramfs"));
        disk_file::create(&disk, DISK)?;
        let mut format = Command::new("mke2fs");
        format.args(["-q", "-t", "ext4", "-d"]).args([&debian.root, &disk]);
        site.finish("build-host-disk", &mut format)?;
        write(&initramfs, &self::initramfs(debian)?)?;
        let ran = site.run(LOG, &mut qemu(debian, &initramfs, &disk))?;
        let has_ended = ran.output.lines().any(|line| line.trim_end() == format!("{END}0"));
        if has_ended {
            Ok(Machine { output: ran.output, disk })
        } else {
            Err(ran.failure("the commands of the build host failed"))
        }
    }

    /// Copies a folder of the disk's `/srv` into `to`.
    ///
    /// # Errors
    /// `debugfs` fails.
    pub fn take(&self, site: &Site, name: &str, to: &Path) -> Result<()> {
        fs::create_dir_all(to).or_build(|| format!("cannot make `{}`", to.display()))?;
        let mut debugfs = Command::new("debugfs");
        debugfs.arg("-R").arg(format!("rdump /srv/{name} {}", to.display())).arg(&self.disk);
        site.finish("build-host-products", &mut debugfs).map(drop)
    }
}

fn qemu(debian: &Debian, initramfs: &Path, disk: &Path) -> Command {
    let mut qemu = Command::new("timeout");
    qemu.args([TIMEOUT, "qemu-system-aarch64", "-machine", "virt", "-nographic", "-no-reboot"]);
    qemu.args(["-cpu", "max,pauth-impdef=on", "-accel", "tcg,thread=multi"]);
    qemu.args(["-smp", "2", "-m", "6144", "-nic", "none"]);
    qemu.arg("-kernel").arg(&debian.kernel).arg("-initrd").arg(initramfs);
    qemu.args(["-append", "console=ttyAMA0 panic=-1 quiet", "-drive"]);
    qemu.arg(format!("file={},format=raw,if=virtio,cache=unsafe", disk.display()));
    qemu
}

/// An initramfs that mounts the disk.
fn initramfs(debian: &Debian) -> Result<Vec<u8>> {
    let busybox = read(&debian.root.join("bin/busybox"))?;
    let mut entries =
        ["/bin", "/dev", "/modules", "/new"].map(|name| Entry::directory(name, 0o755)).to_vec();
    entries.push(Entry::file("/bin/busybox", 0o755, busybox));
    entries.push(Entry::file("/init", 0o755, INIT.as_bytes()));
    for (index, module) in MODULES.iter().enumerate() {
        let bytes = read(&debian.modules.join("kernel").join(module).with_extension("ko"))?;
        entries.push(Entry::file(&format!("/modules/{index:02}"), 0o644, bytes));
    }
    entries.push(Entry::char_device("/dev/console", 0o600, 5, 1));
    cpio::write(&entries, Vec::new()).or_build(|| "cannot write an initramfs".to_owned())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).or_build(|| format!("cannot read `{}`", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).or_build(|| format!("cannot write `{}`", path.display()))
}
