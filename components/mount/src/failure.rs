//! What is said when the kernel refuses: the texts and exit codes of util-linux 2.38
//! (`context_mount.c`, `context_umount.c`), because the kubelet looks for some of them and users
//! know the others from pod events. Its hint to dmesg(1) is left out: the node has no such program.

use crate::request::MountRequest;
use rustix::io::Errno;
use rustix::mount::MountFlags;
use std::ffi::OsStr;
use std::fs;
use std::io::Error;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Exit code for a command line that is not served, or a caller that may not mount.
pub const USAGE: u8 = 1;
/// Exit code for a mount or unmount that failed.
pub const FAILED: u8 = 32;

/// At which call a mount failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The one that mounts.
    Mounting,
    /// One that changes what was just mounted.
    Following,
}

/// A mount that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    errno: Errno,
    moment: Moment,
}

impl Failure {
    /// The kernel's answer, and to which call.
    pub fn new(errno: Errno, moment: Moment) -> Failure {
        Failure { errno, moment }
    }

    /// The sentence for it, without program, target and period. Looks at source and target to tell
    /// causes apart that share a number.
    pub fn explain(&self, request: &MountRequest) -> String {
        let source = request.source.display();
        if self.moment == Moment::Following {
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

/// The sentence for an unmount that failed, without program, target and period. The kubelet looks
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
        // util-linux goes on with a hint to `-o loop`, which is not served.
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

/// The types whose options util-linux leaves to a helper program, of which the node has none.
fn is_network(kind: &str) -> bool {
    const NAMES: [&str; 7] = ["cifs", "smb3", "smbfs", "afs", "ncpfs", "glusterfs", "fuse.sshfs"];
    NAMES.contains(&kind) || kind.starts_with("nfs") || kind.starts_with("9p")
}

fn failed(errno: Errno) -> String {
    format!("mount(2) system call failed: {}", text(errno))
}

/// The C library's sentence for a number; Rust adds the number in brackets.
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
        Failure::new(errno, Moment::Mounting).explain(&MountRequest::parse(&words).unwrap())
    }

    #[test]
    fn a_type_without_kernel_support_is_named() {
        assert_eq!(explain("-t nfs server:/x /", Errno::NODEV), "unknown filesystem type 'nfs'");
    }

    #[test]
    fn the_words_that_the_kubelet_looks_for_are_there() {
        assert_eq!(explain_umount(Errno::INVAL), "not mounted");
    }

    #[test]
    fn one_number_has_several_causes() {
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
    fn a_failed_step_after_the_mount_says_that_it_was_undone() {
        let request =
            MountRequest::parse(&["-o", "bind,ro", "/a", "/b"].map(OsString::from)).unwrap();
        let said = Failure::new(Errno::PERM, Moment::Following).explain(&request);
        assert_eq!(said, "could not apply flags, nothing stays mounted: Operation not permitted");
    }
}
