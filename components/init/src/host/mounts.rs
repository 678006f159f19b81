//! The mounts of the kernel's file systems and of the writable paths in memory.

use std::ffi::CString;
use std::path::PathBuf;

use osbuild_abi::paths::{FIRMWARE_MESSAGES, FIRMWARE_VARIABLES};
use osbuild_abi::writable::{Backing, WRITABLE};
use osbuild_failure::{Explain, Outcome};
use rustix::mount::{MountFlags, mount};

use crate::mountinfo::above_root;

/// A file system that the kernel makes.
struct KernelMount {
    kind: &'static str,
    path: &'static str,
    options: &'static str,
    flags: MountFlags,
    /// Whether the boot fails without it.
    needed: bool,
}

const QUIET: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);
const DEVICES: MountFlags = MountFlags::NOSUID.union(MountFlags::NOEXEC);

/// In the order in which they are mounted. The early life of `init` has mounted /dev already.
const KERNEL_MOUNTS: &[KernelMount] = &[
    needed("proc", "/proc", QUIET, ""),
    needed("sysfs", "/sys", QUIET, ""),
    needed("devpts", "/dev/pts", DEVICES, "gid=5,mode=0620,ptmxmode=0666"),
    needed("tmpfs", "/dev/shm", QUIET, "mode=1777,size=10%"),
    // The delegation flag keeps a container from moving its processes out of its own subtree.
    needed("cgroup2", "/sys/fs/cgroup", QUIET, "nsdelegate,memory_recursiveprot"),
    optional("bpf", "/sys/fs/bpf", QUIET, "mode=0700"),
    optional("securityfs", "/sys/kernel/security", QUIET, ""),
    optional("pstore", FIRMWARE_MESSAGES, QUIET, ""),
    // For agents that observe with eBPF.
    optional("tracefs", "/sys/kernel/tracing", QUIET, "mode=0700"),
    // Read-only: a stray write to a firmware variable can make a machine unable to boot.
    optional("efivarfs", FIRMWARE_VARIABLES, QUIET.union(MountFlags::RDONLY), ""),
];

const fn needed(
    kind: &'static str,
    path: &'static str,
    flags: MountFlags,
    options: &'static str,
) -> KernelMount {
    KernelMount { kind, path, options, flags, needed: true }
}

const fn optional(
    kind: &'static str,
    path: &'static str,
    flags: MountFlags,
    options: &'static str,
) -> KernelMount {
    KernelMount { kind, path, options, flags, needed: false }
}

/// Mounts the kernel's file systems.
pub fn apply_kernel() -> Outcome {
    for path in ["/dev/pts", "/dev/shm"] {
        // It is there already when the kernel made it.
        let _ = std::fs::create_dir(path);
    }
    for row in KERNEL_MOUNTS {
        match mount_one(row.kind, row.path, row.flags, row.options) {
            Err(failure) if row.needed => return Err(failure),
            // A kernel or a machine without it, for example one that was not booted by UEFI.
            _ => {}
        }
    }
    Ok(())
}

/// Mounts the writable paths in memory.
pub fn apply_memory() -> Outcome {
    for row in WRITABLE {
        if let Backing::Memory(percent) = row.backing {
            let flags = if row.exec { MountFlags::NOSUID | MountFlags::NODEV } else { QUIET };
            mount_one("tmpfs", row.path, flags, &format!("mode={:o},size={percent}%", row.mode))?;
        }
    }
    Ok(())
}

/// The mount points that are not the kernel's own file systems, latest first.
pub fn observe() -> Outcome<Vec<PathBuf>> {
    let table = std::fs::read("/proc/self/mountinfo").explain("read /proc/self/mountinfo")?;
    Ok(above_root(&table))
}

/// Mounts a file system that has no device behind it.
pub fn mount_one(kind: &str, path: &str, flags: MountFlags, options: &str) -> Outcome {
    let options = CString::new(options).explain("mount options")?;
    mount(kind, path, kind, flags, options.as_c_str())
        .explain(format_args!("mount {kind} on {path}"))
}
