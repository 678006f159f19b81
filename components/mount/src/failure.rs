//! Error messages and exit codes, those of util-linux 2.38 (`context_mount.c`, `context_umount.c`,
//! `losetup.c`): the kubelet parses some of the messages, and users know the others from pod
//! events. util-linux's hint to dmesg(1) is left out, because the node has no such program.

use crate::loop_request::LoopNumber;
use crate::request::MountRequest;
use rustix::io::Errno;
use rustix::mount::MountFlags;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::Error;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Exit code for an unsupported command line, or a caller that may not mount.
pub const USAGE: u8 = 1;
/// Exit code for a loop device that was not attached or detached.
pub const LOOP_FAILED: u8 = 1;
/// Exit code for a mount or unmount that failed.
pub const FAILED: u8 = 32;

/// The system call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The call that mounts or remounts.
    Mount,
    /// A call that then changes the mount.
    Change,
}

/// A mount that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    errno: Errno,
    step: Step,
}

impl Failure {
    /// The kernel's error, and the call that failed.
    pub fn new(errno: Errno, step: Step) -> Failure {
        Failure { errno, step }
    }

    /// The message, without program, target and period. Inspects source and target to distinguish
    /// causes that share an errno.
    pub fn explain(&self, request: &MountRequest) -> String {
        let source = request.source.display();
        if self.step == Step::Change {
            let left =
                if request.options.remount { "the mount stays" } else { "nothing stays mounted" };
            return format!("could not apply flags, {left}: {}", text(self.errno));
        }
        match self.errno {
            Errno::PERM => permission(request),
            Errno::BUSY if request.options.remount => "mount point is busy".into(),
            Errno::BUSY => format!("{source} already mounted or mount point busy"),
            Errno::NOENT => absent(request),
            Errno::NOTDIR => not_a_directory(request),
            Errno::INVAL => invalid(request),
            Errno::MFILE => "mount table full".into(),
            Errno::IO => format!("can't read superblock on {source}"),
            Errno::NODEV => match &request.kind {
                Some(kind) => format!("unknown filesystem type '{kind}'"),
                None => "unknown filesystem type".into(),
            },
            Errno::NOTBLK => not_a_device(request),
            Errno::NXIO => format!("{source} is not a valid block device"),
            Errno::ACCESS | Errno::ROFS => write_protected(request, self.errno),
            Errno::NOMEDIUM => format!("no medium found on {source}"),
            Errno::BADMSG if is_device_or_file(&request.source) => {
                format!("cannot mount; probably corrupted filesystem on {source}")
            }
            errno => failed(errno),
        }
    }
}

/// A loop device that was not attached or detached. Its text is the message without the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopFailure {
    /// The kernel has no free device.
    NoneFree,
    /// This path cannot be attached.
    Attach(OsString, Errno),
    /// This device does not exist.
    NotThere(LoopNumber),
    /// This device cannot be detached.
    Detach(LoopNumber, Errno),
}

impl fmt::Display for LoopFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoopFailure::NoneFree => f.write_str("cannot find an unused loop device"),
            LoopFailure::Attach(path, errno) => {
                write!(f, "{}: failed to set up loop device: {}", path.display(), text(*errno))
            }
            LoopFailure::NotThere(number) => {
                write!(f, "{number}: failed to use device: {}", text(Errno::NODEV))
            }
            LoopFailure::Detach(number, errno) => {
                write!(f, "{number}: detach failed: {}", text(*errno))
            }
        }
    }
}

/// The message for a failed unmount, without program, target and period. The kubelet searches it
/// for `not mounted`.
pub fn explain_umount(errno: Errno) -> String {
    match errno {
        Errno::NXIO => "invalid block device".into(),
        Errno::INVAL => "not mounted".into(),
        Errno::IO => "can't write superblock".into(),
        Errno::BUSY => "target is busy".into(),
        Errno::NOENT => "no mount point specified".into(),
        Errno::PERM => "must be superuser to unmount".into(),
        Errno::ACCESS => "block devices are not permitted on filesystem".into(),
        errno => format!("umount(2) system call failed: {}", text(errno)),
    }
}

fn permission(request: &MountRequest) -> String {
    match Path::new(&request.target).is_dir() {
        true => "permission denied".into(),
        false => "mount point is not a directory".into(),
    }
}

