//! Failures of the crate `osbuild-disks` as errors with hints.

use super::host_disk::HostDisk;
use crate::engine::fs_error::failed;
use crate::error::Error;
use osbuild_disks::Error as Failure;
use rustix::io::Errno;

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Io { doing, path, error } => failed(doing, &path, &error),
            Failure::Differs { .. } => Error::digest(failure.to_string())
                .hint("use another disk: this one is worn out, or smaller than it claims"),
            failure => {
                let error = Error::build(failure.to_string());
                std::error::Error::source(&failure).into_iter().fold(error, Error::cause)
            }
        }
    }
}

/// The error for a disk that cannot be opened, with a hint.
pub fn refused(disk: &HostDisk, failure: Failure) -> Error {
    let Failure::Open(path, error) = &failure else { return failure.into() };
    let path = path.display();
    match Errno::from_io_error(error) {
        Some(Errno::BUSY) => {
            Error::usage(format!("`{path}` is in use")).cause(error).hint(format!(
                "find what uses it, such as RAID, LVM or another program: `lsblk {path}`, `ls \
             /sys/class/block/{}/holders`",
                disk.name
            ))
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            Error::usage(format!("you have no permission to write to `{path}`"))
                .cause(error)
                .hint(format!("take ownership until it is unplugged: `sudo chown $USER {path}`"))
        }
        _ => failure.into(),
    }
}
