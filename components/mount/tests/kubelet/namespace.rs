//! A mount namespace for one test, which keeps its mounts from the host.

use mount::guard;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;

/// The programs to run.
#[derive(Clone, Copy, Debug)]
pub enum Programs {
    /// This crate's.
    Ours,
    /// The host's util-linux.
    UtilLinux,
}

impl Programs {
    /// Runs `mount …`, `umount …` or `losetup …`.
    pub fn run(self, line: &str) -> Output {
        let mut words = line.split(' ');
        let name = words.next().unwrap();
        let path = match (self, name) {
            (Programs::Ours, "mount" | "losetup") => env!("CARGO_BIN_EXE_mount"),
            (Programs::Ours, "umount") => env!("CARGO_BIN_EXE_umount"),
            (Programs::UtilLinux, "mount") => "/usr/bin/mount",
            (Programs::UtilLinux, "umount") => "/usr/bin/umount",
            (Programs::UtilLinux, "losetup") => "/sbin/losetup",
            _ => panic!("{line}"),
        };
        let mut command = Command::new(path);
        command.arg0(name).args(words).env_clear().env(guard::KEY, guard::VALUE).output().unwrap()
    }
}

/// Runs `work` on a thread with its own mount namespace, in which `folder` is an empty tmpfs.
pub fn private<T: Send>(folder: &Path, work: impl FnOnce() -> T + Send) -> T {
    let inside = || {
        // SAFETY: only the mount namespace is unshared, which no memory of this process depends on.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }
            .expect("these tests require uid 0 and CAP_SYS_ADMIN");
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
        mount("work", folder, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, None).unwrap();
        work()
    };
    thread::scope(|scope| match scope.spawn(inside).join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
