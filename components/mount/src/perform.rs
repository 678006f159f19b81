//! Makes the system calls of a plan. Only this module changes the system.

use crate::failure::{Failure, Step};
use crate::plan::{First, Plan, Then};
use crate::request::{MountRequest, UmountRequest};
use rustix::io::Errno;
use rustix::mount::{self as sys, MountFlags, UnmountFlags};
use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;

/// The outcome of a successful mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Mounted as requested.
    Mounted,
    /// Mounted read-only instead of writable, because the device is write-protected.
    MountedReadOnly,
}

/// Mounts. If a later call fails, the mount is undone, so that a volume that was requested
/// read-only is never left writable. (util-linux leaves it.)
pub fn mount(request: &MountRequest) -> Result<Outcome, Failure> {
    let plan = Plan::new(request);
    let source = resolved(request);
    let outcome = first(&plan.first, &source, request)?;
    for then in &plan.then {
        if let Err(errno) = follow(*then, &request.target) {
            if !request.options.remount {
                // The first failure is the one to report; this call fails only if the mount is
                // gone.
                let _ = sys::unmount(&request.target, UnmountFlags::DETACH);
            }
            return Err(Failure::new(errno, Step::Change));
        }
    }
    Ok(outcome)
}

/// Unmounts.
pub fn umount(request: &UmountRequest) -> Result<(), Errno> {
    let flags = if request.force { UnmountFlags::FORCE } else { UnmountFlags::empty() };
    sys::unmount(&request.target, flags)
}

/// Resolves a symbolic link below `/dev`, as util-linux does: `/proc/mounts` shows the source as it
/// was passed, and the kubelet compares devices by that name. The kernel resolves all other paths.
fn resolved(request: &MountRequest) -> OsString {
    let is_device = request.source.as_bytes().starts_with(b"/dev/");
    match fs::canonicalize(&request.source) {
        Ok(path) if is_device && request.canonicalize => path.into_os_string(),
        _ => request.source.clone(),
    }
}

fn first(call: &First, source: &OsStr, request: &MountRequest) -> Result<Outcome, Failure> {
    let (target, data) = (&request.target, &request.options.data);
    match call {
        First::Bind(crate::option::BindDepth::One) => {
            sys::mount_bind(source, target).map(|()| Outcome::Mounted)
        }
        First::Bind(crate::option::BindDepth::Tree) => {
            sys::mount_bind_recursive(source, target).map(|()| Outcome::Mounted)
        }
        First::Remount(flags) => {
            sys::mount_remount(target, *flags, data.as_str()).map(|()| Outcome::Mounted)
        }
        First::Mount(kind, flags) => {
            with_read_only_fallback(*flags, |flags| file_system(kind, source, target, flags, data))
        }
        First::Probe(flags) => {
            with_read_only_fallback(*flags, |flags| probe(source, target, flags, data))
        }
    }
    .map_err(|errno| Failure::new(errno, Step::Mount))
}

/// Mounts a write-protected device read-only, and reports that.
fn with_read_only_fallback(
    flags: MountFlags,
    mount: impl Fn(MountFlags) -> Result<(), Errno>,
) -> Result<Outcome, Errno> {
    match mount(flags) {
        Ok(()) => Ok(Outcome::Mounted),
        Err(Errno::ROFS | Errno::ACCESS) if !flags.contains(MountFlags::RDONLY) => {
            mount(flags | MountFlags::RDONLY).map(|()| Outcome::MountedReadOnly)
        }
        Err(errno) => Err(errno),
    }
}

fn file_system(
    kind: &str,
    source: &OsStr,
    target: &OsStr,
    flags: MountFlags,
    data: &str,
) -> Result<(), Errno> {
    let data = CString::new(data).map_err(|_| Errno::INVAL)?;
    let data = (!data.is_empty()).then_some(data.as_c_str());
    sys::mount(source, target, kind, flags, data)
}

/// Tries each of the kernel's file system types for devices, in its order, until one recognizes the
/// device.
fn probe(source: &OsStr, target: &OsStr, flags: MountFlags, data: &str) -> Result<(), Errno> {
    let kinds = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let mut result = Err(Errno::NODEV);
    for kind in kinds.lines().filter_map(|line| line.strip_prefix('\t')) {
        result = file_system(kind, source, target, flags | MountFlags::SILENT, data);
        if !matches!(result, Err(Errno::INVAL | Errno::NODEV)) {
            break;
        }
    }
    result
}

fn follow(then: Then, target: &OsStr) -> Result<(), Errno> {
    match then {
        Then::Propagate(change) => sys::mount_change(target, change),
        Then::Restrict(flags) => sys::mount_remount(target, flags, ""),
    }
}