fn absent(request: &MountRequest) -> String {
    if fs::symlink_metadata(&request.target).is_err() {
        "mount point does not exist".into()
    } else if fs::metadata(&request.target).is_err() {
        "mount point is a symbolic link to nowhere".into()
    } else if fs::metadata(&request.source).is_err() {
        format!("special device {} does not exist", request.source.display())
    } else {
        failed(Errno::NOENT)
    }
}

fn not_a_directory(request: &MountRequest) -> String {
    let source = fs::metadata(&request.source).map_err(|error| error.raw_os_error());
    if !Path::new(&request.target).is_dir() {
        "mount point is not a directory".into()
    } else if matches!(source, Err(code) if code == Some(Errno::NOTDIR.raw_os_error())) {
        format!(
            "special device {} does not exist (a path prefix is not a directory)",
            request.source.display()
        )
    } else {
        failed(Errno::NOTDIR)
    }
}

fn invalid(request: &MountRequest) -> String {
    if request.options.remount {
        "mount point not mounted or bad option".into()
    } else if request.kind.as_deref().is_some_and(is_network) {
        "bad option; for several filesystems (e.g. nfs, cifs) you might need a \
         /sbin/mount.<type> helper program"
            .into()
    } else {
        format!(
            "wrong fs type, bad option, bad superblock on {}, missing codepage or helper program, \
             or other error",
            request.source.display()
        )
    }
}

fn not_a_device(request: &MountRequest) -> String {
    let source = request.source.display();
    match fs::metadata(&request.source) {
        Err(_) => format!("{source} is not a block device, and stat(2) fails?"),
        Ok(found) if found.file_type().is_block_device() => {
            format!("the kernel does not recognize {source} as a block device")
        }
        // util-linux adds a hint to `-o loop`, which is not supported.
        Ok(_) => format!("{source} is not a block device"),
    }
}

fn write_protected(request: &MountRequest, errno: Errno) -> String {
    let source = request.source.display();
    if request.options.flags.contains(MountFlags::RDONLY) {
        format!("cannot mount {source} read-only")
    } else if request.options.remount {
        format!("cannot remount {source} read-write, is write-protected")
    } else if request.options.bind.is_some() {
        format!("bind {source} failed")
    } else {
        failed(errno)
    }
}

fn is_device_or_file(source: &OsStr) -> bool {
    fs::metadata(source).is_ok_and(|found| found.file_type().is_block_device() || found.is_file())
}

/// The types whose options util-linux leaves to a `mount.TYPE` program. The node has none.
fn is_network(kind: &str) -> bool {
    const NAMES: [&str; 7] = ["cifs", "smb3", "smbfs", "afs", "ncpfs", "glusterfs", "fuse.sshfs"];
    NAMES.contains(&kind) || kind.starts_with("nfs") || kind.starts_with("9p")
}

fn failed(errno: Errno) -> String {
    format!("mount(2) system call failed: {}", text(errno))
}

/// The C library's message for an errno, without the number that Rust appends.
fn text(errno: Errno) -> String {
    let whole = Error::from(errno).to_string();
    whole.split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn explain(line: &str, errno: Errno) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Failure::new(errno, Step::Mount).explain(&MountRequest::parse(&words).unwrap())
    }

    #[test]
    fn an_unsupported_file_system_type_is_named() {
        assert_eq!(explain("-t nfs server:/x /", Errno::NODEV), "unknown filesystem type 'nfs'");
    }

    #[test]
    fn the_message_that_the_kubelet_parses_is_exact() {
        assert_eq!(explain_umount(Errno::INVAL), "not mounted");
    }

    #[test]
    fn one_errno_has_several_causes() {
        assert_eq!(
            explain("-o bind /nowhere /", Errno::NOENT),
            "special device /nowhere does not exist"
        );
        assert_eq!(explain("-o bind / /nowhere", Errno::NOENT), "mount point does not exist");
        assert_eq!(
            explain("-o bind / /", Errno::NOENT),
            "mount(2) system call failed: No such file or directory"
        );
    }

    #[test]
    fn a_failed_change_reports_that_the_mount_was_undone() {
        let request =
            MountRequest::parse(&["-o", "bind,ro", "/a", "/b"].map(OsString::from)).unwrap();
        let message = Failure::new(Errno::PERM, Step::Change).explain(&request);
        assert_eq!(
            message,
            "could not apply flags, nothing stays mounted: Operation not permitted"
        );
    }
}
