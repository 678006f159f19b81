//! The system calls that mount, change and unmount. None of them follows a symbolic link, and none
//! looks up a name beyond a file system in memory, so none waits for a disk or another machine.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use osbuild_failure::{Explain, Outcome};
use osbuild_protocol::{Mount, MountOptions, MountSource};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags, mkdirat, openat2, statx};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_remount, move_mount,
    open_tree, unmount,
};

use crate::mountinfo::{Entry, entries};

/// The table of mounts in the view of this thread.
const TABLE: &str = "/proc/thread-self/mountinfo";
/// How a folder is opened: it can be passed on, but not read.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// The flags of every look-up: it follows no symbolic or magic link.
const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);
/// The flags of a look-up of a single component: it also stays below its folder.
const HERE: ResolveFlags = NO_LINKS.union(ResolveFlags::BENEATH);
/// The flags of every mount: the kernel honors no set-user-ID bits and no device files on it.
const ALWAYS: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// A target as the folder above it and its name.
pub struct Target<'a> {
    folder: OwnedFd,
    name: &'a str,
}

/// The mounts, latest last.
pub fn table() -> Outcome<Vec<Entry>> {
    let table = std::fs::read(TABLE).explain(format_args!("read {TABLE}"))?;
    Ok(entries(&table))
}

impl<'a> Target<'a> {
    /// Opens the folder above the target, and makes it if it is missing.
    pub fn open(base: &str, parts: &'a [String]) -> io::Result<Target<'a>> {
        let (name, above) = parts.split_last().ok_or(Errno::INVAL)?;
        let base = openat2(CWD, base, FOLDER, Mode::empty(), NO_LINKS)?;
        let folder = above.iter().try_fold(base, |folder, part| child(&folder, part))?;
        Ok(Target { folder, name })
    }

    /// Mounts there, where nothing else is mounted. Returns the number of the mount.
    pub fn mount(&self, mount: &Mount) -> io::Result<u64> {
        let target = child(&self.folder, self.name)?;
        let made = match mount.source() {
            MountSource::Tmpfs { name, size } => {
                let made = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
                fsconfig_set_string(&made, "source", name.as_str())?;
                fsconfig_set_string(&made, "size", size.bytes().to_string())?;
                fsconfig_create(&made)?;
                fsmount(&made, FsMountFlags::FSMOUNT_CLOEXEC, attributes(mount.options()))?
            }
            MountSource::Bind(source) => {
                let source = openat2(CWD, source.as_str(), FOLDER, Mode::empty(), NO_LINKS)?;
                let flags = OpenTreeFlags::OPEN_TREE_CLONE
                    | OpenTreeFlags::OPEN_TREE_CLOEXEC
                    | OpenTreeFlags::AT_EMPTY_PATH;
                open_tree(&source, "", flags)?
            }
        };
        let how = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(&made, "", &target, "", how)?;
        if let MountSource::Bind(_) = mount.source() {
            remount(&made, mount)?;
        }
        id(&made)
    }

    /// Gives the mount with this number these options, and its tmpfs this size.
    pub fn change(&self, number: u64, mount: &Mount) -> io::Result<()> {
        let mounted = openat2(&self.folder, self.name, FOLDER, Mode::empty(), HERE)?;
        match id(&mounted)? == number {
            true => remount(&mounted, mount),
            false => Err(Errno::BUSY.into()),
        }
    }

    /// Unmounts what is mounted there. Fails if it is in use.
    pub fn unmount(&self) -> io::Result<()> {
        // The target itself stays closed, as an open one is in use.
        let path = magic_path(&self.folder).join(self.name);
        Ok(unmount(path, UnmountFlags::NOFOLLOW)?)
    }
}

/// Opens a folder in the same file system, and makes it if it is missing.
fn child(folder: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let open = || openat2(folder, name, FOLDER, Mode::empty(), HERE | ResolveFlags::NO_XDEV);
    match open() {
        Err(Errno::NOENT) => {
            mkdirat(folder, name, Mode::from_raw_mode(0o755))?;
            Ok(open()?)
        }
        opened => Ok(opened?),
    }
}

/// The number of the mount that a folder is in.
fn id(folder: &OwnedFd) -> io::Result<u64> {
    let found = statx(folder, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    Ok(found.stx_mnt_id)
}

fn remount(mounted: &OwnedFd, mount: &Mount) -> io::Result<()> {
    let MountOptions { read_only, exec } = mount.options();
    let mut flags = ALWAYS;
    flags.set(MountFlags::NOEXEC, !exec);
    flags.set(MountFlags::RDONLY, read_only);
    let data = match mount.source() {
        MountSource::Tmpfs { size, .. } => format!("size={}", size.bytes()),
        // The file system behind it stays as it is.
        MountSource::Bind(_) => {
            flags |= MountFlags::BIND;
            String::new()
        }
    };
    let data = CString::new(data)?;
    Ok(mount_remount(magic_path(mounted), flags, data.as_c_str())?)
}

fn attributes(options: MountOptions) -> MountAttrFlags {
    let mut flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    flags.set(MountAttrFlags::MOUNT_ATTR_NOEXEC, !options.exec);
    flags.set(MountAttrFlags::MOUNT_ATTR_RDONLY, options.read_only);
    flags
}

/// The path that leads to an open folder.
fn magic_path(folder: &OwnedFd) -> PathBuf {
    Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string())
}
