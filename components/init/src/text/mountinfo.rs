//! The kernel's table of mounts, `/proc/self/mountinfo` (proc(5)). Pods mount too, at paths of
//! their choice: any bytes except NUL.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The mount points, latest first, except those that `init` itself needs to the end.
pub fn above_root(table: &[u8]) -> Vec<PathBuf> {
    let points = table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    let mut points: Vec<PathBuf> =
        points.map(|field| OsString::from_vec(unescaped(field)).into()).collect();
    points.retain(|path| {
        path.parent().is_some()
            && !["/proc", "/sys", "/dev"].iter().any(|kept| path.starts_with(kept))
    });
    points.reverse();
    points
}

/// The bytes of a field, in which a space, for example, is written as `\040`.
fn unescaped(mut field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    while let [first, rest @ ..] = field {
        let (byte, rest) = match rest {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] if *first == b'\\' => {
                ((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'), rest)
            }
            _ => (*first, rest),
        };
        bytes.push(byte);
        field = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_latest_mount_comes_first_and_the_kernels_own_are_left_out() {
        let table = b"1 0 0:1 / / ro - overlay overlay ro\n\
                      2 1 0:2 / /proc rw - proc proc rw\n\
                      3 1 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
                      4 1 8:1 / /data rw - ext4 /dev/sda4 rw\n\
                      5 1 8:1 /kubelet /var/lib/kubelet rw - ext4 /dev/sda4 rw\n\
                      6 5 0:9 / /var/lib/kubelet/a\\040b\\134040 rw - tmpfs tmpfs rw\n";
        assert_eq!(
            above_root(table),
            ["/var/lib/kubelet/a b\\040", "/var/lib/kubelet", "/data"].map(Path::new)
        );
    }

    #[test]
    fn a_mount_point_that_is_not_utf8_hides_no_other() {
        let table =
            b"4 1 8:1 / /data rw - ext4 /dev/sda4 rw\n5 4 0:9 / /data/\xff rw - tmpfs tmpfs rw\n";
        assert_eq!(
            above_root(table),
            [PathBuf::from(OsString::from_vec(b"/data/\xff".to_vec())), "/data".into()]
        );
    }
}
